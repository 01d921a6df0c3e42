"""Hand-written parts beside the libraries that could replace them: GTSAM, Open3D, pydantic.

Pose graph: 2,000 poses of a walk through the rooms of a house and 500 loop closures between them, both solvers from the
same odometry, with the same constraints and to convergence. Error: root mean square distance to the true positions.
First least squares alone; then every fifth loop closure is false: ours decides about each loop as it does in SLAM,
GTSAM by its graduated non-convexity with the truncated least-squares kernel. g2o is not compared: g2o-python 0.0.12
crashes with NumPy 2.

Ray casting: the tilted beams of a worn LiDAR in both houses, by ours, by Embree (Open3D's RaycastingScene, with
conversion of the rays) and, level, by plain numpy: rays per second, and how many distances differ.

Options: the time to check the options of SLAM, and to import what checks them. Processor time, one thread.
``pip install gtsam open3d pydantic`` first; a library that is not installed is left out.
"""

import argparse
import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchlib.embree import embree_rays, embree_scene
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.cli.output import add_json_argument, print_table, report, shown
from svfm_ros.config.options import options_of
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.sensors.raycast import RayCaster
from svfm_ros.sim.walker import simulate_days
from svfm_ros.slam.graph.block_cholesky import build_structure
from svfm_ros.slam.graph.edges import Edges, minimise
from svfm_ros.slam.graph.robust_loops import odometry_consistent, solve_robustly
from svfm_ros.targets import Check, at_least, at_most

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Solver = Callable[["Problem"], tuple[Array, float]]  # poses (N, 3) and processor time in seconds

_POSES, _LOOPS = 2000, 500
_ROOM_M, _ROOMS = 4.0, 3  # side of a room, rooms per side of the house
_STEP_M = 0.4
_STEP_SIGMA = np.array([0.02, 0.02, 0.01])  # of an odometry step: m, m, rad
_LOOP_SIGMA = np.array([0.03, 0.03, 0.015])
_FALSE_EVERY = 5
_GRAPHS = 5
_REPEATS = 5  # of each timing; the fastest counts
_HOUSES = ("home", "bungalow")
_POSITIONS, _BEAMS, _HEIGHT_M, _TILT_RAD, _RANGE_M = 300, 360, 1.2, np.radians(3.0), 30.0  # of the worn LiDAR
_SAME_M = 1e-3
_MAX_ITERATIONS, _TOLERANCE = 30, 1e-6
_OURS = "svfm_ros"


@dataclass(frozen=True, slots=True)
class Problem:
    """A pose graph: true and initial poses, and relative poses with a diagonal covariance."""

    truth: Array  # (N, 3)
    initial: Array  # (N, 3), by odometry
    first: Ints  # (E,)
    second: Ints  # (E,)
    measured: Array  # (E, 3), T_first_second
    sigma: Array  # (E, 3)
    is_loop: NDArray[np.bool_]  # (E,)


@dataclass(frozen=True, slots=True)
class Solved:
    """What one solver made of some random graphs."""

    graph: str
    solver: str
    milliseconds: float  # means over graphs ...
    error_m: float
    se_milliseconds: float  # ... and their standard errors
    se_error_m: float


def make_problem(false_loops: bool, seed: int = 0) -> Problem:
    """A walk from room to room; loops join poses that are near each other, far apart in time."""
    rng = np.random.default_rng(seed)
    truth = _walk(rng)
    steps = np.arange(_POSES - 1)
    loops = _loops(truth, rng)
    first, second = np.concatenate([steps, loops[:, 0]]), np.concatenate([steps + 1, loops[:, 1]])
    is_loop = np.arange(len(first)) >= len(steps)
    sigma = np.where(is_loop[:, None], _LOOP_SIGMA, _STEP_SIGMA)
    measured = geometry.relative(truth[first], truth[second]) + sigma * rng.standard_normal((len(first), 3))
    if false_loops:
        wrong = np.flatnonzero(is_loop)[::_FALSE_EVERY]
        measured[wrong] += rng.uniform(-1.0, 1.0, (len(wrong), 3)) * [3.0, 3.0, 0.8]
    initial = [truth[0]]
    for step in measured[: len(steps)]:
        initial.append(geometry.compose(initial[-1], step))
    return Problem(truth, np.array(initial), first, second, measured, sigma, is_loop)


def _walk(rng: np.random.Generator) -> Array:
    """Poses (N, 3) a step apart on straight ways between the middles of rooms."""
    room, at, poses = np.zeros(2), np.zeros(2), []
    while len(poses) < _POSES:
        move = rng.permutation([[1, 0], [-1, 0], [0, 1], [0, -1]])
        room = next(room + m for m in move if min(room + m) >= 0 and max(room + m) < _ROOMS)
        target = _ROOM_M * room + rng.uniform(-1.0, 1.0, 2)
        heading = np.arctan2(*(target - at)[::-1])
        along = np.arange(_STEP_M, np.hypot(*(target - at)), _STEP_M)[:, None] * [np.cos(heading), np.sin(heading)]
        poses.extend([*xy, heading] for xy in (at + along).tolist())
        at = np.array(poses[-1][:2])
    return np.array(poses[:_POSES])


