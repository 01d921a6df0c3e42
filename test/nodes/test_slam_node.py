"""SLAM as a process among others: a recording goes in over DDS, and what should come out does."""

import importlib.util
import math
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid, Odometry, Path
from roslive import PATIENCE_S
from sensor_msgs.msg import Imu, LaserScan
from simbag import recorded, scans_and_truth
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from svfm_ros.errors import SvfmError
from svfm_ros.mapio import load_map
from svfm_ros.nodes import slam_node
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.slam_node import SlamNode
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.state_file import write_state
from svfm_ros.walks.walk_store import WalkStore

pytestmark = pytest.mark.ros


def slam(start, *parameters):
    pairs = [word for p in ("use_sim_time:=true", *parameters) for word in ("-p", p)]
    return start("-m", "svfm_ros.nodes.slam_node", "--ros-args", *pairs)


def test_a_recording_becomes_poses_a_map_a_track_and_walks(start, listener, latched, tmp_path):
    recorder, recording = recorded()
    scans, truth = scans_and_truth()
    bag = tmp_path / "bag"
    recorder.write(recording, bag)
    poses = listener.collect(PoseWithCovarianceStamped, "pose", 1000)
    odometry = listener.collect(Odometry, "odometry", 1000)
    walks = listener.collect(Path, "walk", latched)
    said = listener.collect(DiagnosticArray, "/diagnostics")
    node = slam(
        start,
        f"store:={tmp_path / 'walks'}",
        "recorder.dwell_time_s:=3.0",
        "save_map_to:=m.yaml",
        "inbox:=1000",  # no pause of a busy machine is to cost a scan
    )
    said.wait(1)  # it knows us: poses from before would pass us by
    start("-m", "svfm_ros.nodes.player", bag, "--rate", 4, "--topics", "scan", "--wait-for", "scan")
    poses.wait(len(scans))

    # Every scan has a pose under its stamp, near the truth.
    stamps = [convert.stamp_ns(p.header.stamp) for p in poses]
    assert stamps == [s.stamp_ns for s in scans]
    xy = np.array([(p.pose.pose.position.x, p.pose.pose.position.y) for p in poses])
    assert np.linalg.norm(xy - truth[:, :2], axis=1).max() < 0.15
    assert poses[-1].header.frame_id == "map"
    assert 0 < poses[-1].pose.covariance[0] < 0.1
    odometry.wait(len(scans))
    assert (odometry[-1].header.frame_id, odometry[-1].child_frame_id) == ("odom", "base_link")
    speeds = np.array([math.hypot(o.twist.twist.linear.x, o.twist.twist.linear.y) for o in odometry])
    walked_m = np.linalg.norm(np.diff(truth[:, :2], axis=0), axis=1).sum()
    assert np.sum(speeds[1:] * np.diff(stamps) * 1e-9) == pytest.approx(walked_m, rel=0.15)

    # Whoever comes late gets map and track.
    grid = listener.collect(OccupancyGrid, "map", latched).wait(1)[-1]
    track = listener.collect(Path, "track", latched).wait(1)[-1]
    assert convert.from_grid_message(grid).resolution_m == 0.05
    assert len(track.poses) > 10

    # Services work between scans; the map that is saved is the one that is shown.
    saved = listener.call(Trigger, "/slam_node/save_map", Trigger.Request())
    assert saved.success, saved.message
    assert np.nanmax(load_map(tmp_path / "walks" / "m.yaml").prob) == 1.0
    finished = listener.call(Trigger, "/slam_node/finish_walk", Trigger.Request())
    assert finished.success

    # Walks are announced and on disk, both there and back.
    walks.wait(2)
    store = WalkStore.open(tmp_path / "walks")
    assert len(store) == 2
    assert [convert.from_path(w, "resident").walk_id for w in walks] == list(store.walk_ids)

    assert listener.call(Trigger, "/slam_node/reset", Trigger.Request()).message == "started with an empty map"
    node.send_signal(signal.SIGINT)
    _, err = node.communicate(timeout=PATIENCE_S)
    assert node.returncode == 0, err
    assert "Traceback" not in err
    if importlib.util.find_spec("tf2_msgs") is None:
        assert err.count("tf2_msgs is not installed") == 1


