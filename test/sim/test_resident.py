"""Residents walk at their own pace, on their own side, by habits that are known exactly."""

from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from svfm_ros.clock import hours_of_day
from svfm_ros.config.sim_config import HabitConfig, ResidentConfig, SimConfig, WalkerConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.resident import Resident, random_resident, simulate_living, simulate_resident
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.trips import LabelledWalk, PauseSpot, WalkingStyle, time_paths

PLAIN = ResidentConfig()
MONDAY, SATURDAY = date(2026, 11, 2), date(2026, 11, 7)


@pytest.fixture(scope="module")
def person(home: House, home_ways: RouteBook) -> Resident:
    return random_resident(home, 3, book=home_ways)


@pytest.fixture(scope="module")
def month(home: House, home_ways: RouteBook, person: Resident) -> list[LabelledWalk]:
    return simulate_resident(home, person, days=60, book=home_ways)


def distance(a: dict[str, float], b: dict[str, float]) -> float:
    """Total variation."""
    return 0.5 * sum(abs(a[n] - b[n]) for n in a)


def test_the_ways_through_the_house_are_found_where_none_are_given(
    home: House, home_ways: RouteBook, person: Resident
) -> None:
    given, found = (simulate_resident(home, person, walks=2, book=book) for book in (home_ways, None))
    for a, b in zip(given, found, strict=True):
        assert (a.origin, a.destination) == (b.origin, b.destination)
        np.testing.assert_array_equal(a.walk.poses, b.walk.poses)


def test_shares_are_probabilities(person: Resident) -> None:
    for origin in person.places:
        for hour in (3.0, 8.0, 15.0, 20.0):
            shares = person.shares(origin, hour)
            assert sum(shares.values()) == pytest.approx(1.0)
            assert shares[origin] == 0.0
    with pytest.raises(DataError, match="'attic'"):
        person.shares("attic", 3.0)


def test_walks_follow_the_shares(person: Resident, month: list[LabelledWalk]) -> None:
    hours = hours_of_day(np.array([w.walk.stamps_ns[0] for w in month]), person.time_zone)
    counted = 0
    for origin in person.places:
        for low, high in ((8.0, 11.5), (13.0, 17.0), (18.0, 21.5)):  # well within the periods of anybody's day
            ends = [w.destination for w, h in zip(month, hours, strict=True) if w.origin == origin and low <= h < high]
            if len(ends) < 40:
                continue
            counted += 1
            seen = {n: ends.count(n) / len(ends) for n in person.places}
            assert distance(seen, person.shares(origin, 0.5 * (low + high))) < 1.6 / np.sqrt(len(ends)) + 0.02
    assert counted >= 6


def test_a_month_is_one_life(month: list[LabelledWalk], person: Resident) -> None:
    for a, b in pairwise(month):
        assert a.destination == b.origin != b.destination
        assert np.hypot(*(b.walk.xy[0] - a.walk.xy[-1])) < 0.02
        assert b.walk.stamps_ns[0] > a.walk.stamps_ns[-1]
    assert {w.walk.resident for w in month} == {person.name}
    assert len({w.walk.walk_id for w in month}) == len(month)
    hours = hours_of_day(np.array([w.walk.stamps_ns[0] for w in month]), person.time_zone)
    at_night = np.mean([person.is_night(float(h)) for h in hours])
    assert 0.0 < at_night < 0.15


def test_the_pace_of_a_walk_is_log_normal_and_scales_all_of_it(home: House) -> None:
    """On the same bent path, durations without the pause differ by the pace alone."""
    s = np.linspace(0.0, 1.5 * np.pi, 161)
    path = np.tile(np.column_stack([2 * np.cos(s), np.sin(2 * s)]), (4000, 1, 1))
    walker = replace(WalkerConfig(), speed_spread=0.0, speed_drift=0.0, pause_share=0.0)
    timed = time_paths(path, walker, np.random.default_rng(0), WalkingStyle(pace_spread=0.2))
    logs = np.log(timed.duration_s())
    assert logs.std() == pytest.approx(0.2, rel=0.05)
    assert stats.normaltest(logs).pvalue > 1e-3


def test_walks_end_with_a_still_second(month: list[LabelledWalk]) -> None:
    for w in month[:200]:
        last = w.walk.xy[w.walk.times_s >= w.walk.times_s[-1] - 1.0]
        assert np.hypot(*(last - last[-1]).T).max() < 0.01
        before = w.walk.xy[w.walk.times_s >= w.walk.times_s[-1] - 2.0]
        assert np.hypot(*(before - before[-1]).T).max() > 0.02


def test_pauses_are_at_their_spot() -> None:
    path = np.tile(np.column_stack([np.linspace(0, 8, 161), np.zeros(161)]), (2000, 1, 1))
    style = WalkingStyle(pauses=(PauseSpot(3.0, 0.3, 0.25, 2.0), PauseSpot(3.0, 4.0, 1.0, 2.0)))
    timed = time_paths(path, WalkerConfig(), np.random.default_rng(0), style)
    paused = timed.pause_s > 0.0
    assert paused.mean() == pytest.approx(0.25, abs=0.04)  # nobody passes the second spot
    assert timed.xy[0, timed.pause_at[paused][0], 0] == pytest.approx(3.0, abs=0.05)
    assert np.median(timed.pause_s[paused]) == pytest.approx(2.0, rel=0.1)


