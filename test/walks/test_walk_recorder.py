"""Walks are cut where a person would cut them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros import geometry
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import DataError
from svfm_ros.types import Pose2
from svfm_ros.walks.segmentation import WalkCut
from svfm_ros.walks.walk_recorder import WalkRecorder, cut_walks, take_walk, thin_points

S = 1_000_000_000
T0 = 1_763_330_000 * S
HZ = 10


def sit(seconds: float, x: float, y: float = 0.0) -> np.ndarray:
    return np.tile([x, y], (round(seconds * HZ), 1))


def go(x0: float, x1: float, speed: float = 1.0, y: float = 0.0) -> np.ndarray:
    """From x0 to x1, both excluded."""
    steps = round(abs(x1 - x0) / speed * HZ)
    xs = x0 + (x1 - x0) * np.arange(1, steps) / steps
    return np.stack([xs, np.full_like(xs, y)], axis=1)


def trajectory(*parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    xy = np.concatenate(parts)
    stamps = T0 + np.arange(len(xy)) * (S // HZ)
    return stamps, np.column_stack([xy, np.zeros(len(xy))])


def shaken(poses: np.ndarray, seed: int, noise_m: float = 0.03, sway_m: float = 0.06) -> np.ndarray:
    """With SLAM's noise and a body that sways once in two seconds."""
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * 0.5 * np.arange(len(poses)) / HZ
    shaken = poses.copy()
    shaken[:, :2] += noise_m * rng.standard_normal((len(poses), 2))
    shaken[:, 1] += sway_m * np.sin(phase)
    return shaken


def seconds(cut: WalkCut) -> tuple[float, float]:
    return (cut.start_ns - T0) / S, (cut.end_ns - T0) / S


def test_a_walk_between_two_seats_is_cut_at_both() -> None:
    stamps, poses = trajectory(sit(20, 0), go(0, 6), sit(20, 6))
    (cut,) = cut_walks(stamps, poses)
    start, end = seconds(cut)
    assert start == pytest.approx(20.0, abs=0.21)  # within the trim radius of where the wearer sat
    assert end == pytest.approx(26.0, abs=0.21)


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_sway_do_not_move_the_edges(seed: int) -> None:
    stamps, poses = trajectory(sit(20, 0), go(0, 6), sit(20, 6), go(6, 0), sit(20, 0))
    cuts = cut_walks(stamps, shaken(poses, seed))
    edges = [seconds(c) for c in cuts]
    np.testing.assert_allclose(edges, [(20, 26), (46, 52)], atol=0.4)


@pytest.mark.parametrize("seed", range(5))
def test_sitting_for_an_hour_makes_no_walk(seed: int) -> None:
    stamps, poses = trajectory(sit(3600, 0))
    drift = np.linspace(0, 2.0, len(poses))  # SLAM may drift two metres in that hour
    noisy = shaken(poses, seed)
    noisy[:, 0] += drift
    noisy[::977, 0] += 3.0  # and place a scan wrongly now and then
    assert cut_walks(stamps, noisy) == []


def test_leaning_forward_is_no_walk() -> None:
    lean = np.concatenate([go(0, 0.6), sit(1, 0.6), go(0.6, 0)])
    stamps, poses = trajectory(sit(10, 0), lean, sit(10, 0))
    assert cut_walks(stamps, poses) == []


def test_a_pause_shorter_than_the_dwell_time_is_part_of_the_walk() -> None:
    for pause_s, walks in ((3.0, 1), (7.0, 2)):
        stamps, poses = trajectory(sit(10, 0), go(0, 4), sit(pause_s, 4), go(4, 8), sit(10, 8))
        assert len(cut_walks(stamps, poses)) == walks


def test_a_slow_walker_walks() -> None:
    stamps, poses = trajectory(sit(10, 0), go(0, 3, speed=0.2), sit(10, 3))
    (cut,) = cut_walks(stamps, poses)
    start, end = seconds(cut)
    assert start == pytest.approx(10.0, abs=1.0)
    assert end == pytest.approx(25.0, abs=1.0)


