"""What a kill costs, and walks of other sessions: one frame for the whole house."""

import time
from functools import cache

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid, Path
from sensor_msgs.msg import LaserScan
from simbag import scans_and_truth
from std_srvs.srv import Trigger

from svfm_ros import geometry
from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.mapio import save_map
from svfm_ros.nodes.messages import convert
from svfm_ros.pipeline.live.walk_saver import WalkSaver
from svfm_ros.pipeline.slam_engine import Engines, MapDrawer
from svfm_ros.pipeline.tracking import Tracking
from svfm_ros.types import Alignment, Pose2
from svfm_ros.walks.walk_store import WalkStore

pytestmark = pytest.mark.ros

CONFIG = SlamNodeConfig(recorder=RecorderConfig(dwell_time_s=3.0))


def slam(start, *parameters):
    pairs = [word for p in ("use_sim_time:=true", *parameters) for word in ("-p", p)]
    return start("-m", "svfm_ros.nodes.slam_node", "--ros-args", *pairs)


class Driver:
    """Publishes scans as a LiDAR driver would, when someone listens."""

    def __init__(self, listener):
        self._publisher = listener.node.create_publisher(LaserScan, "scan", 100)
        self._said = listener.collect(DiagnosticArray, "/diagnostics")

    def wait(self, listeners):
        while self._publisher.get_subscription_count() != listeners:
            time.sleep(0.02)
        if listeners:
            self._said.wait(len(self._said) + 1)  # it knows us: poses from before would pass us by

    def send(self, scans):
        for scan in scans:
            self._publisher.publish(convert.to_laser_scan(scan, "laser"))
            time.sleep(0.01)


def when_the_first_walk_ends(scans):
    tracking = Tracking(CONFIG, Engines(CONFIG.slam))
    return next(i for i, s in enumerate(scans) if tracking.add(s).walks)


def test_killed_and_started_again_it_goes_on_with_its_map(start, listener, latched, tmp_path):
    scans, truth = scans_and_truth()
    half = when_the_first_walk_ends(scans) + 2
    store = tmp_path / "walks"
    given = (f"store:={store}", "recorder.dwell_time_s:=3.0", "state_period_s:=0.05", "inbox:=1000")
    poses = listener.collect(PoseWithCovarianceStamped, "pose", 1000)
    walks = listener.collect(Path, "walk", latched)
    driver = Driver(listener)
    node = slam(start, *given)
    driver.wait(1)
    driver.send(scans[:half])
    poses.wait(half)
    walks.wait(1)
    node.kill()
    node.wait()
    driver.wait(0)

    slam(start, *given)
    maps = listener.collect(OccupancyGrid, "map", latched)
    driver.wait(1)
    assert np.sum(np.asarray(maps.wait(1)[-1].data) >= 0) > 1000  # the map is there before the first scan
    driver.send(scans[half:])
    poses.wait(len(scans) - 3)
    stamps = {s.stamp_ns: i for i, s in enumerate(scans)}
    rows = [stamps[convert.stamp_ns(p.header.stamp)] for p in poses]
    xy = np.array([(p.pose.pose.position.x, p.pose.pose.position.y) for p in poses])
    assert np.linalg.norm(xy - truth[rows, :2], axis=1).max() < 0.15
    assert listener.call(Trigger, "/slam_node/finish_walk", Trigger.Request()).success
    walks.wait(2)
    placed = list(WalkStore.open(store).aligned_walks())
    assert len(placed) == 2
    assert np.linalg.norm(placed[1].xy[-1] - truth[0, :2]) < 0.6  # they came back to where they started


