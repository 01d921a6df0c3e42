"""Walkers keep off the walls, arrive, differ from each other, and go where the hour sends them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import drawing
from scipy import stats

from svfm_ros.clock import NS_PER_S, hours_of_day, parse_local_time
from svfm_ros.config.sim_config import HabitConfig, WalkerConfig
from svfm_ros.errors import DataError
from svfm_ros.sim.house import House, contains, distance_to_segments
from svfm_ros.sim.house_drawing import parse_drawing
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.trips import LabelledWalk, _drift, time_paths, walk_poses
from svfm_ros.sim.walker import (
    is_night,
    next_place_shares,
    route_book,
    simulate_days,
    simulate_habit,
    simulate_protocol,
    simulate_tour,
    span_of_days,
)
from svfm_ros.types import Walk

PLAIN = WalkerConfig()


def nearest_wall(house: House, xy: np.ndarray) -> float:
    """The exact distance of the nearest point to anything in the way; zero within something."""
    obstacles = house.obstacles()
    if any(contains(s.outline, xy).any() for s in obstacles) or not contains(house.rooms, xy).all():
        return 0.0
    return float(distance_to_segments(xy, np.concatenate([s.segments() for s in obstacles])).min())


def dense(walk: Walk) -> np.ndarray:
    """The path with points between its poses, so that nothing is jumped over."""
    t = np.linspace(0.0, walk.times_s[-1], 2 * len(walk.poses))
    return np.column_stack([np.interp(t, walk.times_s, walk.xy[:, i]) for i in (0, 1)])


def speeds(walk: Walk) -> np.ndarray:
    return np.hypot(*np.diff(walk.xy, axis=0).T) / np.diff(walk.times_s)


@pytest.fixture(scope="module")
def many(home: House, home_ways: RouteBook) -> list[LabelledWalk]:
    return simulate_habit(home, seed=3, count=1500, book=home_ways)


def test_nobody_comes_near_a_wall(any_house: House, any_ways: RouteBook) -> None:
    walks = simulate_habit(any_house, seed=1, count=80, book=any_ways)
    walks += simulate_days(any_house, seed=1, days=0.2, book=any_ways)
    assert len(walks) > 120
    xy = np.concatenate([dense(w.walk) for w in walks])
    assert nearest_wall(any_house, xy) >= PLAIN.body_radius_m


@settings(max_examples=12, deadline=None)
@given(
    pieces=st.lists(
        st.tuples(st.floats(1.8, 6.0), st.floats(0.3, 3.2), st.floats(0.2, 0.8), st.floats(0.2, 0.8)), max_size=4
    ),
    seed=st.integers(0, 1000),
)
def test_nobody_passes_furniture_wherever_it_stands(pieces: list[tuple[float, ...]], seed: int) -> None:
    furniture = [
        {"name": f"box {i}", "box": [x, y, x + w, y + d], "height": 1.0} for i, (x, y, w, d) in enumerate(pieces)
    ]
    try:
        house = parse_drawing(drawing(furniture=furniture))
        walks = simulate_protocol(house, seed=seed, repeats=5, targets=["kitchen"])
    except DataError:  # furniture on a place, or across the only way
        return
    assert nearest_wall(house, np.concatenate([dense(w.walk) for w in walks])) >= PLAIN.body_radius_m


def test_walks_begin_and_end_at_their_places(any_house: House, any_ways: RouteBook) -> None:
    for w in simulate_protocol(any_house, seed=2, book=any_ways):
        for place, xy in ((w.origin, w.walk.xy[0]), (w.destination, w.walk.xy[-1])):
            assert np.hypot(*(any_house.place(place).xy - xy)) <= any_house.place(place).radius_m
            assert any_house.places.names[int(any_house.places.assign(xy))] == place


def test_the_protocol_is_the_paper_s(any_house: House, any_ways: RouteBook) -> None:
    walks = simulate_protocol(any_house, seed=4, book=any_ways)
    assert {w.origin for w in walks} == {"couch"}
    ends = [w.destination for w in walks]
    assert {n: ends.count(n) for n in ends} == {"front_door": 10, "kitchen": 10, "landing": 10, "study": 10}
    assert ends != sorted(ends)  # in random order
    assert all(5.0 <= w.walk.times_s[-1] <= 10.0 for w in walks)
    stamps = np.concatenate([w.walk.stamps_ns for w in walks])
    assert np.all(np.diff(stamps) > 0)
    assert len({w.walk.walk_id for w in walks}) == 40


def test_with_the_ways_back_the_protocol_is_one_continuous_walk(home: House, home_ways: RouteBook) -> None:
    walks = simulate_protocol(home, seed=4, repeats=2, book=home_ways, and_back=True)
    assert [w.origin == "couch" for w in walks] == [True, False] * 8
    for a, b in pairwise(walks):
        assert a.destination == b.origin
        assert b.walk.xy[0] == pytest.approx(a.walk.xy[-1], abs=1e-6)
        assert b.walk.stamps_ns[0] > a.walk.stamps_ns[-1]


def test_cruising_speeds_are_log_normal(home: House) -> None:
    """On a long straight path, where no bend slows anybody down, speeds in the middle are the cruising speeds."""
    config = replace(PLAIN, speed_drift=0.0, pause_share=0.0, gait_share=0.0, speed_spread=0.2)
    paths = np.tile(np.column_stack([np.linspace(0, 20, 161), np.zeros(161)]), (2000, 1, 1))
    timed = time_paths(paths, config, np.random.default_rng(0))
    logs = np.log(timed.speed_mps[:, 80])
    assert logs.mean() == pytest.approx(np.log(config.speed_mps), abs=0.02)
    assert logs.std() == pytest.approx(0.2, rel=0.06)
    assert stats.normaltest(logs).pvalue > 1e-3


def test_speed_drifts_by_as_much_at_every_spot_of_the_way() -> None:
    drift = _drift(np.tile(np.linspace(0.0, 8.0, 33), (4000, 1)), 0.1, np.random.default_rng(0))
    assert np.abs(drift.mean(axis=0)).max() < 0.008
    assert drift.std(axis=0) == pytest.approx(0.1, rel=0.06)


def test_speeds_differ_from_walk_to_walk(many: list[LabelledWalk]) -> None:
    means = np.array([np.hypot(*np.diff(w.walk.xy, axis=0).T).sum() / w.walk.times_s[-1] for w in many])
    assert np.log(means).std() > 0.05


def test_walkers_start_from_rest_and_slow_down_to_a_stop(many: list[LabelledWalk]) -> None:
    for w in many[:100]:
        v = speeds(w.walk)
        assert v[0] < 0.1
        assert v[-1] < 0.1
        assert v.max() > 0.7
        seconds = [v[-25:].mean(), v[-50:-25].mean()]
        assert seconds[0] < 0.7 * seconds[1]


def test_acceleration_is_what_people_can_do(many: list[LabelledWalk]) -> None:
    for w in many[:100]:
        # The median over a second takes the steps of the gait out.
        v = np.convolve(speeds(w.walk), np.full(14, 1 / 14), mode="valid")
        assert np.abs(np.diff(v) * 25.0).max() < 2.0


def test_pauses(home: House, home_ways: RouteBook) -> None:
    config = replace(PLAIN, pause_share=1.0, pause_s=2.0, longest_s=30.0)
    for w in simulate_protocol(home, config, seed=5, repeats=3, book=home_ways):
        v = speeds(w.walk)
        middle = v[25:-25]
        assert np.sum(middle < 0.02) / config.rate_hz > 0.5
    config = replace(config, pause_share=0.0)
    for w in simulate_protocol(home, config, seed=5, repeats=3, book=home_ways):
        assert speeds(w.walk)[25:-25].min() > 0.2


def test_the_gait_beats_at_the_rhythm_of_the_steps() -> None:
    config = replace(PLAIN, speed_drift=0.0, pause_share=0.0, speed_spread=0.0, sway_m=0.0)
    paths = np.tile(np.column_stack([np.linspace(0, 40, 161), np.zeros(161)]), (1, 1, 1))
    rng = np.random.default_rng(0)
    _, poses = walk_poses(time_paths(paths, config, rng), config, rng)[0]
    v = (np.diff(poses[:, 0]) * config.rate_hz)[75:-75]
    power = np.abs(np.fft.rfft((v - v.mean()) * np.hanning(len(v))))
    assert np.fft.rfftfreq(len(v), 1 / config.rate_hz)[power.argmax()] == pytest.approx(config.step_hz, abs=0.06)
    assert np.ptp(v) / (2 * v.mean()) == pytest.approx(config.gait_share, rel=0.1)


def test_headings_follow_the_motion(many: list[LabelledWalk]) -> None:
    errors = []
    for w in many[:50]:
        step = np.diff(w.walk.xy, axis=0)
        fast = np.hypot(*step.T) * 25.0 > 0.5
        travel = np.arctan2(step[:, 1], step[:, 0])[fast]
        errors.append(np.angle(np.exp(1j * (w.walk.poses[:-1, 2][fast] - travel))))
    error = np.concatenate(errors)
    assert np.abs(error.mean()) < 0.02
    assert 0.02 < error.std() < 0.15  # the body sways about the direction of travel


def cross(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two polylines cross."""
    p, r = a[:-1, None], np.diff(a, axis=0)[:, None]
    q, s = b[None, :-1], np.diff(b, axis=0)[None]
    det = r[..., 0] * s[..., 1] - r[..., 1] * s[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = ((q - p)[..., 0] * s[..., 1] - (q - p)[..., 1] * s[..., 0]) / det
        u = ((q - p)[..., 0] * r[..., 1] - (q - p)[..., 1] * r[..., 0]) / det
    return bool(((t > 0) & (t < 1) & (u > 0) & (u < 1)).any())


def test_paths_differ_cross_and_split(many: list[LabelledWalk]) -> None:
    kitchen = [w.walk.xy for w in many if w.destination == "kitchen"][:20]
    study = [w.walk.xy for w in many if w.destination == "study"][:20]
    crossings = [cross(a, b) for i, a in enumerate(kitchen) for b in kitchen[:i]]
    assert np.mean(crossings) > 0.5
    for a, b in zip(kitchen, study, strict=True):
        shared = np.hypot(*(a[:60] - b[:60]).T)  # the first 2.4 s lead through the same door
        assert shared.max() < 1.5
        assert np.hypot(*(a[-1] - b[-1])) > 3.0
    half_way = np.stack([k[len(k) // 2] for k in kitchen])
    assert half_way.std(axis=0).max() > 0.1


def test_day_and_night(home: House, many: list[LabelledWalk]) -> None:
    habits = HabitConfig()
    hours = hours_of_day(np.array([w.walk.stamps_ns[0] for w in many]), habits.time_zone)
    night = np.array([is_night(h, habits) for h in hours])
    ends = np.array([w.destination for w in many])
    by_day = [np.sum(ends[~night] == n) for n in ("front_door", "kitchen", "landing", "study")]
    assert stats.chisquare(by_day).pvalue > 1e-3
    assert set(ends[night]) == {"landing", "kitchen"}
    assert np.mean(ends[night] == "landing") == pytest.approx(0.9, abs=0.04)
    assert night.mean() == pytest.approx(8 / 24, abs=0.04)


def test_a_day_is_one_life(home: House, home_ways: RouteBook) -> None:
    walks = simulate_days(home, seed=8, days=2.0, book=home_ways)
    assert walks[0].origin == "couch"
    gaps = []
    for a, b in pairwise(walks):
        assert a.destination == b.origin != b.destination
        assert b.walk.xy[0] == pytest.approx(a.walk.xy[-1], abs=1e-6)
        gaps.append((b.walk.stamps_ns[0] - a.walk.stamps_ns[-1]) * 1e-9)
    assert min(gaps) >= 3.0
    assert 100.0 < np.median(gaps) < 600.0
    pairs = {(w.origin, w.destination) for w in walks}
    assert len(pairs) == 20  # between any two of the five places
    hours = hours_of_day(np.array([w.walk.stamps_ns[0] for w in walks]), "Europe/London")
    at_night = [w for w, h in zip(walks, hours, strict=True) if is_night(float(h), HabitConfig())]
    assert at_night
    assert {w.destination for w in at_night} <= {"landing", "kitchen"}


def test_routine_is_predictable_and_wandering_is_not(home: House) -> None:
    routine, wandering = HabitConfig(profile="routine"), HabitConfig(profile="wandering")
    for hour in (3.0, 9.0, 15.0, 23.0):
        for place in home.places.names:
            a, b = (next_place_shares(home, h, place, hour) for h in (routine, wandering))
            assert a.sum() == pytest.approx(1.0)
            assert a.max() == pytest.approx(0.9)
            assert b == pytest.approx(np.full(5, 0.2))


def test_the_same_seed_gives_the_same_walks(home: House, home_ways: RouteBook) -> None:
    for simulate in (
        lambda seed: simulate_protocol(home, seed=seed, repeats=2, book=home_ways),
        lambda seed: simulate_habit(home, seed=seed, count=20, book=home_ways),
        lambda seed: simulate_days(home, seed=seed, days=0.1, book=home_ways),
    ):
        a, b, other = simulate(1), simulate(1), simulate(2)
        assert [w.destination for w in a] == [w.destination for w in b]
        for u, v in zip(a, b, strict=True):
            np.testing.assert_array_equal(u.walk.poses, v.walk.poses)
            np.testing.assert_array_equal(u.walk.stamps_ns, v.walk.stamps_ns)
        assert not np.array_equal(a[0].walk.poses, other[0].walk.poses)


def test_two_seeds_are_one_population(home: House, home_ways: RouteBook) -> None:
    """Training and held-out walks come from different seeds and must not differ in kind."""
    a, b = (simulate_protocol(home, seed=s, repeats=400, targets=["kitchen"], book=home_ways) for s in (1, 2))
    for feature in (lambda w: w.times_s[-1], lambda w: w.xy[-1, 0], lambda w: w.xy[len(w.xy) // 2, 1]):
        assert stats.ks_2samp([feature(w.walk) for w in a], [feature(w.walk) for w in b]).pvalue > 1e-3


def test_a_house_without_a_way_says_so() -> None:
    house = parse_drawing(drawing(doors=[]))
    with pytest.raises(DataError, match="cabin: expected a way for a body from 'couch' to 'kitchen', got none"):
        simulate_protocol(house, repeats=1)
    narrow = [{"name": "middle", "from": [4, 1.5], "to": [4, 1.9]}]
    with pytest.raises(DataError, match="expected a way for a body"):
        simulate_protocol(parse_drawing(drawing(doors=narrow)), repeats=1)
    places = [{**drawing()["places"][0], "x": 0.2}, *drawing()["places"][1:]]
    with pytest.raises(DataError, match="expected room for a body at"):
        simulate_protocol(parse_drawing(drawing(places=places)), repeats=1)


def test_night_needs_its_places() -> None:
    house = parse_drawing(drawing(places=drawing()["places"][:2]))
    with pytest.raises(DataError, match="expected a place 'landing' for walks at night"):
        simulate_habit(house, count=50, book=route_book(house))


def test_each_walk_begins_where_the_last_one_ended_and_not_before(home: House) -> None:
    stops = ["couch", "kitchen", "couch", "landing"]
    walks = simulate_tour(home, stops, seed=3, every_s=15.0, start_hour=10.0)
    assert [(w.origin, w.destination) for w in walks] == list(pairwise(stops))
    for before, after in pairwise(walks):
        np.testing.assert_allclose(before.walk.xy[-1], after.walk.xy[0], atol=0.05)
        assert after.walk.stamps_ns[0] - before.walk.stamps_ns[0] >= 15e9
    assert home.places.assign(walks[0].walk.xy[-1]) == home.places.names.index("kitchen")


def test_the_body_sways_once_with_each_pair_of_steps() -> None:
    config = WalkerConfig(step_hz=1.8, speed_spread=0.0, speed_drift=0.0, pause_share=0.0, sway_m=0.05, gait_share=0.0)
    path = np.column_stack([np.linspace(0.0, 40.0, 400), np.zeros(400)])[None]
    rng = np.random.default_rng(0)
    seconds, poses = walk_poses(time_paths(path, config, rng), config, rng)[0]
    strength = np.abs(np.fft.rfft(poses[:, 1]))
    frequency_hz = np.fft.rfftfreq(len(seconds), 1.0 / config.rate_hz)[strength.argmax()]
    assert frequency_hz == pytest.approx(0.9, abs=0.05)
    assert np.abs(poses[:, 1]).max() == pytest.approx(0.05, rel=0.05)


def test_days_begin_at_the_hour_asked_for() -> None:
    begin, end = span_of_days(HabitConfig(), 0.5, 9.25)
    assert begin == parse_local_time("2026-11-02T09:15", "Europe/London")
    assert end - begin == 12 * 3600 * NS_PER_S
