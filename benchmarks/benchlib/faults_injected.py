"""For benchmarks/faults.py: each kind of fault, how it is brought about and undone, and what is watched meanwhile."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchlib.live_processes import NODES, wait

_STEP_S = 3600.0
_LOADING_S = 30.0  # of a model that was announced just now


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault; ``begin`` returns what ends it."""

    name: str
    begin: Callable
    lasts_s: float = 5.0


@dataclass
class Fault:
    """One fault: when it ended, and when poses and forecasts came again after that."""

    kind: str
    ended_s: float = 0.0
    back_s: dict[str, float] = field(default_factory=dict)
    end: Callable | None = None
    ends_at_s: float = 0.0


def kill_of(node):
    """SIGKILL."""

    def begin(campaign, _rng):
        campaign.nodes.kill(node)

    return FaultKind(f"kill {node}", begin, 0.0)


def stop_of(node):
    """SIGSTOP, then SIGCONT."""

    def begin(campaign, _rng):
        process = campaign.nodes.running[node]
        process.send_signal(signal.SIGSTOP)
        return lambda: process.poll() is None and process.send_signal(signal.SIGCONT)

    return FaultKind(f"stop {node}", begin, 6.0)


def driver_fault(name, line, lasts_s=5.0):
    """A fault of the driver."""

    def begin(campaign, _rng):
        campaign.tell(line)
        return lambda: campaign.tell("sound")

    return FaultKind(name, begin, lasts_s)


def clock_step(name, seconds):
    """A step of the clock, which stays."""

    def begin(campaign, _rng):
        campaign.tell(f"step {seconds}")

    return FaultKind(name, begin, 0.0)


def full_disk(campaign, _rng):
    """Fill the store's file system to the last byte."""
    ballast = campaign.store / ".ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    return ballast.unlink


def damaged_map(campaign, rng):
    """Overwrite bytes of the map's file, and kill SLAM before it writes the next one."""
    for path in campaign.store.glob("map.s*"):
        overwrite(path, rng)
    campaign.nodes.kill("slam_node")


def damaged_model(campaign, rng):
    """Overwrite bytes of the model's file, and kill the forecaster, so that it must read it."""
    campaign.damaged_models |= model_ids_in(campaign.store / "model.pt")
    overwrite(campaign.store / "model.pt", rng)
    campaign.nodes.kill("forecast_node")


def model_ids_in(path):
    """Id of the model in a file, which need not be the one announced last; empty where there is none to read."""
    from svfm_ros.errors import DataError
    from svfm_ros.forecasting.model_file import load_walk_model

    try:
        return {load_walk_model(path).model_id}
    except DataError:
        return set()


def overwrite(path, rng):
    """100 random bytes anywhere in a file."""
    try:
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            for _ in range(100):
                file.seek(rng.randrange(size))
                file.write(bytes([rng.randrange(256)]))
    except FileNotFoundError:
        return


def cut_network(campaign, _rng):
    """Blackhole all UDP ports between SLAM and the forecaster, both ways."""
    ours, theirs = (udp_ports(campaign.nodes.running[n].pid) for n in ("slam_node", "forecast_node"))
    pairs = [*((a, b) for a in ours for b in theirs), *((b, a) for a in ours for b in theirs)]
    for source, target in pairs:
        rule = ["pref", "500", "ipproto", "udp", "sport", str(source), "dport", str(target), "blackhole"]
        subprocess.run(["ip", "rule", "add", *rule], check=True)

    def restore():
        while subprocess.run(["ip", "rule", "del", "pref", "500"], capture_output=True, check=False).returncode == 0:
            pass

    return restore


def udp_ports(pid):
    """Ports of the UDP sockets of a process."""
    links = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sorted({int(row[1].rpartition(":")[2], 16) for row in rows if row[9] in inodes})