def _loops(truth: Array, rng: np.random.Generator) -> Ints:
    """Pairs (500, 2) of poses within a metre, at least 50 steps apart."""
    from scipy.spatial import cKDTree

    pairs = cKDTree(truth[:, :2]).query_pairs(1.0, output_type="ndarray")
    pairs = np.sort(pairs[np.abs(pairs[:, 1] - pairs[:, 0]) >= 50], axis=1)
    return np.asarray(pairs[rng.choice(len(pairs), _LOOPS, replace=False)], dtype=np.int64)


def solve_ours(problem: Problem, robust: bool) -> tuple[Array, float]:
    """The pose graph of SLAM, or its least squares alone."""
    edges = Edges(
        problem.first, problem.second, problem.measured, np.eye(3) * problem.sigma[:, None] ** -2.0, problem.is_loop
    )
    began = time.process_time()
    if robust:
        possible = odometry_consistent(problem.initial, edges, np.ones(len(edges), dtype=np.bool_))[1]
        found = solve_robustly(problem.initial, edges, possible, possible).solution
    else:
        structure = build_structure(len(problem.initial), 0, edges.start, edges.end)
        found = minimise(problem.initial, edges, structure, _MAX_ITERATIONS, _TOLERANCE)
    return found.poses, time.process_time() - began


def _rows(problem: Problem) -> Any:
    columns = (problem.first.tolist(), problem.second.tolist(), problem.measured, problem.sigma, problem.is_loop)
    return zip(*columns, strict=True)


def solve_gtsam(problem: Problem, robust: bool) -> tuple[Array, float]:
    """GTSAM's Levenberg-Marquardt, alone or within graduated non-convexity."""
    gtsam: Any = importlib.import_module("gtsam")
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for i, (x, y, theta) in enumerate(problem.initial.tolist()):
        values.insert(i, gtsam.Pose2(x, y, theta))
    fixed = gtsam.noiseModel.Constrained.All(3) if not robust else gtsam.noiseModel.Diagonal.Sigmas(np.full(3, 1e-4))
    graph.add(gtsam.PriorFactorPose2(0, values.atPose2(0), fixed))
    for a, b, z, s, _ in _rows(problem):
        graph.add(gtsam.BetweenFactorPose2(a, b, gtsam.Pose2(*z.tolist()), gtsam.noiseModel.Diagonal.Sigmas(s)))
    began = time.process_time()
    if robust:
        found = _gtsam_gnc(gtsam, graph, values, np.flatnonzero(~problem.is_loop))
    else:
        found = gtsam.GaussNewtonOptimizer(graph, values).optimize()
    took = time.process_time() - began
    poses = [found.atPose2(i) for i in range(len(problem.truth))]
    return np.array([[p.x(), p.y(), p.theta()] for p in poses]), took


def _gtsam_gnc(gtsam: Any, graph: Any, values: Any, odometry: Ints) -> Any:
    params = gtsam.GncGaussNewtonParams()
    params.setLossType(gtsam.GncLossType.TLS)
    params.setKnownInliers([0, *(odometry + 1).tolist()])  # the prior comes first
    return gtsam.GncGaussNewtonOptimizer(graph, values, params).optimize()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_argument(parser)
    args = parser.parse_args(argv)
    solved = [s for false_loops in (False, True) for s in _solve_all(false_loops)]
    rays = [_cast_rays(name) for name in _HOUSES]
    options = _option_times()
    if not args.json:
        print_table("ray casting: million rays per second", tuple(rays[0]), [tuple(r.values()) for r in rays])
        print_table(
            f"pose graph: {_POSES} poses, {_LOOPS} loop closures, {_GRAPHS} graphs",
            ("graph", "solver", "ms", "error, m"),
            [
                (s.graph, s.solver, shown(s.milliseconds, s.se_milliseconds), shown(s.error_m, s.se_error_m))
                for s in solved
            ],
        )
        rows = [(name, f"{figure:.4g}") for name, figure in options.items()]
        print_table("options of SLAM", ("what", "milliseconds"), rows)
    payload = {
        "pose_graph": [asdict(s) for s in solved],
        "rays": rays,
        "options": [{"what": n, "milliseconds": ms} for n, ms in options.items()],
    }
    checks = [*_graph_checks(solved), *(c for row in rays for c in _ray_checks(row))]
    return report("hand-written parts and libraries", checks, payload, args.json)


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _solve_all(false_loops: bool) -> list[Solved]:
    solvers: dict[str, Solver] = {_OURS: lambda p: solve_ours(p, false_loops)}
    if _installed("gtsam"):
        solvers["GTSAM"] = lambda p: solve_gtsam(p, false_loops)
    return [_over_graphs(name, solve, false_loops) for name, solve in solvers.items()]


