"""The live page of a running node, on real DDS and in a real browser: moving, asking, and back after a kill."""

import json
import signal
import threading
import time

import numpy as np
import pytest
from browser import PATIENCE_S, Browser, needs_browser
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.msg import SetParametersResult
from sensor_msgs.msg import LaserScan, PointCloud2
from std_msgs.msg import String
from std_srvs.srv import SetBool

from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.forecast_messages import bundle_from_cloud, to_cloud, to_summary
from svfm_ros.nodes.web_node import scan_bytes
from svfm_ros.types import Forecast, OccupancyGrid, Place, Places, Pose2
from svfm_ros.web.page_address import free_port

pytestmark = pytest.mark.ros

PLACES = Places((Place("kitchen", 5.0, 3.0, 0.5, "#0072b2"), Place("bed", 5.0, 1.0, 0.5, "#d55e00")))
START_NS = 1_793_606_400 * 1_000_000_000  # 8 o'clock


def forecast(stamp_ns, x=1.0, share=0.7, known=True):
    times = np.linspace(0.0, 4.0, 11)
    lines = [np.stack([x + times, 2.0 + 0.02 * n * times], axis=1) for n in range(40)]
    return Forecast(
        stamp_ns=stamp_ns,
        frame="map",
        times_s=times,
        samples_xy=np.stack(lines),
        component=np.zeros(40, dtype=np.int64),
        shares={"kitchen": share, "bed": 1.0 - share, "elsewhere": 0.0},
        entropy=0.6,
        walks=9,
        model_id="abc",
        known=known,
        endpoint=np.arange(40) % 2,
    )


class Graph:
    """Publishes what SLAM and forecaster would, and answers as forecaster and player do."""

    def __init__(self, listener, latched):
        from geometry_msgs.msg import PoseWithCovarianceStamped
        from nav_msgs.msg import OccupancyGrid as GridMessage

        self.node, self.step = listener.node, 0
        publisher = self.node.create_publisher
        self._map = publisher(GridMessage, "map", latched)
        self._scan = publisher(LaserScan, "scan", 10)
        self._pose = publisher(PoseWithCovarianceStamped, "pose", 10)
        self._samples = publisher(PointCloud2, "forecast/samples", latched)
        self._summary = publisher(String, "forecast/summary", latched)
        self._diagnostics = publisher(DiagnosticArray, "/diagnostics", 10)
        self.asked, self.was_asked = [], threading.Event()
        self.node.create_service(SetBool, "player/pause", self._pause)
        self._forecaster = listener.context and self._make_forecaster(listener)

    def _make_forecaster(self, listener):
        import rclpy

        node = rclpy.create_node("forecast_node", context=listener.context)
        node.declare_parameter("what_if_hour", float("nan"))

        def changed(parameters):
            self.asked += [(p.name, p.value) for p in parameters]
            self.was_asked.set()
            return SetParametersResult(successful=True)

        node.add_on_set_parameters_callback(changed)
        listener.spinning.executor.add_node(node)
        return node

    def _pause(self, request, response):
        self.asked.append(("pause", request.data))
        self.was_asked.set()
        response.success = True
        return response

    def complain(self, name, message):
        status = DiagnosticStatus(level=DiagnosticStatus.WARN, name=f"{name}: slam", message=message)
        self._diagnostics.publish(DiagnosticArray(status=[status]))

    def publish(self, x, share=0.7, with_scan=True):
        """One scan of the room of 6 by 4 metres with its pose and its forecast, or the latter two alone."""
        self.step += 1
        stamp_ns = START_NS + self.step * 100_000_000
        prob = np.zeros((40, 60), dtype=np.float32)
        prob[[0, -1]] = prob[:, [0, -1]] = 1.0
        self._map.publish(convert.to_grid_message(OccupancyGrid(prob, 0.1, Pose2()), "map", stamp_ns))
        scan = LaserScan(header=convert.header("laser", stamp_ns), angle_increment=0.01, range_max=20.0)
        scan.ranges = [2.0] * 600
        if with_scan:
            self._scan.publish(scan)
        self._pose.publish(convert.to_pose_with_covariance(Pose2(x, 2.0), np.eye(3) * 1e-4, "map", stamp_ns))
        made = forecast(stamp_ns, x, share)
        self._samples.publish(to_cloud(made, PLACES))
        self._summary.publish(String(data=to_summary(made, PLACES)))


@pytest.fixture
def graph(listener, latched):
    made = Graph(listener, latched)
    yield made
    made._forecaster.destroy_node()


