"""SLAM with false loop closures put in on purpose, as a careless search would find them."""

from collections.abc import Sequence

import numpy as np

from svfm_ros import geometry
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.offline import SlamRun, run_slam
from svfm_ros.slam.slam import Slam
from svfm_ros.types import Constraint, Pose2, Scan

_TRUE_PER_FALSE = 4  # one in five of all


def run_with_false_loops(scans: Sequence[Scan], seed: int) -> tuple[SlamRun, int]:
    """A run in which one loop in five is false; also says how many that were."""
    slam = Slam()
    search = slam._backend._mapper._search  # loops come from this private object; nothing public needs it
    find, rng = search.find, np.random.default_rng(seed)
    count = {"true": 0, "false": 0}

    def find_with_false(view: MapView, *rest: object) -> list[Constraint]:
        found = list(find(view, *rest))
        count["true"] += len(found)
        while found and (count["false"] + 1) * _TRUE_PER_FALSE <= count["true"]:
            count["false"] += 1
            found.append(_false_loop(view.poses, found[0].information, rng))
        return found

    search.find = find_with_false
    return run_slam(scans, slam=slam), count["false"]


def _false_loop(poses: np.ndarray, information: np.ndarray, rng: np.random.Generator) -> Constraint:
    """A loop between two random keyframes: half of them claim the same position, half are off by up to 3 m."""
    a, b = sorted(int(k) for k in rng.choice(len(poses), 2, replace=False))
    if rng.random() < 0.5:
        claim = np.array([*rng.normal(size=2), rng.uniform(-np.pi, np.pi)])
    else:
        way = rng.uniform(0, 2 * np.pi)
        off = np.array([*(rng.uniform(0.5, 3.0) * np.array([np.cos(way), np.sin(way)])), rng.normal() * 0.1])
        claim = geometry.compose(geometry.relative(poses[a], poses[b]), off)
    return Constraint(a, b, Pose2.from_array(claim), information, "loop")