def test_after_a_reset_the_map_returns_to_the_frame_of_the_house(start, listener, latched, tmp_path):
    """When two walks on the new map agree where it is: until then it has a frame of its own."""
    scans, truth = scans_and_truth(2)
    first, resting = 60, 360  # the new map begins on the way; at rest again, two walks on it are over
    again = [convert.to_laser_scan(replace(s, stamp_ns=s.stamp_ns + 86400 * 10**9), "laser") for s in scans]
    poses = listener.collect(PoseWithCovarianceStamped, "pose", 1000)
    walks = listener.collect(Path, "walk", latched)
    in_house = listener.collect(Bool, "map_in_house_frame", latched)
    said = listener.collect(DiagnosticArray, "/diagnostics")
    slam(start, f"store:={tmp_path / 'walks'}", "recorder.dwell_time_s:=3.0", "inbox:=1000")
    talker = listener.node.create_publisher(LaserScan, "scan", 1000)
    while not talker.get_subscription_count():
        said.wait(len(said) + 1)
    for scan in scans:
        talker.publish(convert.to_laser_scan(scan, "laser"))
    poses.wait(len(scans))
    assert listener.call(Trigger, "/slam_node/finish_walk", Trigger.Request()).success
    walks.wait(4)
    assert listener.call(Trigger, "/slam_node/reset", Trigger.Request()).success
    in_house.wait_for(lambda m: not m.data)
    for message in again[first:resting]:
        talker.publish(message)
    walks.wait(6)
    before = len(poses.wait(len(scans) + resting - first))
    for message in again[resting:]:
        talker.publish(message)
    poses.wait_for(lambda m: m.header.stamp == again[-1].header.stamp)
    assert [m.data for m in in_house.wait(3)] == [True, False, True]
    stamps_ns = [convert.stamp_ns(m.header.stamp) for m in again]
    seen = [(convert.stamp_ns(m.header.stamp), m.pose.pose.position) for m in list(poses)[before + 1 :]]
    error_m = [math.dist((at.x, at.y), truth[stamps_ns.index(stamp), :2]) for stamp, at in seen]
    assert len(error_m) > 100
    assert max(error_m) < 0.15  # in the frame of the house, which is that of the first scan


def test_bad_scans_wrong_types_and_time_that_goes_back(start, listener, tmp_path):
    """One clear line each, and it goes on."""
    scans, _ = scans_and_truth()
    poses = listener.collect(PoseWithCovarianceStamped, "pose", 1000)
    said = listener.collect(DiagnosticArray, "/diagnostics")
    node = slam(start)
    talker = listener.node.create_publisher(LaserScan, "scan", 100)
    while not talker.get_subscription_count():
        said.wait(len(said) + 1)  # it speaks once a second

    def send(*messages):
        for message in messages:
            talker.publish(message)

    send(*(convert.to_laser_scan(s, "laser") for s in scans[:20]))
    poses.wait(20)
    send(LaserScan(), *(convert.to_laser_scan(s, "laser") for s in scans[20:30]))
    poses.wait(30)
    for wrong_ns in (0, scans[0].stamp_ns + 10**17):  # single scans with impossible stamps change nothing
        send(convert.to_laser_scan(replace(scans[5], stamp_ns=wrong_ns), "laser"))
        send(convert.to_laser_scan(scans[30 + (wrong_ns > 0)], "laser"))
    poses.wait(32)
    assert abs(poses[31].pose.pose.position.x - poses[29].pose.pose.position.x) < 0.5
    send(*(convert.to_laser_scan(s, "laser") for s in scans[:10]))  # a bag that begins again
    poses.wait(42)
    last = poses[41].pose.pose.position
    assert math.hypot(last.x, last.y) < 0.1  # started over where the recording starts
    listener.node.create_publisher(String, "points", 10)
    complaint = said.wait_for(lambda m: b"\x02" in [s.level for s in m.status])
    assert (
        "publishes points as std_msgs/msg/String, expected sensor_msgs/msg/PointCloud2" in complaint.status[0].message
    )
    figures = {v.key: v.value for v in complaint.status[0].values}
    assert figures["mode"] == "mapping"
    assert int(figures["scans_dropped"]) == 0
    assert int(figures["scans_with_wrong_stamps"]) == 2
    node.terminate()
    _, err = node.communicate(timeout=PATIENCE_S)
    assert node.returncode == 0, err
    assert err.count("expected a LaserScan with beams") == 1
    assert err.count("time went back by") == 1
    assert "Traceback" not in err


