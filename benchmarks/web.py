"""The live page: load and traffic with 200 paths at 10 Hz, for one page, ten pages, and one that reads nothing.

The real web_node runs in a process of its own; this process publishes what the other nodes would, over DDS: map every
2 s, scans of 720 beams, poses, 200 paths of 26 positions, density, summary and diagnostics. Pages are WebSocket clients
in a third process that read and acknowledge every frame as a browser does. Load is processor time of the node, so that
other programs on the machine do not count.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.web.page_address import free_port

_RATE_HZ, _PATHS = 10.0, 200
_LOAD, _BYTES_PER_S, _PUBLISH_MS = 0.15, 150_000.0, 50.0
_LEAST_FRAMES_PER_S = 9.0
_DROPPED_S = 30.0
_START_S = 60.0
_BEAMS = 720

PAGES = """
import asyncio, json, sys, time
import aiohttp
address, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
async def page(session):
    got = frames = 0
    async with session.ws_connect(address, max_msg_size=0) as socket:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            frame = await socket.receive_bytes(timeout=10)
            got, frames = got + len(frame), frames + 1
            await socket.send_str(json.dumps({"seen": frames}))
    return got, frames
async def main():
    async with aiohttp.ClientSession() as session:
        return await asyncio.gather(*(page(session) for _ in range(count)))
print(json.dumps(asyncio.run(main())))
"""


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measurement (20)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["ROS_DOMAIN_ID"] = str(random.SystemRandom().randint(1, 101))
    with _web_node() as (node, port), _publisher() as published:
        rows = [_measure(node, port, count, args.seconds) for count in (0, 1, 10)]
        before_ms = float(np.quantile(published.took_ms, 0.99))
        published.took_ms.clear()
        dropped_s = _until_dropped(port, published)
        after_ms = float(np.quantile(published.took_ms, 0.99))
    if not args.json:
        print_table("the live page", tuple(rows[0]), [row.values() for row in rows])
    return report("the live page", _checks(rows, before_ms, after_ms, dropped_s), {"rows": rows}, args.json)


def _checks(rows: list[dict[str, float]], before_ms: float, after_ms: float, dropped_s: float) -> list[Check]:
    _, one, ten = rows
    return [
        at_most("one page: share of a core", one["load"], _LOAD),
        at_most("one page: bytes a second", one["bytes_per_s"], _BYTES_PER_S),
        at_least("one page: frames a second", one["frames_per_s"], _LEAST_FRAMES_PER_S),
        at_least("ten pages: frames a second of the slowest", ten["frames_per_s"], _LEAST_FRAMES_PER_S),
        at_most("ten pages: all messages published, 99 %, ms", before_ms, _PUBLISH_MS),
        at_most("a client that reads nothing: s until it is dropped", dropped_s, _DROPPED_S),
        at_most("the same: all messages published, 99 %, ms", after_ms, _PUBLISH_MS),
    ]


@contextlib.contextmanager
def _web_node() -> Iterator[tuple[subprocess.Popen[str], int]]:
    port = free_port("127.0.0.1", 8650)
    command = [sys.executable, "-m", "svfm_ros.nodes.web_node", "--ros-args", "-p", f"port:={port}"]
    node = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert node.stderr is not None
    try:
        for line in node.stderr:
            if "live page is at" in line:
                break
        yield node, port
    finally:
        node.send_signal(signal.SIGINT)
        node.wait(_START_S)


def _measure(node: subprocess.Popen[str], port: int, pages: int, seconds: float) -> dict[str, float]:
    """Load, traffic of one page and frames of the slowest page."""
    time.sleep(2.0)
    began_s, used_s = time.monotonic(), _cpu_s(node.pid)
    if pages:
        command = [sys.executable, "-c", PAGES, f"ws://127.0.0.1:{port}/live", str(pages), str(seconds)]
        got = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    else:
        time.sleep(seconds)
        got = [[0, 0]]
    took_s = time.monotonic() - began_s
    return {
        "pages": pages,
        "load": (_cpu_s(node.pid) - used_s) / took_s,
        "bytes_per_s": max(b for b, _ in got) / seconds,
        "frames_per_s": min(n for _, n in got) / seconds,
    }


def _cpu_s(pid: int) -> float:
    """Processor time of a process and its threads in seconds."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def _until_dropped(port: int, published: "_Publisher") -> float:
    """Seconds until a client that never reads loses its connection."""
    request = (
        f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.socket() as client:
        client.connect(("127.0.0.1", port))
        client.sendall(request.encode())
        began_s = time.monotonic()
        while published.pages_open() and time.monotonic() - began_s < 2 * _DROPPED_S:
            time.sleep(0.2)
        return time.monotonic() - began_s


class _Publisher:
    """A node that publishes ten times a second what SLAM, trainer and forecaster would."""

    def __init__(self) -> None:
        import threading

        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from geometry_msgs.msg import PoseWithCovarianceStamped
        from nav_msgs.msg import OccupancyGrid as GridMessage
        from sensor_msgs.msg import LaserScan, PointCloud2
        from std_msgs.msg import String

        from svfm_ros.nodes.runtime.subscriptions import LATCHED

        self.took_ms: list[float] = []
        self._pages = -1
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node("web_benchmark", context=self._context)
        make = self._node.create_publisher
        self._map, self._scan = make(GridMessage, "map", LATCHED), make(LaserScan, "scan", 10)
        self._pose = make(PoseWithCovarianceStamped, "pose", 10)
        self._samples, self._density = (
            make(PointCloud2, "forecast/samples", LATCHED),
            make(GridMessage, "forecast/density", LATCHED),
        )
        self._summary = make(String, "forecast/summary", LATCHED)
        self._node.create_subscription(DiagnosticArray, "/diagnostics", self._diagnostics, 10)
        self._executor = rclpy.executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._publish, self._spin)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        import rclpy

        self._stopping.set()
        self._threads[0].join()
        self._executor.shutdown(0)
        rclpy.shutdown(context=self._context)

    def pages_open(self) -> bool:
        """Whether the node says that a page is open, or has not said anything new for two seconds."""
        self._pages = -1
        end_s = time.monotonic() + 2.5
        while self._pages < 0 and time.monotonic() < end_s:
            time.sleep(0.05)
        return self._pages != 0

    def _spin(self) -> None:
        with contextlib.suppress(Exception):
            self._executor.spin()

    def _diagnostics(self, message: Any) -> None:
        for status in message.status:
            if status.name.startswith("web_node"):
                self._pages = int(next(v.value for v in status.values if v.key == "pages"))

    def _publish(self) -> None:
        from sensor_msgs.msg import LaserScan
        from std_msgs.msg import String

        from svfm_ros.nodes.messages import convert
        from svfm_ros.nodes.messages.forecast_messages import to_cloud, to_summary
        from svfm_ros.types import OccupancyGrid, Pose2

        rng, step = np.random.default_rng(0), 0
        walls = (rng.random((240, 280)) < 0.08).astype(np.float32)
        due_s = time.monotonic()
        while not self._stopping.is_set():
            stamp_ns = 1_793_606_400 * 10**9 + step * 10**8
            x = 1.0 + (0.12 * step) % 8.0
            forecast, places = _forecast(rng, stamp_ns, x)
            density = OccupancyGrid(_density(forecast.samples_xy), 0.1, Pose2())
            scan = LaserScan(
                header=convert.header("laser", stamp_ns), angle_increment=2 * np.pi / _BEAMS, range_max=20.0
            )
            scan.ranges = (3.0 + rng.random(_BEAMS)).tolist()
            messages = [
                (self._scan, scan),
                (self._pose, convert.to_pose_with_covariance(Pose2(x, 5.0), np.eye(3) * 1e-4, "map", stamp_ns)),
                (self._samples, to_cloud(forecast, places)),
                (self._summary, String(data=to_summary(forecast, places))),
                (self._density, convert.to_grid_message(density, "map", stamp_ns)),
            ]
            if step % 20 == 0:
                messages.append(
                    (self._map, convert.to_grid_message(OccupancyGrid(walls, 0.05, Pose2()), "map", stamp_ns))
                )
            began_s = time.monotonic()
            for publisher, message in messages:
                publisher.publish(message)
            self.took_ms.append(1e3 * (time.monotonic() - began_s))
            step += 1
            due_s += 1.0 / _RATE_HZ
            time.sleep(max(0.0, due_s - time.monotonic()))


