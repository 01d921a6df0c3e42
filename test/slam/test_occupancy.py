"""The occupancy grid, on rooms whose walls are known."""

from dataclasses import replace

import numpy as np
import pytest

from svfm_ros import geometry
from svfm_ros.config.slam_config import RasterConfig
from svfm_ros.slam.occupancy import MapRaster, echoes
from svfm_ros.types import OccupancyGrid, Pose2, Scan

HALF = np.array([3.0, 2.0])  # an empty room, 6 m by 4 m around the origin


def scan_at(pose: Pose2, beams: int = 720) -> Scan:
    """What a LiDAR sees in the empty room."""
    angles = np.linspace(-np.pi, np.pi, beams, endpoint=False)
    directions = np.stack([np.cos(angles + pose.theta), np.sin(angles + pose.theta)], axis=-1)
    walls = np.where(directions > 0, HALF, -HALF)
    with np.errstate(divide="ignore"):
        ranges = ((walls - [pose.x, pose.y]) / directions).min(axis=1)
    return Scan(0, ranges.astype(np.float32), -np.pi, 2 * np.pi / beams, 0.05, 20.0)


def cell(grid: OccupancyGrid, x: float, y: float) -> float:
    column, row = np.floor((grid.T_map_grid.inverse().apply([[x, y]])[0]) / grid.resolution_m).astype(int)
    return float(grid.prob[row, column])


def walk() -> list[Pose2]:
    return [Pose2(x, y, x * y) for x in np.linspace(-2, 2, 5) for y in (-1.0, 0.3, 1.1)]


def drawn_from(poses: list[Pose2], config: RasterConfig | None = None) -> OccupancyGrid:
    """The grid of one scan from each pose."""
    raster = MapRaster(config)
    for key, pose in enumerate(poses):
        raster.put(key, pose, scan_at(pose))
    return raster.grid()


def test_walls_are_occupied_the_room_is_free_and_beyond_is_unknown() -> None:
    poses = walk()
    grid = drawn_from(poses, RasterConfig(resolution_m=0.05))
    for x, y in [(3.02, 0.5), (-3.02, -1.0), (0.4, 2.02), (1.0, -2.02)]:
        near = [cell(grid, x + dx, y + dy) for dx in (-0.05, 0.0) for dy in (-0.05, 0.0)]
        assert max(near) > 0.9, (x, y)
    for x, y in [(0.0, 0.0), (2.8, 1.8), (-2.5, -1.5)]:
        assert cell(grid, x, y) < 0.1
    height, width = grid.prob.shape
    assert (height * 0.05, width * 0.05) == pytest.approx((4.05, 6.05), abs=0.1)


def test_a_scan_that_is_taken_out_leaves_no_trace() -> None:
    poses = walk()
    raster = MapRaster()
    for k, pose in enumerate(poses):
        raster.put(k, pose, scan_at(pose))
    before = raster.grid()
    raster.put(99, Pose2(14.0, 1.0, 0.3), scan_at(Pose2()))
    assert raster.grid().prob.shape != before.prob.shape
    raster.remove(99)
    after = raster.grid()
    np.testing.assert_array_equal(after.prob, before.prob)
    assert after.T_map_grid == before.T_map_grid


def test_moving_scans_gives_the_map_that_drawing_anew_gives() -> None:
    poses = walk()
    shift = Pose2(0.4, -0.7, 0.2)
    raster = MapRaster()
    for k, pose in enumerate(poses):
        raster.put(k, pose if k % 3 else shift @ pose, scan_at(pose))
    moved = raster.move(dict(enumerate(poses)))
    assert moved == 5
    wanted = drawn_from(poses)
    np.testing.assert_array_equal(raster.grid().prob, wanted.prob)


def test_a_move_below_half_a_cell_draws_nothing() -> None:
    raster = MapRaster(RasterConfig(resolution_m=0.1))
    raster.put(0, Pose2(), scan_at(Pose2()))
    assert raster.move({0: Pose2(0.03, 0.0, 0.0), 7: Pose2()}) == 0
    assert raster.move({0: Pose2(0.06, 0.0, 0.0)}) == 1


