"""People, pets, doors, chairs, windows and mirrors, each with a known effect on the beams."""

from dataclasses import replace

import numpy as np
import pytest
from rooms import square_house

from svfm_ros.config.sim_config import HouseholdConfig, LidarConfig, RecordingConfig, SimConfig
from svfm_ros.sim.house import House, contains, distance_to_segments
from svfm_ros.sim.household import MovingBody, Pane, arrange, bystanders, glazing
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.sensors.lidar import Lidar
from svfm_ros.sim.sim_recording import Recorder
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.sim.wearer_motion import Motion, motion_of

IDEAL = LidarConfig(noise=False, quantisation=False, drops=False, motion=False, shadow=False, sway=False)
HALF = 4.0
ROOM = square_house(HALF)


def standing(x: float = 0.0, y: float = 0.0, theta: float = 0.0) -> Motion:
    return Motion(10**18, np.array([0.0, 1.0]), np.array([[x, y, theta]] * 2), np.zeros(2))


def sweep(
    panes: tuple[Pane, ...] = (), bodies: tuple[MovingBody, ...] = (), motion: Motion | None = None
) -> np.ndarray:
    lidar = Lidar(ROOM, IDEAL, panes=panes, bodies=bodies)
    return next(iter(lidar.sweeps(motion or standing(), 0))).ranges


def test_a_person_hides_what_is_behind_them() -> None:
    person = MovingBody(0.25, 1.8, standing(2.0, 0.0))
    ranges, empty = sweep(bodies=(person,)), sweep()
    assert ranges[180] == pytest.approx(1.75, abs=1e-5)  # straight ahead
    hidden = np.flatnonzero(ranges < empty - 1e-3)
    assert len(hidden) == pytest.approx(2 * np.degrees(np.arcsin(0.25 / 2.0)), abs=1.5)
    assert ranges[0] == pytest.approx(HALF, abs=1e-5)
    pet = MovingBody(0.2, 0.5, standing(2.0, 0.0))
    np.testing.assert_array_equal(sweep(bodies=(pet,)), empty)  # lower than level beams


def test_people_move_while_the_sensor_turns() -> None:
    walk = Motion(10**18, np.array([0.0, 1.0]), np.array([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]), np.zeros(2))
    lidar = Lidar(ROOM, IDEAL, bodies=(MovingBody(0.2, 1.8, walk),))
    ahead = [s.ranges[180] for s in lidar.sweeps(standing(), 0)]
    assert ahead == pytest.approx(0.8 + 0.2 * np.arange(10), abs=1e-4)


def test_nobody_walks_through_the_wearer() -> None:
    body = MovingBody(0.2, 1.8, standing(0.1, 0.0))
    centre = body.positions(10**18, np.zeros(1), np.zeros((1, 2)))
    assert centre[0] == pytest.approx([0.5, 0.0])


def test_a_window_is_seen_head_on_only() -> None:
    window = Pane(np.array([HALF, -3.0]), np.array([HALF, 3.0]), 0.5, 2.0, False)
    ranges, empty = sweep((window,)), sweep()
    angle = np.degrees(np.arctan2(np.sin(np.radians(np.arange(360) - 180)), 1.0))
    assert ranges[180] == pytest.approx(HALF, abs=1e-5)
    assert np.isinf(ranges[180 + 20])
    assert ranges[90] == empty[90]  # another wall
    assert ranges[180 + 40] == empty[180 + 40]  # beside the pane
    assert len(angle) == 360
    high = replace(window, bottom_m=1.5)
    np.testing.assert_array_equal(sweep((high,)), empty)


def test_a_mirror_shows_the_room_behind_the_viewer() -> None:
    mirror = Pane(np.array([HALF, -3.0]), np.array([HALF, 3.0]), 0.5, 2.0, True)
    ranges = sweep((mirror,), motion=standing(1.0, 0.0))
    assert ranges[180] == pytest.approx(3.0 + 2 * HALF, abs=2e-3)  # to the mirror, and across the whole room
    slant = np.radians(30.0)
    there = 3.0 / np.cos(slant)
    back = (HALF - 3.0 * np.tan(slant)) / np.sin(slant)  # to the side wall, sooner than across the room
    assert ranges[210] == pytest.approx(there + back, abs=5e-3)


def test_panes_are_in_the_walls_around_the_rooms(any_house: House) -> None:
    panes = glazing(any_house, HouseholdConfig(windows=4, mirrors=3))
    assert [p.mirror for p in panes] == [False] * 4 + [True] * 3
    walls = np.concatenate([s.segments() for s in any_house.solids if s.kind == "wall"])
    for pane in panes:
        ends = np.stack([pane.start, pane.end])
        assert distance_to_segments(ends, walls).max() < 1e-6
        assert 0.5 < np.hypot(*(pane.end - pane.start)) < 2.0
    assert glazing(any_house, HouseholdConfig()) == ()


@pytest.fixture(scope="module")
def to_kitchen(home: House, home_ways: RouteBook) -> Motion:
    walks = simulate_protocol(home, seed=2, repeats=1, targets=["kitchen"], book=home_ways)
    return motion_of([w.walk for w in walks], 1.0, 1.0, 0)


def leaves(house: House) -> dict[str, np.ndarray]:
    return {s.name: s.outline for s in house.solids if s.kind == "door"}