def _over_graphs(name: str, solve: Solver, false_loops: bool) -> Solved:
    """Means over random graphs, each solved twice: the first time something may be compiled."""
    times_ms, errors_m = [], []
    for seed in range(_GRAPHS):
        problem = make_problem(false_loops, seed)
        runs = [solve(problem) for _ in range(2)]
        off = runs[0][0][:, :2] - problem.truth[:, :2]
        errors_m.append(float(np.sqrt(np.mean(np.sum(off**2, axis=1)))))
        times_ms.append(1e3 * min(took for _, took in runs))
    graph = "every fifth loop false" if false_loops else "least squares alone"
    spread = (float(np.std(x, ddof=1) / np.sqrt(_GRAPHS)) for x in (times_ms, errors_m))
    return Solved(graph, name, float(np.mean(times_ms)), float(np.mean(errors_m)), *spread)


def _cast_rays(name: str) -> dict[str, Any]:
    """Rays per second in a house by each method, and the share of distances that differ from Embree's."""
    house, rng = load_house(name), np.random.default_rng(0)
    floor = np.concatenate([walk.walk.xy for walk in simulate_days(house, seed=0, days=0.1)])
    origins = np.repeat(rng.choice(floor, _POSITIONS), _BEAMS, axis=0)
    azimuths = np.tile(np.linspace(-np.pi, np.pi, _BEAMS, endpoint=False) + 0.003, _POSITIONS)
    slopes, heights = rng.normal(scale=_TILT_RAD, size=len(origins)), np.full(len(origins), _HEIGHT_M)
    caster = RayCaster.of_house(house)

    def ours() -> Array:
        return caster.cast(origins, azimuths, heights, slopes, _RANGE_M).distance_m

    distances, millions, few = ours(), 1e-3 * len(origins), slice(0, 20 * _BEAMS)
    row = {"house": name, "ours": millions / _best_ms(ours, 1)}
    row["numpy"] = 20e-3 * _BEAMS / _best_ms(lambda: _by_numpy(house, origins[few], azimuths[few]), 1)
    if _installed("open3d"):
        scene = embree_scene(house)

        def embree() -> Array:
            rays = embree_rays(origins, azimuths, heights, slopes)
            return np.asarray(scene.cast_rays(rays, nthreads=1)["t_hit"].numpy())

        row["Embree"] = millions / _best_ms(embree, 1)
        theirs = embree()
        # Embree counts in single precision: beams that just pass a corner may go either way.
        row["differ, per 1000"] = 1e3 * float(np.mean(~(np.abs(distances - theirs) <= _SAME_M)))
        row["Open3D: import, ms"] = _import_ms("import open3d")
    return row


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


def _ray_checks(row: dict[str, Any]) -> list[Check]:
    """Ours stays because of what Open3D costs to install and to import, as long as it is about as fast and agrees."""
    if "Embree" not in row:
        return []
    return [
        at_least(f"ray casting, {row['house']}: speed over Embree's", row["ours"] / row["Embree"], 0.5),
        at_most(f"ray casting, {row['house']}: distances that differ, per 1000", row["differ, per 1000"], 1.0),
    ]


def _option_times() -> dict[str, float]:
    """Milliseconds to check all options of SLAM, and to import the checks."""
    values = asdict(SlamConfig())
    times = {"ours: check": _best_ms(lambda: SlamConfig(**values)), "ours: import": _import_ms(_OWN_IMPORT)}
    if _installed("pydantic"):
        pydantic: Any = importlib.import_module("pydantic")
        model = pydantic.create_model("Slam", **{n: _as_pydantic(pydantic, n, v) for n, v in values.items()})
        times["pydantic: check"] = _best_ms(lambda: model(**values))
        times["pydantic: import"] = _import_ms("from pydantic import BaseModel, Field")
    return times


_OWN_IMPORT = "import svfm_ros.config.options"


def _as_pydantic(pydantic: Any, name: str, value: Any) -> Any:
    described = options_of(SlamConfig)[name]
    return type(value), pydantic.Field(value, ge=described.low, le=described.high, strict=True)


def _best_ms(call: Callable[[], object], repeats: int = 200) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        began = time.process_time()
        for _ in range(repeats):
            call()
        best = min(best, (time.process_time() - began) / repeats)
    return 1e3 * best


def _import_ms(statement: str) -> float:
    code = f"import time\nbegan = time.process_time()\n{statement}\nprint(time.process_time() - began)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return 1e3 * min(float(run.stdout) for run in runs)


def _graph_checks(solved: Sequence[Solved]) -> list[Check]:
    """The pose graph stays hand-written if it is as accurate as the libraries and no slower."""
    checks = []
    for graph in dict.fromkeys(s.graph for s in solved):
        ours, *others = (s for s in solved if s.graph == graph)
        for other in others:
            checks.append(
                at_least(f"{graph}: times faster than {other.solver}", other.milliseconds / ours.milliseconds, 1.0)
            )
            checks.append(at_most(f"{graph}: error over that of {other.solver}", ours.error_m / other.error_m, 1.05))
    return checks


if __name__ == "__main__":
    sys.exit(main())
