"""Speed of the simulator: a worn LiDAR with all effects on, one core, in both houses; walks of a drawn resident.

Ray casting is also timed against Embree (through Open3D) and against plain numpy on the same tilted beams, and the
distances are compared.
"""

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.sim_config import HabitConfig, SimConfig
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.random_house import random_house
from svfm_ros.sim.resident import random_resident, simulate_resident
from svfm_ros.sim.sensors.raycast import RayCaster
from svfm_ros.sim.sim_recording import Recorder
from svfm_ros.sim.walker import route_book, simulate_days, simulate_habit, span_of_days
from svfm_ros.targets import at_least, at_most

Array = NDArray[np.float64]

_HABITS = HabitConfig(dwell_s=20.0)
_RUNS = 3
_WALKS = 2000


def main(argv: list[str] | None = None) -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the simulated recording (10)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core means one core, whatever libraries would like
    checks, payload = [], {}
    for name in ("home", "bungalow"):
        figures = _measure_house(load_house(name), args.minutes)
        payload[name] = figures
        checks += [
            at_least(f"{name}: scans, times real time", figures["scans_x_real_time"], 50),
            at_least(f"{name}: bags (MCAP, with truth), times real time", figures["bags_x_real_time"], 50),
            at_least(f"{name}: true walks per second, first search included", figures["walks_per_s"], 500),
            at_most(f"{name}: beams more than 1 mm off Embree, per 1000", figures["embree_off_per_1000"], 1.0),
        ]
        if not args.json:
            _print_rays(name, figures)
    checks.append(at_most("1,000 walks of a resident in a new random house, s", _resident_s(), 3.0))
    return report("svfm simulate, all effects on, one core", checks, payload, args.json)


def _measure_house(house: House, minutes: float) -> dict[str, Any]:
    config = SimConfig(habits=_HABITS)
    days = minutes / (24 * 60)
    walks = simulate_days(house, config.walker, 0, days, config.habits)
    recorder = Recorder(house, config)
    recording = recorder.all_in_one(walks, 0, span_ns=span_of_days(config.habits, days))
    seconds = recording.motion.duration_s
    next(iter(recorder.scans(recording)))  # compiled before the clock starts

    def bag() -> int:
        with tempfile.TemporaryDirectory() as folder:
            return recorder.write(recording, Path(folder) / "bag")

    walks_s = _best(lambda: simulate_habit(house, config.walker, 0, _WALKS, book=route_book(house, config.walker)))
    return {
        "recorded_s": seconds,
        "walks": len(walks),
        "scans_x_real_time": seconds / _best(lambda: sum(1 for _ in recorder.scans(recording))),
        "bags_x_real_time": seconds / _best(bag),
        "walks_per_s": _WALKS / walks_s,
        **_measure_rays(house, recorder, recording.motion.poses_at(np.linspace(0.0, seconds, 300))),
    }


def _resident_s() -> float:
    """Seconds for a house, its routes, a resident and 1,000 of their walks."""

    def work() -> None:
        house = random_house(7)
        book = route_book(house)
        simulate_resident(house, random_resident(house, 3, book=book), walks=1000, book=book)

    return _best(work)


