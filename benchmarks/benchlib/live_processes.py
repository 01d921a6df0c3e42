"""For benchmarks of the live pipeline: recordings, the nodes as processes, and a node that receives their messages."""

import contextlib
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

NODES = ("slam_node", "trainer_node", "forecast_node")
_STOP_S = 60.0
RESPAWN_S = 0.25  # as launch does it
_PAGE = os.sysconf("SC_PAGE_SIZE")


def record_tour(folder, seconds, seed):
    """Write a bag of a resident who walks without a rest; returns the number of scans."""
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.sim_recording import Recorder
    from svfm_ros.sim.walker import simulate_tour

    house = load_house("home")
    recorder = Recorder(house)
    rng = np.random.default_rng(seed)
    names = [n for n in house.places.names if n != "couch"]
    stops = ["couch" if i % 2 == 0 else names[rng.integers(len(names))] for i in range(max(2, int(seconds / 13)) + 1)]
    walks = simulate_tour(house, stops, recorder.config.walker, seed, 13.0)
    return recorder.write(recorder.all_in_one(walks, seed), folder)


def record_life(folder, seconds, seed):
    """Write a bag of a resident who walks and rests; returns the number of scans."""
    from svfm_ros.config.sim_config import HabitConfig
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.sim_recording import Recorder
    from svfm_ros.sim.walker import simulate_days

    house = load_house("home")
    recorder = Recorder(house)
    habits = HabitConfig(dwell_s=20.0)
    walks = simulate_days(house, recorder.config.walker, seed, seconds / 86400.0, habits)
    return recorder.write(recorder.all_in_one(walks, seed), folder)


def train_first(store):
    """Store walks in the frame of the map that SLAM will make, and train a model on them."""
    from svfm_ros.pipeline.training_job import EventWriter, Task, train
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.walker import simulate_protocol
    from svfm_ros.types import Alignment, Pose2
    from svfm_ros.walks.walk_store import WalkStore

    walks = [w.walk for w in simulate_protocol(load_house("home"), None, 7, repeats=3, and_back=True)]
    T_map_house = Pose2.from_array(walks[0].poses[0]).inverse()
    made = WalkStore.create(store)
    made.add_all(walks)
    made.set_alignments([Alignment(w.walk_id, T_map_house, None, True, "simulated") for w in walks])
    task = Task(store=str(store), model=str(store / "model.pt"))
    train(task, EventWriter(io.StringIO()))