@pytest.fixture
def browser():
    made = Browser()
    yield made
    made.close()


def keep_publishing(graph, page, x, share, seen, with_scan=True):
    """Publish until the page shows it: the node may still be discovering its publishers."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        graph.publish(x, share, with_scan)
        if page.eval(seen):
            return
        time.sleep(0.1)
    raise AssertionError(f"the page never showed {seen}")


@needs_browser
def test_the_page_follows_asks_and_comes_back(start, graph, browser):
    port = free_port("127.0.0.1", 8700)
    arguments = ("-m", "svfm_ros.nodes.web_node", "--ros-args", "-p", f"port:={port}")
    first = start(*arguments)
    page = None
    for line in first.stderr:
        if "live page is at" in line:
            page = browser.open(line.rpartition(" ")[2].strip())
            break
    page.wait_for("document.body.dataset.connected === 'yes'")
    page.wait_for("byId('asleep').textContent === 'waiting for the nodes' && !byId('asleep').hidden")
    until_s = time.monotonic() + PATIENCE_S
    while page.eval("byId('asleep').textContent") != "getting ready" and time.monotonic() < until_s:
        graph.complain("slam_node", "getting ready")
        time.sleep(0.1)
    assert page.eval("byId('line').textContent") == "getting ready"
    keep_publishing(
        graph, page, 1.0, 0.7, "Boolean(now.map && now.paths && now.scan && now.walker && now.walker.x === 1)"
    )
    page.wait_for("byId('bars').textContent.includes('70 %')")
    fan = page.eval("JSON.stringify([...now.paths.lines[3]])")
    picture = page.eval("byId('plan').toDataURL()")
    keep_publishing(graph, page, 2.0, 0.4, "now.walker.x === 2 && now.forecast.shares[0] === 0.4")
    page.wait_for(f"JSON.stringify([...now.paths.lines[3]]) !== {json.dumps(fan)}")
    page.wait_for(f"byId('plan').toDataURL() !== {json.dumps(picture)}")
    page.wait_for("byId('clock').textContent === '08:00'")
    keep_publishing(graph, page, 2.0, 0.4, "now.scan.length === 0", with_scan=False)  # it is that of another position

    slide = "(() => { const s = byId('hour'); s.value = 3; s.dispatchEvent(new Event('input')); })()"
    until_s = time.monotonic() + PATIENCE_S
    while not graph.asked and time.monotonic() < until_s:  # the node may still be discovering the forecaster's service
        page.eval(slide)
        graph.was_asked.wait(1.0)
    assert set(graph.asked) == {("what_if_hour", 3.0)}

    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE_S)
    page.wait_for("document.body.dataset.connected === 'no'")
    page.eval("show()")  # as every second: what was last heard from the node does not cover that it is gone
    assert page.eval("byId('line').textContent") == "the connection is lost; trying again …"
    start(*arguments)
    page.wait_for("document.body.dataset.connected === 'yes'")
    keep_publishing(graph, page, 3.0, 0.9, "now.walker.x === 3 && now.forecast.shares[0] === 0.9")


def test_a_sweep_of_a_turning_sensor_is_drawn_on_the_walls():
    """A sensor in the middle of a round room of 3 m turns by a right angle a second while its beams go round."""
    from rclpy.serialization import serialize_message

    beams, sweep_s, turn = 400, 0.1, np.pi / 2
    angles = np.arange(beams) / beams * 2.0 * np.pi
    ranges = np.where(np.cos(angles + turn * sweep_s * np.arange(beams) / beams) > 0.0, 3.0, 2.0)  # a half-moon
    scan = LaserScan(angle_increment=2.0 * np.pi / beams, time_increment=sweep_s / beams, range_max=20.0)
    scan.ranges = ranges.tolist()
    before = Pose2(0.0, 0.0, -turn * sweep_s)
    drawn = np.frombuffer(scan_bytes(serialize_message(scan), Pose2(), before, sweep_s), dtype="<i2").reshape(-1, 2)
    far = np.hypot(*drawn.T) > 250
    assert far.sum() > 150
    assert drawn[far][:, 0].min() > -4  # centimetres: the half-moon stands upright
    assert drawn[~far][:, 0].max() < 4


def test_paths_come_back_from_a_cloud():
    made = forecast(START_NS)
    xy, ends = bundle_from_cloud(to_cloud(made, PLACES))
    assert np.allclose(xy, made.samples_xy, atol=1e-5)
    assert ends.tolist() == made.endpoint.tolist()
