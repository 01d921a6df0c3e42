"""Loop closure: a place that was seen before is recognised, others are not, and a wrong answer is taken back."""

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, OTHER, polygon, scan_at, scans_along, walk, wall

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.backend import Job, Mapper
from svfm_ros.slam.keyframes import Keyframes, MapView
from svfm_ros.slam.loops.loop_candidates import LoopQuery, similar_candidates
from svfm_ros.slam.loops.loop_search import LoopSearch
from svfm_ros.slam.loops.submap import Submap, SubmapSpan, draw
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.preprocess import cloud_from_scan
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.types import Constraint, Pose2

CONFIG = SlamConfig(local_keyframes=16, submap_keyframes=16, loop_group=8)
ROUND = ((1.5, 1.2), (2.8, 3.2), (5.2, 3.2), (5.4, 1.5), (5.2, 3.2), (2.8, 3.2))
STEP = np.diag([1e4, 1e4, 4e4])


def keyframes_along(
    walls: np.ndarray, truth: np.ndarray, believed: np.ndarray, into: Keyframes | None = None
) -> Keyframes:
    """Keyframes that saw what is true and lie where one believes."""
    keyframes = into or Keyframes(CONFIG.keyframe_distance_m)
    for pose, where in zip(truth, believed, strict=True):
        k = len(keyframes)
        cloud = cloud_from_scan(scan_at(walls, pose, k + 1, noise_m=0.01), np.zeros(3), CONFIG)
        keyframes.add(k, cloud, where, before=k - 1 if k else None, variance=np.array([1e-4, 1e-5]))
    return keyframes


def there_and_back() -> tuple[np.ndarray, np.ndarray]:
    truth = walk(*ROUND, *ROUND[:3])[::3]  # 0.3 m apart
    believed = truth.copy()
    believed[25:] = geometry.compose([0.3, -0.4, 0.05], truth[25:])  # one step went wrong
    return truth, believed


def test_a_submap_of_unknown_pose_is_searched_around_the_middle_of_its_path() -> None:
    truth, _ = there_and_back()
    keyframes = keyframes_along(FLAT, truth[:16], truth[:16])
    cloud = cloud_from_scan(scan_at(FLAT, truth[16], 17, noise_m=0.01), np.zeros(3), CONFIG)
    keyframes.add(16, cloud, truth[16], before=None, variance=np.array([1e-4, 1e-5]))  # tracking was lost
    view = keyframes_along(FLAT, truth[17:], truth[17:], keyframes).snapshot()
    submap = draw(SubmapSpan(0, 0, 16), view.pool, view.poses)
    query = LoopQuery(len(truth) - 8, len(truth), np.empty(0, dtype=np.int64))
    (candidate,) = similar_candidates(view, (submap,), query, cloud, CONFIG)
    path = geometry.relative(truth[submap.span.anchor], truth[:16])[:, :2]
    middle = path.mean(axis=0)
    assert candidate.guess.T_map_scan.as_array() == pytest.approx([*middle, 0.0])
    assert candidate.guess.reach_m == pytest.approx(np.hypot(*(path - middle).T).max() + 2.0)  # and 2 m beside it
    assert candidate.guess.turn_rad == pytest.approx(np.pi)


def test_a_place_seen_before_is_recognised_where_it_is() -> None:
    truth, believed = there_and_back()
    view = keyframes_along(FLAT, truth, believed).snapshot()
    submaps = (draw(SubmapSpan(0, 0, 16), view.pool, view.poses),)
    query = LoopQuery(len(truth) - 8, len(truth), np.empty(0, dtype=np.int64))
    found = LoopSearch(CONFIG).find(view, submaps, query)
    assert len(found) == 1
    loop = found[0]
    wanted = geometry.relative(truth[loop.from_id], truth[loop.to_id])
    before = geometry.relative(believed[loop.from_id], believed[loop.to_id])
    gap = geometry.relative(wanted, loop.T_from_to.as_array())
    assert np.hypot(*gap[:2]) < 0.05
    assert abs(gap[2]) < 0.02
    assert np.hypot(*geometry.relative(wanted, before)[:2]) > 0.2  # there was something to correct