def test_a_gap_ends_the_walk_and_finish_ends_the_last() -> None:
    stamps, poses = trajectory(go(0, 10), sit(2, 10))
    stamps[60:] += 3 * S
    first, second = cut_walks(stamps, poses)
    assert stamps[57] <= first.end_ns <= stamps[59]
    assert second.start_ns >= stamps[60]
    assert poses[stamps == second.end_ns, 0] == pytest.approx(9.9, abs=0.11)  # two seconds of standing are trimmed


def test_a_walk_without_end_goes_on_as_a_new_one() -> None:
    config = RecorderConfig(longest_s=10.0)
    stamps, poses = trajectory(sit(10, 0), go(0, 25), sit(10, 25))
    cuts = cut_walks(stamps, poses, config)
    assert len(cuts) == 3
    assert all(c.end_ns - c.start_ns <= 10.6 * S for c in cuts)


def test_walk_so_far_is_known_soon_after_leaving() -> None:
    stamps, poses = trajectory(sit(20, 0), go(0, 6))
    recorder = WalkRecorder()
    known = []
    for stamp, pose in zip(stamps, shaken(poses, 1), strict=True):
        recorder.push(stamp, pose)
        known.append(recorder.walk_so_far_ns)
    assert not any(known[:200])
    assert known[206] is not None  # 0.6 m from the chair
    assert (known[230] - T0) / S == pytest.approx(20.0, abs=0.3)


def test_nobody_walks_in_the_first_seconds_at_rest() -> None:
    stamps, poses = trajectory(sit(3, 0))
    recorder = WalkRecorder()
    for stamp, pose in zip(stamps, poses, strict=True):
        assert recorder.push(stamp, pose) == []
        assert recorder.walk_so_far_ns is None


def test_a_loop_closure_is_not_a_step() -> None:
    """The map jumps two metres while the wearer sits; once rewritten, the past moves along and nobody walked."""
    stamps, poses = trajectory(sit(30, 0))
    jumped = poses + np.array([2.0, 0.0, 0.0])
    recorder = WalkRecorder()
    cuts = []
    for i, stamp in enumerate(stamps):
        if i == 150:
            recorder.rewrite(stamps[:i], jumped[:i])
        cuts += recorder.push(stamp, poses[i] if i < 150 else jumped[i])
        assert recorder.walk_so_far_ns is None
    assert cuts + recorder.finish() == []