def _forecast(rng: np.random.Generator, stamp_ns: int, x: float) -> Any:
    from svfm_ros.types import Forecast, Place, Places

    places = Places(tuple(Place(f"place {n}", 2.0 * n, 5.0, 0.5, "#0072b2") for n in range(6)))
    times = np.linspace(0.0, 10.0, 26)
    angles = rng.uniform(0.0, 2 * np.pi, _PATHS)
    ahead = 1.1 * times[None, :, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None]
    shares = {f"place {n}": 1 / 6 for n in range(6)} | {"elsewhere": 0.0}
    component = np.zeros(_PATHS, dtype=np.int64)
    ends = rng.integers(0, 6, _PATHS)
    found = Forecast(stamp_ns, "map", times, np.array([x, 5.0]) + ahead, component, shares, 1.79, 9, "abc", True, ends)
    return found, places


def _density(samples_xy: Any) -> Any:
    cells = np.zeros((200, 200), dtype=np.float32)
    columns, rows = np.clip((samples_xy / 0.1).astype(int), 0, 199).reshape(-1, 2).T
    np.add.at(cells, (rows, columns), 1.0 / _PATHS)
    return np.minimum(cells, 1.0)


@contextlib.contextmanager
def _publisher() -> Iterator[_Publisher]:
    made = _Publisher()
    try:
        yield made
    finally:
        made.close()


if __name__ == "__main__":
    raise SystemExit(main())