def test_another_place_is_not_mistaken_for_it() -> None:
    truth, believed = there_and_back()
    keyframes = keyframes_along(FLAT, truth[:16], believed[:16])
    # The rest of the way is through another flat, believed to be in the first.
    elsewhere = walk((1.0, 1.2), (3.3, 0.5), (7.4, 0.6), (7.2, 2.6), (10.0, 2.5))[::3]
    n = min(len(elsewhere), len(truth) - 16)
    view = keyframes_along(OTHER, elsewhere[:n], believed[16 : 16 + n], keyframes).snapshot()
    submaps = (draw(SubmapSpan(0, 0, 16), view.pool, view.poses),)
    for last in range(30, len(view.poses), 4):
        assert LoopSearch(CONFIG).find(view, submaps, LoopQuery(last - 8, last, np.empty(0, dtype=np.int64))) == []


def test_a_drifting_walk_is_put_right() -> None:
    """All of SLAM, with the drift of a sensor that reads one in a hundred short."""
    poses = walk(*ROUND, *ROUND, *ROUND)
    slam = Slam(CONFIG)
    for scan in scans_along(FLAT, poses, noise_m=0.02):
        slam.add_scan(scan)
    slam.finish()
    assert slam.counters["loops_found"] > 0
    assert slam.counters["loops_refused"] == 0
    assert absolute_error(slam.trajectory().poses, poses).rmse_m < 0.03


def steps_of(poses: np.ndarray) -> tuple[Constraint, ...]:
    moved = geometry.relative(poses[:-1], poses[1:])
    return tuple(Constraint(k, k + 1, Pose2.from_array(m), STEP, "odometry") for k, m in enumerate(moved))


def test_a_closure_that_bends_the_way_is_dropped_and_all_is_as_before() -> None:
    truth, believed = there_and_back()
    view = keyframes_along(FLAT, truth, believed).snapshot()
    mapper = Mapper(CONFIG)
    mapper.process([Job(view, steps_of(believed))])
    lie = Constraint(2, len(truth) - 3, Pose2(3.0, 3.0, 2.0), STEP, "loop")
    mapper._search.find = lambda *_: [lie]  # type: ignore[method-assign]
    mapper.process([Job(view, query=LoopQuery(len(truth) - 8, len(truth), np.empty(0, dtype=np.int64)))])
    correction = mapper.process([Job(view, must_optimise=True)])
    assert correction is not None
    assert not any(loop.accepted for loop in correction.loops)
    assert correction.poses == pytest.approx(believed, abs=1e-3)


def test_a_trial_that_fails_costs_no_loop_that_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svfm_ros.slam.backend._MAX_STEP_CHI2", -1.0)  # so that every new one is turned down
    truth, believed = there_and_back()
    view = keyframes_along(FLAT, truth, believed).snapshot()
    mapper = Mapper(CONFIG)
    known = Constraint(3, 20, Pose2.from_array(geometry.relative(believed[3], believed[20])), STEP, "loop")
    mapper.process([Job(view, steps_of(believed), loops=(known,))])
    new = Constraint(2, 22, Pose2.from_array(geometry.relative(believed[2], believed[22])), STEP, "loop")
    mapper._search.find = lambda *_: [new]  # type: ignore[method-assign]
    mapper.process([Job(view, query=LoopQuery(len(truth) - 8, len(truth), np.empty(0, dtype=np.int64)))])
    correction = mapper.process([Job(view, must_optimise=True)])
    assert correction is not None
    assert [loop.constraint for loop in correction.loops] == [known]


def test_the_end_of_a_recording_is_searched_for_loops() -> None:
    """No query is due before the end, so that only ``finish`` can find the loop."""
    poses = walk(*ROUND, *ROUND[:3])
    slam = Slam(replace(CONFIG, loop_every=1000))
    for scan in scans_along(FLAT, poses, noise_m=0.02):
        slam.add_scan(scan)
    assert slam.counters["loops_found"] == 0
    slam.finish()
    assert slam.counters["loops_found"] > 0
    assert absolute_error(slam.trajectory().poses, poses).rmse_m < 0.03


