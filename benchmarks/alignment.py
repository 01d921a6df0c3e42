"""Walks aligned to the house's frame: 40 simulated walks per house, each through SLAM in a frame of its own.

The reference is the map that SLAM made of one tour of the house; a second run starts from a single walk instead and
lets accepted walks extend the map. Walks of the other house, and of empty rooms, must be refused.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchlib.house_recordings import HOUSES, Worn, protocol_walks, tour
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.slam.offline import SlamRun, draw_grid, run_slam, seen_points
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks.align import Aligner, align_walks
from svfm_ros.walks.reference_map import ReferenceMap
from svfm_ros.walks.segmentation import WalkCut
from svfm_ros.walks.walk_recorder import take_walk, thin_points

Array = NDArray[np.float64]

_SPACING_M = 0.05
_EMPTY_ROOMS = ((4.0, 3.0), (5.0, 4.0), (3.0, 3.0), (6.0, 3.5))


@dataclass(frozen=True, slots=True)
class RecordedWalk:
    """A walk as SLAM gave it, with its true poses."""

    walk: Walk
    truth: Array  # (T, 3)
    T_truth_walk: Pose2


@dataclass(frozen=True, slots=True)
class House:
    """The reference map and the walks of a house."""

    reference: ReferenceMap
    T_truth_house: Pose2  # from the frame of the tour's map to the true one
    walks: list[RecordedWalk]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="walks per target, four targets (10)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other walks (0)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    houses = {name: _record(name, args.repeats, args.seed) for name in HOUSES}
    checks: list[Check] = []
    payload: dict[str, Any] = {}
    for name, house in houses.items():
        others = [w for other, h in houses.items() if other != name for w in h.walks]
        figures = _measure(house, others)
        payload[name] = figures
        checks += _checks(name, figures)
    if not args.json:
        names = list(next(iter(payload.values())))
        print_table("Alignment of walks", ("figure", *payload), [(n, *(p[n] for p in payload.values())) for n in names])
    return report("Walks in the house's frame", checks, payload, args.json)


def _checks(name: str, f: dict[str, float]) -> list[Check]:
    return [
        at_least(f"{name}: walks accepted", f["accepted"], 0.99),
        at_most(f"{name}: pose error, mean over walks, m", f["mean_m"], 0.05),
        at_most(f"{name}: pose error, mean over walks, deg", f["mean_deg"], 1.0),
        at_most(f"{name}: pose error, worst walk, m", f["worst_m"], 0.05),
        at_most(f"{name}: pose error, worst walk, deg", f["worst_deg"], 1.0),
        at_most(f"{name}: walks of the other house accepted", f["others_accepted"], 0),
        at_most(f"{name}: walks of empty rooms accepted", f["empty_accepted"], 0),
        at_least(f"{name}: accepted, map grown from one walk", f["grown_accepted"], 0.99),
        at_most(f"{name}: pose error, map grown from one walk, worst, m", f["grown_worst_m"], 0.05),
    ]


def _measure(house: House, others: list[RecordedWalk]) -> dict[str, float]:
    aligner = Aligner(house.reference)
    aligner.align(house.walks[0].walk)  # compiles and imports before the clock starts
    begin = time.perf_counter()
    alignments = [aligner.align(w.walk) for w in house.walks]
    each_s = (time.perf_counter() - begin) / len(alignments)
    metres, degrees = _errors(house.walks, alignments, house.T_truth_house)
    first, *rest = house.walks
    grown = align_walks([w.walk for w in rest], ReferenceMap.from_walk(first.walk), extend=True)
    grown_m, grown_deg = _errors(rest, list(grown.alignments), first.T_truth_walk)
    return {
        "walks": float(len(alignments)),
        "accepted": float(np.mean([a.accepted for a in alignments])),
        "mean_m": float(metres.mean()),
        "mean_deg": float(degrees.mean()),
        "worst_m": float(metres.max()),
        "worst_deg": float(degrees.max()),
        "each_ms": 1e3 * each_s,
        "others": float(len(others)),
        "others_accepted": float(sum(aligner.align(w.walk).accepted for w in others)),
        "empty_accepted": float(sum(aligner.align(_empty_room(*size)).accepted for size in _EMPTY_ROOMS)),
        "grown_accepted": float(np.mean([a.accepted for a in grown.alignments])),
        "grown_worst_m": float(grown_m.max()),
        "grown_worst_deg": float(grown_deg.max()),
    }


def _errors(walks: Sequence[RecordedWalk], alignments: list[Alignment], T_truth_house: Pose2) -> tuple[Array, Array]:
    """Errors of the accepted walks' alignments, in metres (root mean square along the walk) and degrees.

    Errors of SLAM within a walk do not count: it is compared with the best fit of the walk to its true poses.
    """
    metres, degrees = [], []
    for w, a in zip(walks, alignments, strict=True):
        if a.accepted:
            placed = geometry.compose((T_truth_house @ a.T_house_walk).as_array(), w.walk.poses)
            wanted = geometry.compose(w.T_truth_walk.as_array(), w.walk.poses)
            metres.append(np.sqrt(np.mean(np.sum((placed - wanted)[:, :2] ** 2, axis=1))))
            degrees.append(np.degrees(np.abs(geometry.wrap_angle(placed[0, 2] - wanted[0, 2]))))
    return (np.array(metres), np.array(degrees)) if metres else (np.array([np.nan]),) * 2


def _record(name: str, repeats: int, seed: int) -> House:
    print(f"{name}: SLAM on a tour and {4 * repeats} walks", file=sys.stderr, flush=True)
    shown = tour(name, seed=seed + 99)
    run = run_slam(shown.scans)
    reference = ReferenceMap.from_grid(draw_grid(shown.scans, run.trajectory))
    walks = [_recorded_walk(worn, run_slam(worn.scans)) for worn in protocol_walks(name, seed, repeats)]
    return House(reference, shown.error(run.trajectory).T_truth_estimate, walks)


def _recorded_walk(worn: Worn, run: SlamRun) -> RecordedWalk:
    stamps, poses = run.trajectory.stamps_ns, run.trajectory.poses
    seen = seen_points(worn.scans, run.trajectory)
    walk = take_walk(WalkCut(int(stamps[0]), int(stamps[-1])), "resident", stamps, poses, seen.get)
    return RecordedWalk(walk, worn.truth(stamps), worn.error(run.trajectory).T_truth_estimate)


def _empty_room(width: float, height: float) -> Walk:
    """A walk across a bare room."""
    rng = np.random.default_rng(0)
    along = rng.random((2500, 1))
    corners = np.array([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]])
    wall = rng.integers(0, 4, 2500)
    points = corners[wall] + along * (np.roll(corners, -1, axis=0) - corners)[wall] + rng.normal(size=(2500, 2)) * 0.01
    xy = np.linspace([0.8, 0.8], [width - 0.8, height - 0.8], 40)
    poses = np.column_stack([xy, np.zeros(40)])
    return Walk("empty", "resident", np.arange(40) * 100_000_000, poses, thin_points(points, _SPACING_M))


if __name__ == "__main__":
    sys.exit(main())