def test_people_keep_to_their_side(home: House, home_ways: RouteBook, person: Resident) -> None:
    """Left and right of the same way: the mean paths of two residents lie apart."""
    middles = []
    for side in (0.2, -0.2):
        style = replace(person.style, side_m=side, route_weights=(1.0, *7 * (0.0,)), pauses=())
        someone = replace(person, style=style)
        walks = simulate_resident(home, someone, walks=400, book=home_ways)
        paths = [w.walk.xy for w in walks if (w.origin, w.destination) == ("couch", "kitchen")]
        crossing = [xy[np.argmax(xy[:, 1] > 3.6)] for xy in paths]  # in the hall, northwards: left is west
        middles.append(np.mean(crossing, axis=0))
    assert 0.08 < middles[1][0] - middles[0][0] < 0.5


def test_weekends_differ_when_asked_to(home: House, home_ways: RouteBook) -> None:
    plain = random_resident(home, 5, book=home_ways)
    other = random_resident(home, 5, replace(PLAIN, weekend=True), home_ways)
    for origin in home.places.names:
        assert plain.shares(origin, 10.0, SATURDAY) == plain.shares(origin, 10.0, MONDAY)
    apart = [distance(other.shares(n, 10.0, SATURDAY), other.shares(n, 10.0, MONDAY)) for n in home.places.names]
    assert np.mean(apart) > 0.2


def test_a_new_routine_begins_on_its_day(home: House, home_ways: RouteBook) -> None:
    person = random_resident(home, 6, replace(PLAIN, change_day=20), home_ways)
    before, after = MONDAY + timedelta(days=19), MONDAY + timedelta(days=20)
    names = home.places.names
    assert person.shares("couch", 9.0, before) == person.shares("couch", 9.0, MONDAY)
    assert np.mean([distance(person.shares(n, 9.0, before), person.shares(n, 9.0, after)) for n in names]) > 0.2
    walks = simulate_resident(home, person, days=60, book=home_ways)
    days = np.array([w.walk.stamps_ns[0] for w in walks])
    late = days >= days[0] + 20 * 86400 * 10**9
    ends = [w.destination for w, late_ in zip(walks, late, strict=True) if late_ and w.origin == "couch"]
    hours = hours_of_day(days, person.time_zone)
    morning = [
        w.destination for w, h, x in zip(walks, hours, late, strict=True) if x and w.origin == "couch" and 8 <= h < 11.5
    ]
    assert len(ends) > len(morning) > 20
    seen = {n: morning.count(n) / len(morning) for n in names}
    assert distance(seen, person.shares("couch", 9.0, after)) < distance(seen, person.shares("couch", 9.0, before))


def test_residents_differ_and_repeat(home: House, home_ways: RouteBook) -> None:
    a, again, b = (random_resident(home, seed, book=home_ways) for seed in (1, 1, 2))
    assert (a.walker, a.style, a.borders_h) == (again.walker, again.style, again.borders_h)
    assert a.shares("couch", 9.0) == again.shares("couch", 9.0) != b.shares("couch", 9.0)
    assert a.walker.speed_mps != b.walker.speed_mps
    one, two = (simulate_resident(home, a, walks=30, seed=s, book=home_ways) for s in (1, 1))
    for u, v in zip(one, two, strict=True):
        np.testing.assert_array_equal(u.walk.poses, v.walk.poses)


def test_paces_of_the_population(home: House, home_ways: RouteBook) -> None:
    paces = [random_resident(home, s, replace(PLAIN, pause_spots=0), home_ways).walker.speed_mps for s in range(200)]
    assert np.log(paces).std() == pytest.approx(PLAIN.pace_between, rel=0.2)
    assert np.median(paces) == pytest.approx(PLAIN.pace_mps, rel=0.04)


def test_living_is_the_resident_s_or_the_profile_s(home: House) -> None:
    drawn = SimConfig(resident=ResidentConfig(seed=4, dwell_s=60.0), habits=HabitConfig())
    assert {w.walk.resident for w in simulate_living(home, drawn, 0, 0.1)} == {"resident-4"}
    assert {w.walk.resident for w in simulate_living(home, SimConfig(), 0, 0.1)} == {"resident"}


def test_what_cannot_be_simulated_is_refused(home: House, home_ways: RouteBook, person: Resident) -> None:
    for amount in ({}, {"days": 1.0, "walks": 3}):
        with pytest.raises(UsageError, match="either days or walks"):
            simulate_resident(home, person, book=home_ways, **amount)
    with pytest.raises(DataError, match="the house they were drawn for"):
        simulate_resident(load_house("random:1"), person, days=1.0)
    with pytest.raises(UsageError, match="hour of the day"):
        simulate_resident(home, person, days=1.0, start_hour=30.0, book=home_ways)