def test_scans_do_not_wait_for_the_loop_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that never ends by itself, in its thread: all scans are placed meanwhile."""
    all_placed, in_time = threading.Event(), []

    def endless(self: LoopSearch, *_: object) -> list[Constraint]:
        in_time.append(all_placed.wait(60.0))
        return []

    monkeypatch.setattr(LoopSearch, "find", endless)
    slam = Slam(CONFIG, background=True)
    updates = [slam.add_scan(s) for s in scans_along(FLAT, walk(*ROUND))]
    all_placed.set()
    slam.finish()
    assert all(u.match is not None for u in updates[1:])
    assert in_time
    assert all(in_time)


def test_a_search_looks_into_a_bounded_number_of_submaps(monkeypatch: pytest.MonkeyPatch) -> None:
    view, submaps, queries = joining_query(FLAT, OTHER, ROUND, Pose2(20.0, -7.0, 1.1))
    looked_into: list[int] = []
    monkeypatch.setattr(Submap, "target", _noting(Submap.target, looked_into))
    LoopSearch(replace(CONFIG, loop_alike=2)).find(view, submaps, queries[0])
    assert len(submaps) > 2
    assert len(set(looked_into)) == 2


def _noting(target: Callable[[Submap], LocalMap], looked_into: list[int]) -> Callable[[Submap], LocalMap]:
    def noted(submap: Submap) -> LocalMap:
        looked_into.append(submap.span.submap_id)
        return target(submap)

    return noted


def test_a_kidnapped_sensor_begins_anew_and_is_joined_when_it_comes_back() -> None:
    """It is put into the other room, where it was never before, and then walks back to where it came from."""
    first = walk(*ROUND[:2], (1.2, 3.4), (1.2, 1.4), (2.6, 1.2), (2.8, 3.0))
    second = walk((6.2, 2.4), (8.3, 2.6), (6.0, 2.0), (5.2, 3.2), (2.8, 3.2), (1.2, 3.4), (1.2, 1.4), (2.6, 1.2))
    slam = Slam(CONFIG)
    updates = [slam.add_scan(s) for s in scans_along(FLAT, np.concatenate([first, second]))]
    slam.finish()
    assert slam.counters["chains_begun"] == 1
    assert any("new chain" in u.reason for u in updates)
    assert slam.counters["pieces_left_out"] == 0
    placed = slam.trajectory()
    row = np.rint((placed.stamps_ns - 10**9) / 125e6).astype(int)
    assert absolute_error(placed.poses, np.concatenate([first, second])[row]).worst_m < 0.15
    assert len(placed) > 0.9 * (len(first) + len(second))


def test_an_island_that_never_meets_the_map_is_left_out_of_it() -> None:
    first = walk(*ROUND, *ROUND)
    second = walk((1.0, 1.2), (3.3, 0.5), (7.4, 0.6), (7.2, 2.6))
    slam = Slam(CONFIG)
    for scan in scans_along(FLAT, first):
        slam.add_scan(scan)
    for scan in scans_along(OTHER, second, start_ns=10**9 + len(first) * 125_000_000):
        slam.add_scan(scan)
    slam.finish()
    assert slam.counters["pieces_left_out"] == 1
    assert len(slam.trajectory()) <= len(first) + 3
    assert slam.counters["scans_in_pieces_left_out"] > 40
    assert absolute_error(slam.trajectory().poses[: len(first)], first).rmse_m < 0.03


# A hall that looks the same after half a turn, and what may stand in one of its ends.
TWIN_HALL = np.concatenate(
    [
        polygon(
            (-5, -2),
            (-1, -2),
            (-1, -3.5),
            (2, -3.5),
            (2, -2),
            (5, -2),
            (5, 2),
            (1, 2),
            (1, 3.5),
            (-2, 3.5),
            (-2, 2),
            (-5, 2),
        )
    ]
)
ONE_END = np.concatenate([polygon((3.6, 0.2), (4.2, 0.2), (4.2, 1.4), (3.6, 1.4)), wall(2.6, -2, 2.6, -0.9)])
ROUND_THE_HALL = ((-3.8, 0.5), (-0.5, 1.0), (1.5, -1.0), (3.0, 0.3), (1.0, 1.2), (-1.0, -1.2), (-3.8, -0.5))


def joining_query(
    first_walls: np.ndarray, second_walls: np.ndarray, way: tuple[tuple[float, float], ...], frame: Pose2
) -> tuple[MapView, tuple[Submap, ...], list[LoopQuery]]:
    """A second chain, whose ``frame`` is not known: the map, submaps of the first and queries along the second."""
    first, second = walk(*way)[::3], walk(*way[1:], way[0])[::3]
    keyframes = keyframes_along(first_walls, first, first)
    start, none = len(first), np.empty(0, dtype=np.int64)
    for k, pose in enumerate(second):
        cloud = cloud_from_scan(scan_at(second_walls, pose, 10**6 + k, noise_m=0.01), np.zeros(3), CONFIG)
        where, before = geometry.compose(frame.as_array(), pose), start + k - 1 if k else None
        keyframes.add(start + k, cloud, where, before=before, variance=np.array([1e-4, 1e-5]))
    view = keyframes.snapshot()
    spans = [SubmapSpan(i, first, min(first + 16, start)) for i, first in enumerate(range(0, start - 8, 8))]
    queries = [LoopQuery(last - 8, last, none) for last in range(start + 8, start + len(second), 3)]
    return view, tuple(draw(span, view.pool, view.poses) for span in spans), queries


def is_where(view: MapView, loop: Constraint, frame: Pose2) -> bool:
    start, end = (Pose2.from_array(view.poses[k]) for k in (loop.from_id, loop.to_id))
    gap = (start @ loop.T_from_to).inverse() @ (frame.inverse() @ end)
    return bool(np.hypot(gap.x, gap.y) < 0.1 and abs(gap.theta) < 0.05)


def test_a_piece_joins_only_by_loops_that_agree() -> None:
    frame = Pose2(20.0, -7.0, 1.1)
    view, submaps, queries = joining_query(FLAT, FLAT, ROUND, frame)
    search = LoopSearch(CONFIG)
    joined = next(loops for loops in (search.find(view, submaps, q) for q in queries) if loops)
    assert len(joined) >= 3  # never by one or two
    assert all(is_where(view, loop, frame) for loop in joined)


def test_one_false_match_does_not_join_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that contradict each other wait, however well each of them matches."""
    view, submaps, queries = joining_query(FLAT, FLAT, ROUND, Pose2(20.0, -7.0, 1.1))
    search, turn = LoopSearch(CONFIG), iter(np.linspace(0.0, 6.0, len(queries)))
    right = search._constraint

    def anywhere(found, query: LoopQuery) -> Constraint:
        return replace(right(found, query), T_from_to=Pose2(0.0, 0.0, float(next(turn))))

    monkeypatch.setattr(search, "_constraint", anywhere)
    assert not any(search.find(view, submaps, q) for q in queries)