def test_motion_during_a_sweep_is_taken_out() -> None:
    """A sensor that drives and turns while it sweeps sees the same walls as one that stands."""
    twist, beam_s = np.array([1.0, 0.3, 1.5]), 0.1 / 720
    start = Pose2(0.3, -0.4, 0.7)
    poses = [start @ Pose2.from_array(geometry.exp(i * beam_s * twist)) for i in range(720)]
    ranges = np.array([scan_at(p).ranges[i] for i, p in enumerate(poses)])
    scan = Scan(0, ranges, -np.pi, 2 * np.pi / 720, 0.05, 20.0, 0.1, beam_s)
    for points, worst in ((echoes(scan, 20.0, twist), 1e-4), (echoes(scan, 20.0), 0.5)):
        placed = start.apply(points)
        off = np.abs(np.max(np.abs(placed) - HALF, axis=1))  # how far from the nearest wall
        assert off.max() < worst
    assert off.max() > 0.03, "without the correction the walls are bent"


def test_someone_who_passed_by_does_not_stay_in_the_map() -> None:
    poses = walk()
    raster = MapRaster()
    for k, pose in enumerate(poses):
        raster.put(k, pose, scan_at(pose))
    raster.put_points(50, Pose2(-2.0, 0.0, 0.0), np.array([[2.0, 0.0], [2.0, 0.05]]))
    assert cell(raster.grid(), 0.02, 0.02) < 0.25


def behind_a_door(pose: Pose2, is_shut: bool) -> Scan:
    """The empty room, with a door across it at x = 1 that is shut or open."""
    scan = scan_at(pose)
    directions = np.cos(scan.angles() + pose.theta)
    with np.errstate(divide="ignore"):
        to_door = np.where(directions > 0, (1.0 - pose.x) / directions, np.inf)
    return replace(scan, ranges=np.minimum(scan.ranges, to_door).astype(np.float32)) if is_shut else scan


@pytest.mark.parametrize(("scans_shut", "scans_open"), [(30, 16), (100, 55)])
def test_a_door_that_was_shut_is_no_wall_when_it_is_open(scans_shut: int, scans_open: int) -> None:
    pose, raster = Pose2(-1.0, 0.2, 0.3), MapRaster(RasterConfig(resolution_m=0.05))
    for k in range(scans_shut):
        raster.put(k, pose, behind_a_door(pose, is_shut=True))
    assert cell(raster.grid(), 1.01, 0.2) > 0.9
    for k in range(scans_shut, scans_shut + scans_open):
        raster.put(k, pose, behind_a_door(pose, is_shut=False))
    grid = raster.grid()
    for y in (-0.5, 0.2, 0.9):
        assert max(cell(grid, 1.01, y), cell(grid, 0.98, y)) < 0.2
    assert cell(grid, 3.01, 0.2) > 0.9
    for k in range(1000, 1010):  # and shut again
        raster.put(k, pose, behind_a_door(pose, is_shut=True))
    assert cell(raster.grid(), 1.01, 0.2) > 0.9


def test_a_wall_that_someone_stands_in_front_of_stays() -> None:
    pose, raster = Pose2(-1.0, 0.2, 0.3), MapRaster(RasterConfig(resolution_m=0.05))
    for k in range(60):
        raster.put(k, pose, behind_a_door(pose, is_shut=k >= 20))
    assert cell(raster.grid(), 3.01, 0.2) > 0.9


def test_scans_without_echoes_draw_nothing() -> None:
    raster = MapRaster()
    for k, bad in enumerate([np.nan, np.inf, 0.0, 100.0]):
        raster.put(k, Pose2(), Scan(0, np.full(10, bad, dtype=np.float32), -1.0, 0.2, 0.05, 20.0))
    raster.put(9, Pose2(), Scan(0, np.empty(0, dtype=np.float32), -1.0, 0.2, 0.05, 20.0))
    assert np.isnan(raster.grid().prob).all()


def test_a_pose_gone_astray_does_not_take_all_memory() -> None:
    raster = MapRaster()
    raster.put(0, Pose2(), scan_at(Pose2()))
    shape = raster.grid().prob.shape
    raster.put(1, Pose2(1e7, 1e7, 0.0), scan_at(Pose2()))
    raster.put(2, Pose2(float("nan"), 0.0, 0.0), scan_at(Pose2()))
    assert raster.grid().prob.shape == shape
    assert len(raster) == 1


def test_echoes_beyond_the_greatest_range_are_not_drawn() -> None:
    """One damaged echo a kilometre away would make a grid of gigabytes."""
    raster = MapRaster(RasterConfig(range_max_m=10.0))
    raster.put_points(0, Pose2(), np.array([[2.0, 0.0], [800.0, 600.0]]))
    raster.put_points(1, Pose2(), np.array([[800.0, 600.0]]))
    grid = raster.grid()
    assert max(grid.prob.shape) * grid.resolution_m < 3.0
