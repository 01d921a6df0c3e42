"""Finding oneself in a given map: the place is known here, so the answer is too."""

from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, OTHER, grid_of, polygon, scan_at, scans_along, walk, wall

from svfm_ros.errors import DataError
from svfm_ros.slam.localise import Localiser
from svfm_ros.slam.matching.local_map import local_map_from_grid
from svfm_ros.types import OccupancyGrid, Pose2, SlamUpdate

TOUR = walk((1.5, 1.2), (2.8, 3.2), (5.2, 3.2), (5.4, 1.5))


@pytest.fixture(scope="module")
def flat() -> OccupancyGrid:
    return grid_of(FLAT)


def off(update: SlamUpdate, truth: np.ndarray) -> tuple[float, float]:
    gap = Pose2.from_array(truth).inverse() @ update.T_map_base
    return float(np.hypot(gap.x, gap.y)), float(np.degrees(abs(gap.theta)))


def test_surfaces_lie_on_the_walls_and_face_free_space(flat: OccupancyGrid) -> None:
    points = local_map_from_grid(flat).points
    lower = points[(points[:, 1] < 0.1) & (points[:, 0] > 0.5) & (points[:, 0] < 3.5)]
    assert len(lower) > 40
    assert abs(lower[:, 1]).max() < 0.03
    assert lower[:, 3].min() > 0.99
    # The wall between the rooms is free on both sides.
    between = points[(abs(points[:, 0] - 4.0) < 0.1) & (points[:, 1] > 0.5) & (points[:, 1] < 2.0)]
    assert (between[:, 2] > 0.99).any()
    assert (between[:, 2] < -0.99).any()


def test_a_map_without_walls_is_refused() -> None:
    with pytest.raises(DataError, match="walls"):
        local_map_from_grid(OccupancyGrid(np.zeros((20, 20), dtype=np.float32), 0.05))


@pytest.mark.parametrize("turn_rad", [0.0, 2.0])
def test_the_first_steps_give_the_place_and_it_is_kept(flat: OccupancyGrid, turn_rad: float) -> None:
    localiser = Localiser(flat)
    poses = TOUR + np.array([0.0, 0.0, turn_rad])
    updates = [localiser.add_scan(s) for s in scans_along(FLAT, poses)]
    placed = [k for k, u in enumerate(updates) if u.match is not None]
    assert placed[0] < 20
    assert placed == list(range(placed[0], len(poses)))
    errors = np.array([off(updates[k], poses[k]) for k in placed])
    assert errors[:, 0].max() < 0.05
    assert errors[:, 1].max() < 1.0
    assert len(localiser.trajectory()) == len(placed)
    assert localiser.trajectory().stamps_ns[0] == updates[placed[0]].stamp_ns
    assert np.sqrt(np.diag(updates[-1].covariance))[0] < 0.1
    assert np.sqrt(np.diag(updates[0].covariance))[0] > 10.0  # while the place is not known


def test_a_pose_that_someone_gives_is_tried_first_and_a_wrong_one_is_left(flat: OccupancyGrid) -> None:
    scans = list(scans_along(FLAT, TOUR))
    told = Localiser(flat)
    told.start_near(Pose2.from_array(TOUR[0] + np.array([0.2, -0.15, 0.1])))
    first = told.add_scan(scans[0])
    assert first.match is not None
    assert off(first, TOUR[0])[0] < 0.05
    wrong = Localiser(flat)
    wrong.start_near(Pose2(7.0, 3.5, 2.0))
    updates = [wrong.add_scan(scan) for scan in scans]
    assert off(updates[-1], TOUR[-1])[0] < 0.05


def test_a_turned_map_gives_poses_in_its_frame() -> None:
    grid = grid_of(FLAT)
    # The same cells under another corner: the whole map is turned and shifted.
    T_new_old = Pose2(3.0, -2.0, 0.7)
    moved = replace(grid, T_map_grid=T_new_old @ grid.T_map_grid)
    localiser = Localiser(moved)
    last = [localiser.add_scan(s) for s in scans_along(FLAT, TOUR)][-1]
    assert last.match is not None
    metres, degrees = off(last, (T_new_old @ Pose2.from_array(TOUR[-1])).as_array())
    assert metres < 0.05
    assert degrees < 1.0