def test_found_on_a_given_map(start, listener, latched, tmp_path):
    scans, truth = scans_and_truth()
    tracking = Tracking(CONFIG, Engines(CONFIG.slam))
    for scan in scans:
        tracking.add(scan)
    tracking.close()
    save_map(MapDrawer(CONFIG.raster).draw(tracking.engine.keyframes()), tmp_path / "house.yaml")
    poses = listener.collect(PoseWithCovarianceStamped, "pose", 1000)
    walks = listener.collect(Path, "walk", latched)
    driver = Driver(listener)
    given = (f"map:={tmp_path / 'house.yaml'}", f"store:={tmp_path / 'walks'}", "recorder.dwell_time_s:=3.0")
    slam(start, *given, "inbox:=1000")
    driver.wait(1)
    driver.send(scans)
    poses.wait(len(scans) - 40)  # a few steps are needed to find the place
    assert listener.call(Trigger, "/slam_node/finish_walk", Trigger.Request()).success
    walks.wait(2)
    stamps = {s.stamp_ns: i for i, s in enumerate(scans)}
    rows = [stamps[convert.stamp_ns(p.header.stamp)] for p in poses]
    xy = np.array([(p.pose.pose.position.x, p.pose.pose.position.y) for p in poses])
    assert np.linalg.norm(xy - truth[rows, :2], axis=1).max() < 0.2
    assert len(list(WalkStore.open(tmp_path / "walks").aligned_walks())) == 2
    assert not (tmp_path / "walks" / "map.state").exists()


def wait(over):
    while not over():
        time.sleep(0.02)


@cache
def walks_of_two_sessions():
    """There, on the house's map; and back, on a map that began with the way back; and where that lies in the house."""
    scans, truth = scans_and_truth()
    one, two = Tracking(CONFIG, Engines(CONFIG.slam)), Tracking(CONFIG, Engines(CONFIG.slam))
    there = next(w for s in scans for w in one.add(s).walks)
    middle = int(np.searchsorted([s.stamp_ns for s in scans], there.stamps_ns[-1])) + 25
    back = [w for s in scans[middle:] for w in two.add(s).walks] + two.close()
    one.close()
    return there, back[-1], Pose2.from_array(truth[middle])


def test_walks_of_a_second_session_are_brought_into_the_house(listener, tmp_path):
    there, back, T_house_map = walks_of_two_sessions()
    store = WalkStore.create(tmp_path / "walks")
    store.add(there)
    store.set_alignment(Alignment(there.walk_id, Pose2(), None, True, "the first"))
    saver = WalkSaver(str(store.path), "map", on_given_map=False)
    assert not saver.in_house_frame
    saver.save(back)
    wait(lambda: saver.saved)
    saver.close()
    store.refresh()
    found = store.alignment(back.walk_id)
    assert found.accepted, found.reason
    off = geometry.relative(T_house_map.as_array(), found.T_house_walk.as_array())
    assert np.hypot(off[0], off[1]) < 0.1
    assert abs(off[2]) < 0.05


def test_the_first_session_makes_the_house_and_a_new_map_does_not(listener, tmp_path):
    there, back, _ = walks_of_two_sessions()
    saver = WalkSaver(str(tmp_path / "walks"), "map", on_given_map=False)
    assert saver.in_house_frame
    saver.new_map()
    assert saver.in_house_frame  # there was no walk yet
    saver.save(there)
    wait(lambda: saver.saved)
    saver.new_map()
    assert not saver.in_house_frame
    saver.save(back)
    wait(lambda: saver.saved == 2)
    saver.close()
    store = WalkStore.open(tmp_path / "walks")
    assert store.alignment(there.walk_id).reason == "recorded while the house's map was made"
    assert "of its points lie" in store.alignment(back.walk_id).reason


def test_walks_whose_process_ended_before_they_were_placed_are_placed_later(listener, tmp_path):
    there, back, _ = walks_of_two_sessions()
    store = WalkStore.create(tmp_path / "walks")
    store.add_all([there, back])
    store.set_alignment(Alignment(there.walk_id, Pose2(), None, True, "the first"))
    saver = WalkSaver(str(store.path), "map", on_given_map=False, resumed=True)
    wait(lambda: store.alignment(back.walk_id) is not None)
    saver.close()
    assert store.alignment(back.walk_id).accepted