def test_imu_and_odometry_are_heard_and_used(start, listener):
    """A wearer at rest: a gyroscope that shows nothing and an odometry that stands still agree with the scans."""
    scans, _ = scans_and_truth()
    said = listener.collect(DiagnosticArray, "/diagnostics")
    poses = listener.collect(PoseWithCovarianceStamped, "pose")
    slam(start)
    kinds = ((LaserScan, "scan"), (Imu, "imu"), (Odometry, "odom"))
    scan_talker, imu_talker, odom_talker = (listener.node.create_publisher(kind, name, 100) for kind, name in kinds)
    while not all(t.get_subscription_count() for t in (scan_talker, imu_talker, odom_talker)):
        said.wait(len(said) + 1)
    for number, scan in enumerate(scans[:10], 1):
        reading = Imu(header=convert.header("laser", scan.stamp_ns))
        reading.linear_acceleration.z = 9.81
        imu_talker.publish(reading)
        odom_talker.publish(Odometry(header=convert.header("odom", scan.stamp_ns)))
        scan_talker.publish(convert.to_laser_scan(scan, "laser"))
        poses.wait(number)  # topics have no common order
    used = said.wait_for(lambda m: any(v.key == "imu_used" and v.value == "True" for v in m.status[0].values))
    figures = {v.key: v.value for v in used.status[0].values}
    assert float(figures["gyro_bias_deg_s"]) == pytest.approx(0.0, abs=1.0)
    said.wait_for(lambda m: any(v.key == "odometry_used" and v.value == "True" for v in m.status[0].values))


def test_two_wearables_in_one_house_do_not_meet(start, listener, tmp_path):
    """Each has topics, frames and a map file of its own; the store is one."""
    scans, _ = scans_and_truth()
    common = ("-p", "use_sim_time:=true", "-p", f"store:={tmp_path / 'walks'}", "-p", "state_period_s:=0.05")
    poses, nodes = {}, []
    for name in ("mary", "john"):
        own = ("-r", f"__ns:=/{name}", "-p", f"map_frame:={name}/map", "-p", f"resident:={name}")
        nodes.append(start("-m", "svfm_ros.nodes.slam_node", "--ros-args", *common, *own))
        poses[name] = listener.collect(PoseWithCovarianceStamped, f"/{name}/pose", 1000)
    talkers = {name: listener.node.create_publisher(LaserScan, f"/{name}/scan", 100) for name in poses}
    said = listener.collect(DiagnosticArray, "/diagnostics")
    while not all(t.get_subscription_count() for t in talkers.values()):
        said.wait(len(said) + 1)
    for name in poses:  # it knows us: poses from before would pass us by
        said.wait_for(lambda m, name=name: any(s.name.startswith(name) for s in m.status))
    for name, some in (("mary", scans[:30]), ("john", scans[60:80])):
        for scan in some:
            talkers[name].publish(convert.to_laser_scan(scan, "laser"))
    assert {p.header.frame_id for p in poses["mary"].wait(30)} == {"mary/map"}
    assert {p.header.frame_id for p in poses["john"].wait(20)} == {"john/map"}
    assert {s.name for m in said for s in m.status} == {"mary/slam_node: slam", "john/slam_node: slam"}
    for node in nodes:
        node.send_signal(signal.SIGINT)
        _, err = node.communicate(timeout=PATIENCE_S)
        assert node.returncode == 0, err
    # The first to make the store defines the frame of the house; the other map is in a frame of its own.
    frame = WalkStore.open(tmp_path / "walks").frame
    kept = {p.name for p in (tmp_path / "walks").glob("*.state") if ".before" not in p.name}
    assert kept == {f"{frame.partition('/')[0]}.map.state"}
    assert (len(poses["mary"]), len(poses["john"])) == (30, 20)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("map", "/nowhere/map.yaml", "cannot read /nowhere/map.yaml"),
        ("store", "/dev/null/walks", "/dev/null"),
        ("slam.local_keyframes", 0, "local_keyframes: expected at least 1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(listener, parameter, value, message):
    from rclpy.parameter import Parameter

    with pytest.raises(SvfmError) as error:
        SlamNode(parameter_overrides=[Parameter(parameter, value=value)], context=listener.context)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("age_s", "rounds"), [(1.0, 0), (86400.0, 1)])
def test_only_who_was_killed_a_moment_ago_goes_on_without_warming_up(listener, tmp_path, monkeypatch, age_s, rounds):
    from rclpy.parameter import Parameter

    slam_so_far = Slam()
    slam_so_far.add_scan(scans_and_truth()[0][0])
    state = tmp_path / "map.state"
    write_state(slam_so_far.state(), state)
    os.utime(state, (time.time() - age_s,) * 2)
    warmed = []
    monkeypatch.setattr(slam_node, "warm_up", warmed.append)
    node = SlamNode(parameter_overrides=[Parameter("state", value=str(state))], context=listener.context)
    while not node._compiled.done():
        time.sleep(0.01)
    node.close()
    assert len(warmed) == rounds


def test_while_it_is_compiled_it_says_so_instead_of_missing_scans(listener, monkeypatch):
    go = threading.Event()
    monkeypatch.setattr(slam_node, "warm_up", lambda _config: go.wait(PATIENCE_S))
    node = SlamNode(context=listener.context)
    assert "getting ready" in node._health().reason
    go.set()
    while not node._compiled.done():
        time.sleep(0.01)
    assert "getting ready" not in node._health().reason
    node.close()