def _best(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few runs: others share the machine."""
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _measure_rays(house: House, recorder: Recorder, poses: Array) -> dict[str, Any]:
    """The same tilted beams by us, by Embree and by numpy: millions of beams per second."""
    beams = recorder.config.lidar.beams
    rng = np.random.default_rng(0)
    origins = np.repeat(poses[:, :2], beams, axis=0)
    azimuths = np.tile(np.linspace(-np.pi, np.pi, beams, endpoint=False) + 0.003, len(poses))
    slopes = rng.normal(scale=np.radians(3.0), size=len(origins))
    heights = np.full(len(origins), recorder.config.lidar.height_m)
    caster = RayCaster.of_house(house)
    ours = caster.cast(origins, azimuths, heights, slopes, 30.0).distance_m
    scene = _embree_scene(house)
    rays = _embree_rays(origins, azimuths, heights, slopes)
    theirs = scene.cast_rays(rays, nthreads=1)["t_hit"].numpy()
    few = slice(0, 20 * beams)
    millions = 1e-6 * len(origins)
    return {
        "rays_ours_millions_per_s": millions / _best(lambda: caster.cast(origins, azimuths, heights, slopes, 30.0)),
        "rays_embree_millions_per_s": millions / _best(lambda: scene.cast_rays(rays, nthreads=1)),
        "rays_numpy_millions_per_s": 20e-6 * beams / _best(lambda: _by_numpy(house, origins[few], azimuths[few])),
        # Embree counts in single precision: the few beams that just pass a corner may go either way.
        "embree_off_per_1000": 1e3 * float(np.mean(~(np.abs(ours - theirs) <= 1e-3))),
    }


def _embree_scene(house: House) -> Any:
    """Every solid as a closed prism, with a floor and a ceiling."""
    o3d: Any = importlib.import_module("open3d")
    scene = o3d.t.geometry.RaycastingScene(nthreads=1)
    x0, y0, x1, y1 = house.bounds()
    floor = np.array([[x0 - 9, y0 - 9], [x1 + 9, y0 - 9], [x1 + 9, y1 + 9], [x0 - 9, y1 + 9]])
    outlines = [(s.outline, s.bottom_m, s.top_m) for s in house.solids]
    outlines += [(floor, -1.0, 0.0), (floor, house.wall_height_m, house.wall_height_m + 1.0)]
    for outline, bottom, top in outlines:
        corners, triangles = _prism(outline, bottom, top)
        scene.add_triangles(o3d.core.Tensor(corners), o3d.core.Tensor(triangles))
    return scene


def _prism(outline: Array, bottom: float, top: float) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Corners and triangles of an upright prism with a lid at both ends."""
    n = len(outline)
    corners = np.concatenate([np.column_stack([outline, np.full(n, z)]) for z in (bottom, top)])
    triangles = []
    for i in range(n):
        j = (i + 1) % n
        triangles += [(i, j, n + j), (i, n + j, n + i)]
    for ring in (0, n):
        triangles += [(ring + a, ring + b, ring + c) for a, b, c in _ears(outline)]
    return corners.astype(np.float32), np.array(triangles, dtype=np.uint32)


def _ears(outline: Array) -> list[tuple[int, int, int]]:
    """Triangles that fill a polygon, ear by ear."""
    x, y = outline.T
    left = list(range(len(outline)))
    if float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) < 0.0:
        left.reverse()
    found = []
    while len(left) > 3:
        for k in range(len(left)):
            a, b, c = left[k - 1], left[k], left[(k + 1) % len(left)]
            others = [outline[i] for i in left if i not in (a, b, c)]
            if _turn(outline[a], outline[b], outline[c]) > 0 and not any(
                _in_triangle(p, outline[a], outline[b], outline[c]) for p in others
            ):
                found.append((a, b, c))
                left.pop(k)
                break
    return [*found, (left[0], left[1], left[2])]


def _turn(a: Array, b: Array, c: Array) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _in_triangle(p: Array, a: Array, b: Array, c: Array) -> bool:
    return min(_turn(a, b, p), _turn(b, c, p), _turn(c, a, p)) >= 0.0


def _embree_rays(origins: Array, azimuths: Array, heights: Array, slopes: Array) -> Any:
    o3d: Any = importlib.import_module("open3d")
    rays = np.column_stack([origins, heights, np.cos(azimuths), np.sin(azimuths), slopes]).astype(np.float32)
    return o3d.core.Tensor(rays)


def _by_numpy(house: House, origins: Array, azimuths: Array) -> Array:
    """All beams against all edges at once, level beams only: what one writes first."""
    edges = np.concatenate([s.segments() for s in house.at_height(1.2)])
    d = np.stack([np.cos(azimuths), np.sin(azimuths)], axis=1)[:, None]  # (N, 1, 2)
    a, e = edges[None, :, :2] - origins[:, None], (edges[:, 2:] - edges[:, :2])[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        det = d[..., 0] * e[..., 1] - d[..., 1] * e[..., 0]
        t = (a[..., 0] * e[..., 1] - a[..., 1] * e[..., 0]) / det
        u = (a[..., 0] * d[..., 1] - a[..., 1] * d[..., 0]) / det
    return np.asarray(np.where((t >= 0) & (u >= 0) & (u <= 1), t, np.inf).min(axis=1))


def _print_rays(name: str, figures: dict[str, Any]) -> None:
    rows = [(who, figures[f"rays_{who}_millions_per_s"]) for who in ("ours", "embree", "numpy")]
    print_table(f"{name}: ray casting on one core", ("who", "million beams/s"), rows)


if __name__ == "__main__":
    sys.exit(main())
