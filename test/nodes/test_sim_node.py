"""The simulated house, heard over DDS."""

import statistics

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from roslive import PATIENCE_S
from sensor_msgs.msg import Imu, LaserScan

from svfm_ros.errors import SvfmError
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.convert import stamp_ns
from svfm_ros.nodes.sim_node import SimNode
from svfm_ros.sim.house import load_house
from svfm_ros.types import Pose2
from svfm_ros.walks.places import load_places

pytestmark = pytest.mark.ros

WAITS = ("-p", "autostart:=false")  # for a lifecycle manager: it ends soon after its start


def test_scans_true_poses_and_the_clock_come_in_order_until_the_end(start, listener):
    scans = listener.collect(LaserScan, "/bob/scan")
    truth = listener.collect(PoseStamped, "/bob/ground_truth/pose")
    clock = listener.collect(Clock, "/clock")
    arguments = ["hours:=0.01", "rate:=8.0", "sim.habits.dwell_s:=4.0", "sim.lidar.beams:=90", "laser_frame:=bob/laser"]
    pairs = [word for a in arguments for word in ("-p", a)]
    process = start("-m", "svfm_ros.nodes.sim_node", "--ros-args", "-r", "__ns:=/bob", *pairs, *WAITS)
    listener.activate("/bob/sim_node")
    scans.wait(30)
    truth.wait(30)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "hours are over" in err
    assert len(scans[0].ranges) == 90
    assert (scans[0].header.frame_id, truth[0].header.frame_id) == ("bob/laser", "map")
    for stamps in (
        [stamp_ns(m.header.stamp) for m in scans],
        [stamp_ns(m.header.stamp) for m in truth],
        [stamp_ns(m.clock) for m in clock],
    ):
        assert stamps == sorted(stamps)


def test_imu_and_odometry_are_published_on_demand(start, listener):
    imu, odom = listener.collect(Imu, "/imu"), listener.collect(Odometry, "/odom")
    arguments = ["hours:=0.01", "rate:=8.0", "sim.habits.dwell_s:=4.0", "sim.imu.enabled:=true"]
    arguments += ["sim.odometry.enabled:=true", "sim.lidar.beams:=90"]
    pairs = [word for a in arguments for word in ("-p", a)]
    process = start("-m", "svfm_ros.nodes.sim_node", "--ros-args", *pairs, *WAITS)
    listener.activate("/sim_node")
    imu.wait(100)
    odom.wait(20)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    vertical_mps2 = [
        reading.linear_acceleration.z for reading in imu
    ]  # a single one swings by 2 m/s^2 with each footfall
    assert statistics.mean(vertical_mps2) == pytest.approx(9.8, abs=1.0)
    assert imu[0].orientation_covariance[0] == -1.0
    assert (odom[0].header.frame_id, odom[0].child_frame_id) == ("odom", "laser")


def test_the_places_of_the_drawing_are_written_in_the_frame_of_slam(start, listener, tmp_path):
    file, T_map_house = tmp_path / "store" / "places.yaml", Pose2(3.0, -1.0, 0.4)
    truth = listener.collect(PoseStamped, "/ground_truth/pose")
    talker = listener.node.create_publisher(PoseWithCovarianceStamped, "/pose", 10)
    pairs = [word for a in ("hours:=0.05", "sim.lidar.beams:=90", f"places:={file}") for word in ("-p", a)]
    process = start("-m", "svfm_ros.nodes.sim_node", "--ros-args", *pairs)
    for number in range(1, 1000):  # until one is heard
        true = truth.wait(number)[number - 1]
        pose = T_map_house @ convert.from_pose(true.pose)
        talker.publish(convert.to_pose_with_covariance(pose, np.zeros((3, 3)), "map", stamp_ns(true.header.stamp)))
        if file.exists():
            break
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    drawn = {p.name: p.xy for p in load_house("home").places}
    written = load_places(file)
    assert set(written.names) == set(drawn)
    for place in written:
        assert place.xy == pytest.approx(T_map_house.apply(drawn[place.name][None])[0], abs=1e-6)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [("house", "nowhere", "nowhere"), ("rate", -1.0, "rate: expected"), ("sim.lidar.beams", 1, "beams: expected")],
)
def test_bad_input_is_refused(listener, parameter, value, message):
    from rclpy.parameter import Parameter

    with pytest.raises(SvfmError) as error:
        SimNode(parameter_overrides=[Parameter(parameter, value=value)], context=listener.context)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