class Processes:
    """The nodes, each in a process; one that ends is started again, as by launch."""

    def __init__(self, out, parameters):
        trained = out / "trained"
        given = {
            "slam_node": {"store": out / "store", "recorder.dwell_time_s": 3.0},
            "trainer_node": {"store": trained, "slack": 9.0},
            "forecast_node": {"model": trained / "model.pt", "recorder.dwell_time_s": 3.0},
        }
        self._arguments = {n: ros_arguments({**given[n], **parameters.get(n, {})}) for n in NODES}
        self._out = out
        self.running = {}
        self._died = {}
        self.restarts = 0
        self.slow_stops = 0  # nodes that had to be killed at the end

    def start(self, name, *arguments):
        """Start a node; its output goes to a file."""
        command = [sys.executable, "-m", f"svfm_ros.nodes.{name}", *map(str, arguments)]
        with (self._out / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        return self.running[name]

    def kill(self, name):
        """SIGKILL."""
        self.running[name].kill()
        self.running[name].wait()

    def revive(self):
        """Start nodes again that ended a moment ago."""
        now_s = time.monotonic()
        for name in NODES:
            if self.running[name].poll() is None:
                continue
            if now_s - self._died.setdefault(name, now_s) >= RESPAWN_S:
                del self._died[name]
                self.restarts += 1
                self.start(name, *self._arguments[name])

    def megabytes(self):
        """Resident memory of each node."""
        return {n: _resident_mb(p.pid) for n, p in self.running.items() if n in NODES}

    def __enter__(self):
        for name in NODES:
            self.start(name, *self._arguments[name])
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                self.slow_stops += 1


def ros_arguments(parameters):
    """Parameters as command line arguments."""
    pairs = [("use_sim_time", "true"), *parameters.items()]
    return ["--ros-args", *(word for name, value in pairs for word in ("-p", f"{name}:={value}"))]


def _resident_mb(pid):
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
    except (OSError, IndexError):
        return float("nan")


class LiveListener:
    """Records the time of arrival of messages by the stamp of the scan they were computed from."""

    def __init__(self):
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from geometry_msgs.msg import PoseWithCovarianceStamped
        from nav_msgs.msg import OccupancyGrid, Path
        from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
        from sensor_msgs.msg import LaserScan
        from std_msgs.msg import String
        from visualization_msgs.msg import MarkerArray

        from svfm_ros.nodes.runtime.spin_thread import SpinThread

        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        best_effort = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.scan_s, self.pose_s, self.forecast_s = {}, {}, {}
        self.figures, self.models, self.walks = {}, [], 0
        self.walk_ends_ns = set()  # of the walks that were announced
        self.map, self.marker_bytes = b"", 0
        self.active_s = {}  # time of the last output of each node
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node("live_listener", context=self._context)  # DDS defaults, as RViz has
        subscribe = self._node.create_subscription
        subscribe(LaserScan, "scan", lambda raw: self._note(self.scan_s, raw, 4), best_effort, raw=True)
        subscribe(PoseWithCovarianceStamped, "pose", self._pose, 1000, raw=True)
        subscribe(MarkerArray, "forecast/paths", self._markers, latched, raw=True)
        subscribe(Path, "walk", self._walk, latched, raw=True)
        subscribe(OccupancyGrid, "map", self._take_map, latched, raw=True)
        subscribe(String, "model", self._model, latched)
        subscribe(DiagnosticArray, "/diagnostics", self._diagnostics, 100)
        self._spinning = SpinThread(self._node, "live listener")

    def _note(self, times, raw, at):
        stamp_ns = int.from_bytes(raw[at : at + 4], "little") * 10**9 + int.from_bytes(raw[at + 4 : at + 8], "little")
        times.setdefault(stamp_ns, time.monotonic())

    def _pose(self, raw):
        self._note(self.pose_s, raw, 4)
        self.active_s["slam_node"] = time.monotonic()

    def _markers(self, raw):
        self.marker_bytes += len(raw)
        self._note(self.forecast_s, raw, 8)  # after the number of markers
        self.active_s["forecast_node"] = time.monotonic()

    def _walk(self, raw):
        self.walks += 1
        self._note_end(raw)

    def _note_end(self, raw):
        self.walk_ends_ns.add(int.from_bytes(raw[4:8], "little") * 10**9 + int.from_bytes(raw[8:12], "little"))

    def _take_map(self, raw):
        self.map = bytes(raw)

    def _model(self, message):
        self.models.append(message.data)

    def _diagnostics(self, message):
        for status in message.status:
            name = status.name.partition(":")[0]
            self.figures[name] = {v.key: v.value for v in status.values} | {"message": status.message}
            if name == "trainer_node":
                self.active_s[name] = time.monotonic()

    def latencies_ms(self, arrived_s):
        """Milliseconds from the arrival of each scan to that of the message with its stamp."""
        both = [n for n in list(arrived_s) if n in self.scan_s]
        return np.array([1e3 * (arrived_s[n] - self.scan_s[n]) for n in both])

    def call(self, service, timeout_s=20.0):
        """Call a Trigger service; returns success and message."""
        from svfm_ros.nodes.client import call_trigger

        return call_trigger(self._node, service, timeout_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        import rclpy

        self._spinning.stop()
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)


def wait(condition, timeout_s=120.0):
    """Wait until the condition is true; False after the timeout."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True