def test_a_half_turn_look_alike_is_refused() -> None:
    """Each pose in the bare hall matches as well as the one turned by half."""
    view, submaps, queries = joining_query(TWIN_HALL, TWIN_HALL, ROUND_THE_HALL, Pose2(20.0, -7.0, np.pi))
    search = LoopSearch(CONFIG)
    assert not any(search.find(view, submaps, q) for q in queries)


def test_furniture_tells_the_ends_of_a_hall_apart() -> None:
    frame, hall = Pose2(20.0, -7.0, np.pi), np.concatenate([TWIN_HALL, ONE_END])
    view, submaps, queries = joining_query(hall, hall, ROUND_THE_HALL, frame)
    search = LoopSearch(CONFIG)
    joined = [loop for q in queries for loop in search.find(view, submaps, q)]
    assert joined
    assert all(is_where(view, loop, frame) for loop in joined)


def test_a_piece_does_not_join_another_flat() -> None:
    view, submaps, queries = joining_query(FLAT, OTHER, ROUND, Pose2(20.0, -7.0, 1.1))
    search = LoopSearch(CONFIG)
    assert not any(search.find(view, submaps, q) for q in queries)


def test_a_recording_cut_and_shuffled_is_one_map() -> None:
    """At each cut the sensor is elsewhere: a new chain begins at once, and all are joined where they belong."""
    poses = walk(*ROUND, *ROUND, *ROUND)
    parts = np.array_split(np.arange(len(poses)), 3)
    order = np.concatenate([parts[1], parts[0], parts[2]])
    slam = Slam(CONFIG)
    stamps = 10**9 + np.arange(len(poses)) * 125_000_000 + np.repeat([0, 1, 2], [len(p) for p in parts]) * 100 * 10**9
    scans = scans_along(FLAT, poses, noise_m=0.01)
    for k, stamp in zip(order.tolist(), stamps.tolist(), strict=True):
        slam.add_scan(replace(scans[k], stamp_ns=stamp))
    slam.finish()
    assert slam.counters["pieces_left_out"] == 0
    assert len(slam.trajectory()) == len(poses)
    assert absolute_error(slam.trajectory().poses, poses[order]).rmse_m < 0.04
