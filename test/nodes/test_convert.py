"""Messages to nouns and back: what goes in comes out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from nav_msgs.msg import OccupancyGrid as GridMessage
from nav_msgs.msg import Path
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import LaserScan

from svfm_ros.errors import DataError
from svfm_ros.nodes.messages import convert
from svfm_ros.types import OccupancyGrid, Pose2, Scan
from svfm_ros.walks.walk_recorder import walk_id_of

stamps = st.integers(0, (2**31 - 1) * 10**9)
metres = st.floats(-1e6, 1e6)
angles = st.floats(-math.pi + 1e-9, math.pi - 1e-9)
poses = st.builds(Pose2, metres, metres, angles)
small = st.floats(0.0, 100.0, width=32)


def over_the_wire(message):
    """As another process would get it."""
    return deserialize_message(serialize_message(message), type(message))


def same_pose(a: Pose2, b: Pose2) -> bool:
    turn = math.remainder(a.theta - b.theta, 2 * math.pi)
    return math.isclose(a.x, b.x) and math.isclose(a.y, b.y) and abs(turn) < 1e-9


@given(stamps)
def test_stamps_survive(time_ns):
    assert convert.stamp_ns(convert.stamp(time_ns)) == time_ns


@given(
    stamps,
    hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32)),
    st.floats(-4.0, 4.0, width=32),
    st.floats(0.001953125, 1.0, width=32),
    small,
    small,
    small,
)
def test_scans_survive(time_ns, ranges, angle_min, step, near, far, seconds):
    scan = Scan(time_ns, ranges, angle_min, step, near, far, seconds, seconds)
    message = over_the_wire(convert.to_laser_scan(scan, "laser"))
    back = convert.from_laser_scan(message)
    assert message.header.frame_id == "laser"
    assert back.ranges.tobytes() == ranges.tobytes()  # NaN and inf included
    assert (back.stamp_ns, back.angle_min, back.angle_step) == (time_ns, angle_min, step)
    assert (back.range_min, back.range_max, back.scan_time_s, back.time_increment_s) == (near, far, seconds, seconds)


def test_last_beam_is_angle_max():
    message = convert.to_laser_scan(Scan(0, np.ones(5, np.float32), -1.0, 0.5, 0.1, 10.0), "laser")
    assert message.angle_max == pytest.approx(1.0)


@pytest.mark.parametrize(
    "broken",
    [
        LaserScan(angle_increment=0.1),
        LaserScan(ranges=[1.0, 2.0]),
        LaserScan(ranges=[1.0], angle_increment=0.1, range_max=math.nan),
    ],
)
def test_scan_that_is_none_is_refused(broken):
    with pytest.raises(DataError, match="expected a LaserScan"):
        convert.from_laser_scan(broken)


@given(poses, stamps)
def test_poses_survive(pose, time_ns):
    message = convert.to_pose_stamped(pose, "map", time_ns)
    assert same_pose(convert.from_pose(message.pose), pose)
    assert (message.header.frame_id, convert.stamp_ns(message.header.stamp)) == ("map", time_ns)


@given(poses, hnp.arrays(float, (3, 3), elements=st.floats(-10, 10)))
def test_covariances_survive(pose, root):
    covariance = root @ root.T
    message = over_the_wire(convert.to_pose_with_covariance(pose, covariance, "map", 7))
    back, back_covariance = convert.from_pose_with_covariance(message)
    assert same_pose(back, pose)
    np.testing.assert_array_equal(back_covariance, covariance)
    assert message.pose.covariance[35] == covariance[2, 2]  # yaw by yaw stands last


def test_orientation_that_is_none_is_refused():
    message = convert.to_pose(Pose2())
    message.orientation.w = 0.0
    with pytest.raises(DataError, match="quaternion"):
        convert.from_pose(message)


@given(poses)
def test_transform_says_the_same_as_the_pose(pose):
    message = convert.to_transform(pose, "map", "odom", 5)
    as_pose = convert.to_pose(pose)
    assert (message.header.frame_id, message.child_frame_id) == ("map", "odom")
    assert (message.transform.translation.x, message.transform.translation.y) == (pose.x, pose.y)
    assert message.transform.rotation == as_pose.orientation


cells = st.one_of(st.integers(0, 100).map(lambda v: v / 100), st.just(math.nan))


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=cells), poses)
def test_maps_survive(prob, origin):
    grid = OccupancyGrid(prob, 0.05, origin)
    message = over_the_wire(convert.to_grid_message(grid, "map", 3))
    back = convert.from_grid_message(message)
    np.testing.assert_allclose(back.prob, prob, atol=1e-6)
    assert back.resolution_m == 0.05
    assert same_pose(back.T_map_grid, origin)
    assert convert.to_grid_message(back, "map", 3).data == message.data


def test_map_rows_start_at_the_lowest_y():
    prob = np.array([[0.0, 1.0], [np.nan, 0.5]], dtype=np.float32)
    message = convert.to_grid_message(OccupancyGrid(prob, 0.1), "map", 0)
    assert list(message.data) == [0, 100, -1, 50]


def test_map_with_cells_missing_is_refused():
    message = GridMessage(data=[0, 0, 0])
    message.info.width, message.info.height, message.info.resolution = 2, 2, 0.1
    with pytest.raises(DataError, match="2 x 2 cells"):
        convert.from_grid_message(message)


@given(st.lists(st.tuples(stamps, poses), min_size=2, max_size=10, unique_by=lambda v: v[0]))
def test_walks_survive(steps):
    steps.sort(key=lambda s: s[0])
    stamps_ns = np.array([s[0] for s in steps])
    track = np.array([s[1].as_array() for s in steps])
    walk = convert.from_path(over_the_wire(convert.to_path(stamps_ns, track, "map", stamps_ns[-1])), "mary")
    np.testing.assert_array_equal(walk.stamps_ns, stamps_ns)
    np.testing.assert_allclose(walk.poses, track, atol=1e-9)
    assert walk.resident == "mary"
    assert walk.walk_id == walk_id_of("mary", int(stamps_ns[0]))


def test_walk_that_stands_still_in_time_is_refused():
    for stamps_ns in ([], [1], [2, 2], [3, 2]):
        path = convert.to_path(stamps_ns, np.zeros((len(stamps_ns), 3)), "map", 0)
        assert isinstance(path, Path)
        with pytest.raises(DataError, match="increasing stamps"):
            convert.from_path(path, "mary")


@pytest.mark.parametrize("x", [math.nan, math.inf, 1e300])
def test_walk_beyond_all_houses_is_refused(x):
    path = convert.to_path([1, 2], np.array([[0.0, 0.0, 0.0], [x, 0.0, 0.0]]), "map", 0)
    with pytest.raises(DataError, match="from the origin"):
        convert.from_path(path, "mary")


@given(
    hnp.arrays(float, st.tuples(st.integers(0, 6), st.just(3)), elements=st.floats(-100, 100)),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.integers(0, 2 * 10**18),
)
def test_bytes_say_the_same_as_the_message(poses, frame, time_ns):
    stamps_ns = time_ns + np.arange(len(poses), dtype=np.int64) * 123_456_789
    read = deserialize_message(convert.path_bytes(stamps_ns, poses, frame, time_ns), Path)
    assert read == convert.to_path(stamps_ns, poses, frame, time_ns)


def test_bytes_are_used_where_they_are_right():
    assert convert.path_bytes_are_right()


@given(st.integers(0, 300), st.integers(2, 50))
def test_thinning_keeps_both_ends(count, most):
    stamps_ns = np.arange(count, dtype=np.int64)
    kept, poses = convert.thinned(stamps_ns, np.zeros((count, 3)), most)
    assert len(kept) == len(poses) == min(count, most)
    assert len(set(kept.tolist())) == len(kept)
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)


def test_scans_with_too_many_beams_are_refused():
    """Before memory is taken for them."""
    most = LaserScan(angle_increment=1e-3, range_max=10.0, ranges=[1.0] * convert.MAX_BEAMS)
    assert len(convert.from_laser_scan(most).ranges) == convert.MAX_BEAMS
    most.ranges.append(1.0)
    with pytest.raises(DataError, match="at most 20000 beams, got 20001"):
        convert.from_laser_scan(most)


def test_maps_with_too_many_cells_are_refused(monkeypatch):
    monkeypatch.setattr(convert, "MAX_CELLS", 6)
    message = GridMessage(data=[0] * 6)
    message.info.width, message.info.height, message.info.resolution = 3, 2, 0.05
    assert convert.from_grid_message(message).prob.shape == (2, 3)
    message.data.append(0)
    with pytest.raises(DataError, match="at most 6 cells, got 7"):
        convert.from_grid_message(message)


@pytest.mark.parametrize(
    ("field", "value"),
    [("position.x", math.nan), ("position.y", 1e300), ("orientation.w", math.inf), ("orientation.z", math.nan)],
)
def test_a_pose_that_is_none_is_refused(field, value):
    message = convert.to_pose_with_covariance(Pose2(1.0, 2.0, 0.5), np.eye(3), "map", 10**18)
    part, name = field.split(".")
    setattr(getattr(message.pose.pose, part), name, value)
    with pytest.raises(DataError, match="expected a finite pose"):
        convert.from_pose_with_covariance(message)


@pytest.mark.parametrize(("row", "column", "value"), [(0, 0, math.nan), (1, 1, 1e300), (2, 2, -1.0), (0, 1, 5.0)])
def test_a_covariance_that_is_none_is_refused(row, column, value):
    """Before, one such message made every forecast fail until the walk had ended."""
    covariance = np.eye(3)
    covariance[row, column] = covariance[column, row] = value
    message = convert.to_pose_with_covariance(Pose2(1.0, 2.0, 0.5), covariance, "map", 10**18)
    with pytest.raises(DataError, match="expected the covariance of a pose"):
        convert.from_pose_with_covariance(message)
