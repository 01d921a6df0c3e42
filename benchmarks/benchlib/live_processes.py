"""What the live benchmark stands on: recordings to replay, the nodes as processes, and one who watches from outside."""

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

NODES = ("slam_node", "trainer_node", "forecast_node")
RESPAWN_S = 0.25  # as launch does it
_PAGE = os.sysconf("SC_PAGE_SIZE")


def record_tour(folder, seconds, seed):
    """Someone who walks without a rest; a bag of that many seconds, and the number of its scans."""
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
    """Someone who lives in the house: walks, stays, walks on."""
    from svfm_ros.config.sim_config import HabitConfig
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.sim_recording import Recorder
    from svfm_ros.sim.walker import simulate_days

    house = load_house("home")
    recorder = Recorder(house)
    habits = HabitConfig(dwell_s=20.0)
    walks = simulate_days(house, recorder.config.walker, seed, seconds / 86400.0, habits)
    return recorder.write(recorder.all_in_one(walks, seed), folder)


def learn_first(store):
    """Walks in the frame of the map to come, and a model of them, so that there is something to forecast from."""
    from svfm_ros.config.forecast_config import PathTrainConfig
    from svfm_ros.pipeline.training_job import Task, Teller, train
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.walker import simulate_protocol
    from svfm_ros.types import Alignment, Pose2
    from svfm_ros.walks.walk_store import WalkStore

    walks = [w.walk for w in simulate_protocol(load_house("home"), None, 7, repeats=3, and_back=True)]
    T_map_house = Pose2.from_array(walks[0].poses[0]).inverse()
    made = WalkStore.create(store)
    made.add_all(walks)
    made.set_alignments([Alignment(w.walk_id, T_map_house, None, True, "simulated") for w in walks])
    task = Task(store=str(store), model=str(store / "model.pt"), training=PathTrainConfig(steps=30))
    train(task, Teller(io.StringIO()))


class Processes:
    """The nodes, each in a process; one that dies is started again, as launch would."""

    def __init__(self, out, parameters):
        lessons = out / "lessons"
        given = {
            "slam_node": {"store": out / "store", "recorder.dwell_time_s": 3.0},
            "trainer_node": {"store": lessons, "slack": 9.0},
            "forecast_node": {"model": lessons / "model.pt", "recorder.dwell_time_s": 3.0},
        }
        self._arguments = {n: ros_arguments({**given[n], **parameters.get(n, {})}) for n in NODES}
        self._out = out
        self.running = {}
        self._died = {}
        self.restarts = 0

    def start(self, name, *arguments):
        """Start one; what it says goes to a file."""
        command = [sys.executable, "-m", f"svfm_ros.nodes.{name}", *map(str, arguments)]
        with (self._out / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        return self.running[name]

    def kill(self, name):
        """SIGKILL."""
        self.running[name].kill()
        self.running[name].wait()

    def revive(self):
        """Start again what died, a moment later."""
        now_s = time.monotonic()
        for name in NODES:
            if self.running[name].poll() is None:
                continue
            if now_s - self._died.setdefault(name, now_s) >= RESPAWN_S:
                del self._died[name]
                self.restarts += 1
                self.start(name, *self._arguments[name])

    def megabytes(self):
        """Memory each node holds."""
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
            process.wait(30)


def ros_arguments(parameters):
    """Parameters as a command line takes them."""
    pairs = [("use_sim_time", "true"), *parameters.items()]
    return ["--ros-args", *(word for name, value in pairs for word in ("-p", f"{name}:={value}"))]


def _resident_mb(pid):
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
    except (OSError, IndexError):
        return float("nan")


class Watch:
    """Listens like anyone else; keeps when what arrived, by the stamp of the scan it came from, and no more."""

    def __init__(self):
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from geometry_msgs.msg import PoseWithCovarianceStamped
        from nav_msgs.msg import OccupancyGrid, Path
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
        from sensor_msgs.msg import LaserScan
        from std_msgs.msg import String
        from visualization_msgs.msg import MarkerArray

        from svfm_ros.nodes.runtime.ports import fresh_ports

        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        best_effort = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.scan_s, self.pose_s, self.forecast_s = {}, {}, {}
        self.figures, self.models, self.walks = {}, [], 0
        self.map, self.marker_bytes = b"", 0
        self.spoke_s = {}  # when each node last said something of use
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        with fresh_ports():  # as the nodes do it: otherwise it would hear of a restart up to three seconds later
            self._node = rclpy.create_node("live_watch", context=self._context)
        subscribe = self._node.create_subscription
        subscribe(LaserScan, "scan", lambda raw: self._note(self.scan_s, raw, 4), best_effort, raw=True)
        subscribe(PoseWithCovarianceStamped, "pose", self._pose, 1000, raw=True)
        subscribe(MarkerArray, "forecast/paths", self._markers, latched, raw=True)
        subscribe(Path, "walk", self._walk, latched, raw=True)
        subscribe(OccupancyGrid, "map", self._take_map, latched, raw=True)
        subscribe(String, "model", self._model, latched)
        subscribe(DiagnosticArray, "/diagnostics", self._diagnostics, 100)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        from rclpy.executors import ExternalShutdownException, ShutdownException

        with contextlib.suppress(ExternalShutdownException, ShutdownException):
            self._executor.spin()

    def _note(self, times, raw, at):
        stamp_ns = int.from_bytes(raw[at : at + 4], "little") * 10**9 + int.from_bytes(raw[at + 4 : at + 8], "little")
        times.setdefault(stamp_ns, time.monotonic())

    def _pose(self, raw):
        self._note(self.pose_s, raw, 4)
        self.spoke_s["slam_node"] = time.monotonic()

    def _markers(self, raw):
        self.marker_bytes += len(raw)
        self._note(self.forecast_s, raw, 8)  # after the number of markers
        self.spoke_s["forecast_node"] = time.monotonic()

    def _walk(self, _raw):
        self.walks += 1

    def _take_map(self, raw):
        self.map = bytes(raw)

    def _model(self, message):
        self.models.append(message.data)

    def _diagnostics(self, message):
        for status in message.status:
            name = status.name.partition(":")[0]
            self.figures[name] = {v.key: v.value for v in status.values} | {"message": status.message}
            if name == "trainer_node":
                self.spoke_s[name] = time.monotonic()

    def latencies_ms(self, arrived_s):
        """From a scan's arrival here to that of what it gave rise to."""
        both = [n for n in list(arrived_s) if n in self.scan_s]
        return np.array([1e3 * (arrived_s[n] - self.scan_s[n]) for n in both])

    def call(self, service, patience_s=20.0):
        """The answer of a Trigger service."""
        from svfm_ros.nodes.runtime.service_call import ask

        return ask(self._node, service, patience_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        import rclpy

        self._executor.shutdown(0)
        self._thread.join(5.0)
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)


def wait(over, patience_s=120.0):
    """Until it is so, or too long; whether it is so."""
    end_s = time.monotonic() + patience_s
    while not over():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True