def test_doors_differ_by_day_and_never_stand_in_the_way(home: House, to_kitchen: Motion) -> None:
    config = HouseholdConfig(doors=True, door_shut_share=0.5)
    path = to_kitchen.poses[:, :2]
    days = [arrange(home, config, day, path) for day in range(20000, 20020)]
    angles = {name: {d[name].round(3).tobytes() for d in map(leaves, days)} for name in leaves(home)}
    assert len(angles["study"]) > 5
    assert len(angles["front"]) == 1  # drawn shut: stays so
    shut = [d for d in days if np.ptp(leaves(d)["study"][:, 0]) < 0.05]
    assert 4 <= len(shut) <= 16
    for day in days:
        for leaf in leaves(day).values():
            assert not contains(leaf, path).any()
        passed = [s for s in day.solids if s.kind == "door" and s.name in ("living room", "kitchen")]
        assert all(distance_to_segments(path, s.segments()).min() > 0.2 for s in passed)
    again = arrange(home, config, 20000, path)
    assert leaves(again)["study"].tolist() == leaves(days[0])["study"].tolist()


def test_chairs_move_and_clutter_appears(home: House, to_kitchen: Motion) -> None:
    path = to_kitchen.poses[:, :2]
    config = HouseholdConfig(furniture_m=0.3, clutter=4)
    day = arrange(home, config, 20001, path)
    before = {s.name: s.outline for s in home.solids if s.kind == "furniture"}
    moved = [s for s in day.solids if s.name in before and s.outline.tolist() != before[s.name].tolist()]
    assert len(moved) >= 3
    assert not {"couch", "kitchen table"} & {s.name for s in moved}
    clutter = [s for s in day.solids if s.name == "clutter"]
    assert 1 <= len(clutter) <= 4
    for s in [*moved, *clutter]:
        assert distance_to_segments(path, s.segments()).min() >= 0.25
    walls = [s.outline.tolist() for s in home.solids if s.kind == "wall"]
    assert [s.outline.tolist() for s in day.solids if s.kind == "wall"] == walls


def test_chairs_move_by_about_the_distance_asked_for(home: House, to_kitchen: Motion) -> None:
    path, config = to_kitchen.poses[:, :2], HouseholdConfig(furniture_m=0.1)
    before = {s.name: s.outline[0] for s in home.solids if s.kind == "furniture"}
    days = [arrange(home, config, 20000 + day, path) for day in range(40)]
    steps = [s.outline[0] - before[s.name] for day in days for s in day.solids if s.name in before]
    moved = np.array([step for step in steps if np.any(step != 0.0)])
    assert len(moved) > 100
    assert moved.std() == pytest.approx(0.1, rel=0.15)  # those that would stand in the way stay, mostly long steps
    assert np.abs(moved).max() < 0.5


def test_bystanders_are_there_all_the_time(home_ways: RouteBook, to_kitchen: Motion) -> None:
    bodies = bystanders(home_ways, HouseholdConfig(people=2, pets=1), to_kitchen, 3)
    assert [b.top_m > 1.0 for b in bodies] == [True, True, False]
    end_ns = to_kitchen.start_ns + round(to_kitchen.duration_s * 1e9)
    for body in bodies:
        assert body.motion.start_ns <= to_kitchen.start_ns
        assert body.motion.start_ns + body.motion.duration_s * 1e9 >= end_ns
        assert np.ptp(body.motion.poses[:, :2], axis=0).max() > 1.0


def test_a_household_changes_scans_and_an_empty_one_does_not(home: House, home_ways: RouteBook) -> None:
    walks = simulate_protocol(home, seed=2, repeats=1, book=home_ways)
    recording = RecordingConfig(before_s=0.5, after_s=0.5)
    plain = Recorder(home, SimConfig(lidar=IDEAL, recording=recording))
    busy = Recorder(home, SimConfig(lidar=IDEAL, recording=recording, household=HouseholdConfig(people=4)))
    shares = []
    for a, b in zip(plain.one_per_walk(walks, 0), busy.one_per_walk(walks, 0), strict=True):
        one = np.array([s.ranges for s in plain.scans(a)])
        two = np.array([s.ranges for s in busy.scans(b)])
        assert np.all(two <= one + 1e-5)
        shares.append(np.mean(two < one - 0.05))
    assert 0.01 < np.mean(shares) < 0.3
    off = Recorder(home, SimConfig(lidar=IDEAL, recording=recording, household=HouseholdConfig()))
    first = off.one_per_walk(walks, 0)[0]
    for u, v in zip(off.scans(first), plain.scans(first), strict=True):
        np.testing.assert_array_equal(u.ranges, v.ranges)


def test_the_house_is_rearranged_from_day_to_day_and_not_within_one(home: House, home_ways: RouteBook) -> None:
    walk = simulate_protocol(home, seed=2, repeats=1, book=home_ways)[0]
    household = HouseholdConfig(doors=True, furniture_m=0.3)
    recorder = Recorder(home, SimConfig(lidar=IDEAL, recording=RecordingConfig(), household=household))

    def seen(later_ns: int) -> np.ndarray:
        moved = replace(walk, walk=replace(walk.walk, stamps_ns=walk.walk.stamps_ns + later_ns))
        return next(iter(recorder.scans(recorder.one_per_walk([moved], 0)[0]))).ranges

    hour_ns = 3600 * 10**9
    np.testing.assert_allclose(seen(hour_ns), seen(0), atol=1e-4)
    assert any(np.abs(seen(24 * days * hour_ns) - seen(0)).max() > 0.05 for days in (1, 2, 3))