def loaded(_campaign, _rng):
    """Two busy processes for each core."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]

    def end():
        for process in busy:
            process.kill()
            process.wait()

    return end


KINDS = (
    *(kill_of(n) for n in NODES),
    *(stop_of(n) for n in NODES),
    FaultKind("full disk", full_disk, 8.0),
    clock_step("clock + 1 h", _STEP_S),
    clock_step("clock - 1 h", -_STEP_S),
    driver_fault("scans dropped", "drop 0.5"),
    driver_fault("scans doubled", "double"),
    driver_fault("scans reordered", "reorder"),
    driver_fault("scans corrupted", "corrupt 0.5"),
    FaultKind("map file damaged", damaged_map, 0.0),
    FaultKind("model file damaged", damaged_model, 0.0),
    FaultKind("network cut", cut_network, 8.0),
    FaultKind("load on all cores", loaded, 10.0),
)


class Campaign:
    """Faults under way, and what the listener received since."""

    def __init__(self, listener, nodes, driver, store, rate):
        self.listener, self.nodes, self.driver, self.store, self.rate = listener, nodes, driver, store, rate
        self.faults = []
        self.damaged_models = set()  # ids
        self._largest_map = 0
        self._last_map = b""

    def tell(self, line):
        """A command for the driver."""
        self.driver.stdin.write(f"{line}\n")
        self.driver.stdin.flush()

    def inject(self, kind, rng):
        """Bring a fault about; ``watch`` ends it in time."""
        self.end_faults()
        fault = Fault(kind.name)
        fault.end = kind.begin(self, rng)
        fault.ends_at_s = time.monotonic() + kind.lasts_s
        fault.ended_s = 0.0 if fault.end else time.monotonic()
        self.faults.append(fault)

    def end_faults(self):
        """Undo the fault under way."""
        for fault in self.faults[-1:]:
            if fault.end is not None:
                fault.end()
                fault.end, fault.ended_s = None, time.monotonic()

    def watch(self):
        """Restart nodes that ended, end faults that are due, note what came; always True."""
        self.nodes.revive()
        if self.faults:
            self._watch_fault(self.faults[-1])
        if self.listener.map != self._last_map:
            self._last_map = self.listener.map
            self._largest_map = max(self._largest_map, known_cells(self._last_map))
        return True

    def _watch_fault(self, fault):
        if fault.end is not None and time.monotonic() >= fault.ends_at_s:
            self.end_faults()
        if fault.end is None:
            for node in NODES:
                heard_s = self.listener.active_s.get(node, 0.0)
                if heard_s > fault.ended_s + 0.1:
                    fault.back_s.setdefault(node, heard_s - fault.ended_s)

    def has_model(self):
        """Whether the forecaster has a model."""
        return self.listener.figures.get("forecast_node", {}).get("model", "none") != "none"

    def at_the_end(self):
        """What is left: walks, map, model, nodes."""
        from svfm_ros.errors import DataError
        from svfm_ros.slam.state_file import read_state
        from svfm_ros.walks.walk_store import WalkStore

        now_s = time.monotonic()
        alive = [n for n in NODES if self.nodes.running[n].poll() is None]
        heard = [n for n in alive if now_s - self.listener.active_s.get(n, 0.0) < 5.0]
        announced = set(self.listener.walk_ends_ns)  # before the store is read: a walk is stored, then announced
        store = WalkStore.open(self.store)
        stored = {entry.end_ns for entry in store.entries}
        readable = sum(1 for _ in store.walks())
        try:
            reads = min(len(read_state(path)) for path in self.store.glob("map.s*")) > 0
        except (DataError, ValueError):
            reads = False
        return {
            "walks_lost": len(announced - stored),
            "walks_damaged": len(store) - readable,
            "map_share": known_cells(self._last_map) / max(1, self._largest_map),
            "map_file_reads": float(reads),
            "last_good_model_in_use": float(wait(lambda: self.watch() and self._uses_last_model(), _LOADING_S)),
            "alive": len(heard),
        }

    def _uses_last_model(self):
        """Whether the forecaster uses the model that was announced last and not damaged."""
        in_use = self.listener.figures.get("forecast_node", {}).get("model", "none")
        announced = [json.loads(text)["model_id"] for text in self.listener.models]
        sound = [model_id for model_id in announced if model_id not in self.damaged_models]
        return [in_use] == sound[-1:]

    def by_kind(self):
        """One row for each kind of fault: how often, and the longest time until each node was heard from again; with
        how many times that was not before the next fault.
        """
        rows = []
        for kind in dict.fromkeys(fault.kind for fault in self.faults):
            mine = [fault for fault in self.faults if fault.kind == kind]
            row = {"fault": kind, "times": len(mine)}
            for node in NODES:
                times = [fault.back_s[node] for fault in mine if node in fault.back_s]
                late = f" ({len(mine) - len(times)} later)" if len(times) < len(mine) else ""
                row[f"{node} heard again after at most, s"] = f"{max(times, default=np.nan):.2f}{late}"
            rows.append(row)
        return rows


def known_cells(raw):
    """Cells of a published map of which something is known."""
    from nav_msgs.msg import OccupancyGrid
    from rclpy.serialization import deserialize_message

    return int(np.sum(np.asarray(deserialize_message(raw, OccupancyGrid).data) >= 0)) if raw else 0