def test_in_another_flat_no_pose_is_claimed(flat: OccupancyGrid) -> None:
    localiser = Localiser(flat)
    poses = walk((1.0, 1.2), (3.3, 0.5), (7.4, 0.6), (7.2, 2.6), (10.0, 2.5))
    updates = [localiser.add_scan(s) for s in scans_along(OTHER, poses)]
    assert all(u.match is None for u in updates)
    assert "not known" in updates[-1].reason


def test_where_the_map_does_not_match_the_pose_goes_on_by_odometry(flat: OccupancyGrid) -> None:
    """A room full of boxes that the map does not have: most of what is seen is new, for ten seconds."""
    boxes = [
        polygon((x, y), (x + 0.5, y), (x + 0.5, y + 0.4), (x, y + 0.4)) for x in (4.3, 6.0, 7.6) for y in (0.2, 1.9)
    ]
    screens = [
        wall(4.3, 3.75, 8.8, 3.6),
        wall(4.25, 0.1, 4.35, 2.5),
        wall(8.7, 0.2, 8.6, 3.5),
        wall(4.3, 0.15, 8.7, 0.3),
    ]
    poses = walk((1.5, 1.2), (2.8, 3.2), (5.2, 3.0), (5.4, 1.5), (7.2, 1.6), (5.4, 1.4), (5.2, 3.0), (2.8, 3.2))
    localiser = Localiser(flat)
    updates = [localiser.add_scan(s) for s in scans_along(np.concatenate([FLAT, *boxes, *screens]), poses)]
    placed = np.array([u.match is not None for u in updates])
    assert localiser.counters["propagated"] > 0
    assert placed[np.argmax(placed) :].all()
    assert max(off(u, p)[0] for u, p in zip(updates, poses, strict=True) if u.match is not None) < 0.3


def test_a_kidnapped_sensor_is_found_again(flat: OccupancyGrid) -> None:
    localiser = Localiser(flat)
    second = walk((8.4, 2.0), (5.0, 2.6), (4.6, 1.0))
    poses = np.concatenate([walk((1.5, 1.2), (2.8, 3.2)), second])
    updates = [localiser.add_scan(s) for s in scans_along(FLAT, poses)]
    assert updates[-1].match is not None
    metres, degrees = off(updates[-1], poses[-1])
    assert metres < 0.05
    assert degrees < 1.0
    wrong = [k for k, u in enumerate(updates) if u.match is not None and off(u, poses[k])[0] > 0.3]
    assert len(wrong) < 20  # it may take a few steps to notice


def test_who_wakes_facing_another_way_is_placed_at_once(flat: OccupancyGrid) -> None:
    localiser = Localiser(flat)
    for scan in scans_along(FLAT, TOUR):
        localiser.add_scan(scan)
    for turned_rad in (np.pi, 2.2, -0.4):
        woken = TOUR[-1] + np.array([0.3, -0.2, turned_rad])
        rested_ns = int(localiser.trajectory().stamps_ns[-1]) + 600_000_000_000
        update = localiser.add_scan(scan_at(FLAT, woken, rested_ns))
        assert update.match is not None
        metres, degrees = off(update, woken)
        assert metres < 0.05
        assert degrees < 1.0


def test_bad_scans_are_counted_and_change_nothing(flat: OccupancyGrid) -> None:
    localiser = Localiser(flat)
    scans = scans_along(FLAT, TOUR)
    for scan in scans[:30]:
        localiser.add_scan(scan)
    before = localiser.trajectory().poses[-1]
    nothing = scan_at(FLAT, TOUR[30], scans[30].stamp_ns)
    for ranges in (np.full(360, np.nan), np.full(360, np.inf), np.empty(0), np.full(360, 99.0)):
        update = localiser.add_scan(replace(nothing, ranges=ranges.astype(np.float32)))
        assert update.match is None
        assert update.reason
    assert localiser.add_scan(scans[29]).reason  # a double
    assert np.array_equal(localiser.trajectory().poses[-1], before)
    assert localiser.counters["few_echoes"] == 3
    assert localiser.counters["empty"] == 1
    assert localiser.counters["doubles"] == 1
    assert localiser.add_scan(scans[31]).match is not None