@st.composite
def wanderings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Legs of standing and walking at uneven stamps with a few gaps."""
    legs = draw(
        st.lists(st.tuples(st.integers(1, 60), st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)), min_size=1, max_size=8)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stopped = draw(st.booleans())
    velocity = np.concatenate([np.tile([vx, vy], (n, 1)) for n, vx, vy in legs])
    if stopped:
        velocity[rng.random(len(velocity)) < 0.5] = 0
    step_ns = rng.integers(1, int(0.3 * S), len(velocity))
    step_ns[rng.random(len(velocity)) < draw(st.sampled_from([0.0, 0.02]))] += 2 * S
    stamps = T0 + np.cumsum(step_ns)
    xy = np.cumsum(velocity * step_ns[:, None] / S, axis=0) + 0.03 * rng.standard_normal(velocity.shape)
    return stamps, np.column_stack([xy, np.zeros(len(xy))])


configs = st.builds(
    RecorderConfig,
    dwell_time_s=st.sampled_from([0.5, 1.0, 2.0, 5.0]),
    dwell_radius_m=st.sampled_from([0.1, 0.3, 0.6]),
    trim_radius_m=st.sampled_from([0.0, 0.1, 0.3]),
    min_duration_s=st.sampled_from([0.0, 1.0]),
    min_extent_m=st.sampled_from([0.0, 0.5]),
    longest_s=st.sampled_from([10.0, 600.0]),
)


def covered_by_a_stay(stamps: np.ndarray, xy: np.ndarray, config: RecorderConfig) -> np.ndarray:
    """The definition, spelled out."""
    dwell, still = int(config.dwell_time_s * S), np.zeros(len(stamps), dtype=bool)
    for a in range(len(stamps)):
        inside = (stamps >= stamps[a]) & (stamps <= stamps[a] + dwell)
        later = np.flatnonzero(stamps >= stamps[a] + dwell)
        whole = len(later) > 0 and np.all(np.diff(stamps[a : later[0] + 1]) <= int(config.max_gap_s * S))
        if whole and np.all(((xy[inside] - xy[a]) ** 2).sum(axis=1) <= config.dwell_radius_m**2):
            still |= inside
    return still


def moving_runs(stamps: np.ndarray, still: np.ndarray, config: RecorderConfig) -> list[np.ndarray]:
    indices = np.flatnonzero(~still)
    apart = (np.diff(indices) > 1) | (np.diff(stamps[indices]) > int(config.max_gap_s * S))
    return [run for run in np.split(indices, np.flatnonzero(apart) + 1) if len(run) >= 2]


@settings(max_examples=100, deadline=None)
@given(wanderings(), configs)
def test_without_trimming_walks_are_the_runs_that_no_stay_covers(
    walked: tuple[np.ndarray, np.ndarray], config: RecorderConfig
) -> None:
    stamps, poses = walked
    bare = RecorderConfig(config.dwell_time_s, config.dwell_radius_m, 0.0, 0.0, 0.0)
    still = covered_by_a_stay(stamps, poses[:, :2], bare)
    cuts = cut_walks(stamps, poses, bare)
    for run in moving_runs(stamps, still, bare):
        (cut,) = [c for c in cuts if c.start_ns <= stamps[run[0]] and stamps[run[-1]] <= c.end_ns]
        inside = np.flatnonzero((stamps >= cut.start_ns) & (stamps <= cut.end_ns))
        assert still[np.setdiff1d(inside, run)].all()


@settings(max_examples=100, deadline=None)
@given(wanderings(), configs)
def test_no_two_walks_overlap(walked: tuple[np.ndarray, np.ndarray], config: RecorderConfig) -> None:
    cuts = cut_walks(*walked, config)
    assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(cuts))


def test_times_that_go_back_and_poses_that_are_not_numbers_are_refused() -> None:
    recorder = WalkRecorder()
    recorder.push(T0, Pose2())
    with pytest.raises(DataError, match="expected a stamp after"):
        recorder.push(T0, Pose2())
    with pytest.raises(DataError, match="finite"):
        recorder.push(T0 + 1, Pose2(float("nan")))
    with pytest.raises(DataError, match="expected a stamp after"):
        cut_walks([T0, T0], np.zeros((2, 3)))
    with pytest.raises(DataError, match="finite"):
        cut_walks([T0, T0 + 1], [[0, 0, 0], [np.inf, 0, 0]])
    with pytest.raises(DataError, match="one pose per stamp"):
        cut_walks([T0, T0 + 1], np.zeros((3, 3)))


def test_nothing_recorded_gives_no_walks() -> None:
    assert cut_walks([], np.empty((0, 3))) == []
    assert WalkRecorder().finish() == []


def test_the_walk_is_taken_from_the_trajectory_as_it_is_now() -> None:
    stamps, poses = trajectory(sit(10, 0), go(0, 6), sit(10, 6))
    (cut,) = cut_walks(stamps, poses)
    turned = geometry.compose([1.0, 2.0, np.pi / 2], poses)
    wall = np.array([[0.0, 2.0], [0.0, -1.0]])  # on either side, in the base frame
    walk = take_walk(cut, "anna", stamps, turned, points_of=lambda stamp: wall)
    assert (walk.stamps_ns[0], walk.stamps_ns[-1]) == (cut.start_ns, cut.end_ns)
    assert walk.resident == "anna"
    assert walk.walk_id == "anna-20251116T215330.000Z"
    np.testing.assert_allclose(walk.xy[-1], [1.0, 8.0], atol=0.2)
    # In the turned frame the walls are x = -1 and x = 2, along the path from y = 2 to 8.
    left = walk.points[np.abs(walk.points[:, 0] + 1.0) < 1e-6]
    assert left[:, 1].min() == pytest.approx(2.0, abs=0.3)
    assert left[:, 1].max() == pytest.approx(8.0, abs=0.3)
    np.testing.assert_allclose(np.unique(walk.points[:, 0].round(6)), [-1.0, 2.0])


def test_whoever_walks_ahead_is_not_among_the_points_of_a_walk() -> None:
    stamps, poses = trajectory(sit(10, 0), go(0, 6), sit(10, 6))
    (cut,) = cut_walks(stamps, poses)
    beam = np.deg2rad(np.arange(-10.0, 11.0))
    ahead = 2.0 * np.stack([np.cos(beam), np.sin(beam)], axis=-1)

    def points_of(stamp: int) -> np.ndarray:
        x = float(poses[np.searchsorted(stamps, stamp), 0])
        angles = np.deg2rad(np.arange(-80.0, 81.0, 0.5))
        end = (12.0 - x) / np.cos(angles)  # the wall x = 12, seen beside the person
        wall = (end[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1))[np.abs(angles) > np.deg2rad(10.5)]
        return np.concatenate([ahead, wall[np.abs(wall[:, 1]) < 6.0]])

    points = take_walk(cut, "anna", stamps, poses, points_of).points
    assert np.count_nonzero(points[:, 0] > 11.8) > 100
    assert not np.any(points[:, 0] < 7.4)  # the person was seen from x = 2 on; only their last place, x = 8, stays


def test_the_covariance_of_each_pose_comes_with_it_and_gaps_take_the_nearest() -> None:
    stamps, poses = trajectory(sit(10, 0), go(0, 6), sit(10, 6))
    (cut,) = cut_walks(stamps, poses)
    known = {int(s): np.eye(3) * (k + 1) for k, s in enumerate(stamps) if k % 3 == 0}
    walk = take_walk(cut, "anna", stamps, poses, covariance_of=known.get)
    first = int(np.searchsorted(stamps, cut.start_ns))
    assert walk.covariance is not None
    nearest = [3 * round((first + i) / 3) + 1 for i in range(len(walk.poses))]
    np.testing.assert_allclose(walk.covariance[2:-2, 0, 0], nearest[2:-2])
    assert take_walk(cut, "anna", stamps, poses, covariance_of=lambda stamp: None).covariance is None


def test_a_walk_outside_the_trajectory_is_refused() -> None:
    stamps, poses = trajectory(sit(1, 0))
    with pytest.raises(DataError, match="two poses"):
        take_walk(WalkCut(T0 + 100 * S, T0 + 110 * S), "anna", stamps, poses)


def test_two_residents_and_two_walks_have_four_ids() -> None:
    stamps, poses = trajectory(sit(10, 0), go(0, 6), sit(10, 6), go(6, 0), sit(10, 0))
    ids = [take_walk(c, name, stamps, poses).walk_id for name in ("anna", "ben") for c in cut_walks(stamps, poses)]
    assert len(set(ids)) == 4
    assert take_walk(cut_walks(stamps, poses)[0], "anna", stamps, poses).walk_id == ids[0]


@settings(deadline=None)
@given(st.integers(0, 400), st.floats(0.01, 0.5), st.integers(0, 1000))
def test_thinning_keeps_every_square_and_the_mean(count: int, spacing: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(0, 2, (count, 2))
    thin = thin_points(np.concatenate([points, [[np.nan, 0.0], [np.inf, 1.0]]]), spacing)
    squares = {tuple(c) for c in np.floor(points / spacing).astype(int).tolist()}
    assert len(thin) == len(squares)
    if count:
        distance = np.linalg.norm(points[:, None] - thin[None], axis=-1).min(axis=1)
        assert distance.max() <= spacing * np.sqrt(2)


def test_scans_that_arrive_twice_or_late_do_not_cost_a_walk() -> None:
    stamps, poses = trajectory(sit(20, 0), go(0, 6), sit(20, 6))
    (cut,) = cut_walks(stamps, poses)
    arrived = np.r_[np.repeat(np.arange(len(stamps) - 2), 2), len(stamps) - 1, len(stamps) - 2]
    walk = take_walk(cut, "anna", stamps[arrived], poses[arrived])
    expected = take_walk(cut, "anna", stamps, poses)
    np.testing.assert_array_equal(walk.stamps_ns, expected.stamps_ns)
    np.testing.assert_array_equal(walk.poses, expected.poses)
