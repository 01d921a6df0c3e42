"""Pose graph: nodes, relative-pose constraints between them, and the least-squares poses, robust to false loops.

The first node is fixed at its pose. Each loop closure is accepted (weight 1) or rejected (weight 0) by
``robust_loops``; the decision may change when more constraints arrive.
"""

from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.errors import DataError
from svfm_ros.slam.graph.edges import Edges
from svfm_ros.slam.graph.robust_loops import RobustSolution, odometry_consistent, solve_robustly
from svfm_ros.types import Constraint, Pose2

__all__ = ["GraphResult", "PoseGraph"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GraphResult:
    """Optimised poses and the decision about each loop."""

    poses: Array  # (N, 3), T_map_node, in the order they were added
    loops: tuple[Constraint, ...]
    weights: Array  # (loops,), 1 accepted, 0 rejected
    worst_step_chi2: float  # the largest squared, weighted residual of a constraint that is no loop


class PoseGraph:
    """A growing graph; each ``optimise`` starts from the poses of the last one.

    ``optimise`` may run in a thread of its own while nodes and constraints are added: it works on a copy, and nodes
    that were added meanwhile move rigidly with the last node of that copy.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._row: dict[int, int] = {}
        self._poses: list[Array] = []
        self._constraints: list[Constraint] = []
        self._rows: list[tuple[int, int]] = []
        self._accepted: Bools = np.empty(0, dtype=bool)
        self._possible: Bools = np.empty(0, dtype=bool)
        self._by_odometry: Array = np.empty((0, 3))
        self._edges = Edges(*(np.empty(s, t) for s, t in _EMPTY))

    def __len__(self) -> int:
        return len(self._poses)

    def add_node(self, node_id: int, T_map_node: Pose2) -> None:
        """Add a node with its initial pose; the first node of all is fixed there."""
        with self._lock:
            if node_id in self._row:
                raise DataError(f"expected a new node, got {node_id} a second time")
            self._row[node_id] = len(self._poses)
            self._poses.append(T_map_node.as_array())

    def add(self, constraint: Constraint) -> None:
        """Add a constraint between two nodes."""
        with self._lock:
            self._rows.append((self._row_of(constraint.from_id), self._row_of(constraint.to_id)))
            self._constraints.append(constraint)

    def pose(self, node_id: int) -> Pose2:
        """Current ``T_map_node``."""
        return Pose2.from_array(self._poses[self._row_of(node_id)])

    def poses(self) -> Array:
        """Current ``T_map_node`` of all nodes ``(N, 3)``, in the order they were added."""
        return np.array(self._poses).reshape(-1, 3)

    def optimise(self) -> GraphResult:
        """Optimise all poses; loops are accepted or rejected on the way."""
        with self._lock:
            poses, edges = np.array(self._poses).reshape(-1, 3), self._take_edges()
        if not len(poses):
            return GraphResult(poses, (), np.empty(0), 0.0)
        robust = self._solve(poses, edges)
        with self._lock:
            self._adopt(poses, robust)
        loops = np.flatnonzero(edges.is_loop)
        return GraphResult(
            robust.solution.poses,
            tuple(self._constraints[int(e)] for e in loops),
            robust.accepted[loops].astype(float),
            float(robust.costs[~edges.is_loop].max(initial=0.0)),
        )

    def _row_of(self, node_id: int) -> int:
        if node_id not in self._row:
            raise DataError(f"expected a node of the graph, got {node_id}")
        return self._row[node_id]

    def _take_edges(self) -> Edges:
        """All constraints as arrays; only new ones are converted."""
        known = len(self._edges)
        fresh = self._constraints[known:]
        if fresh:
            rows = np.array(self._rows[known:], dtype=np.int64)
            more = Edges(
                rows[:, 0],
                rows[:, 1],
                np.array([c.T_from_to.as_array() for c in fresh]),
                np.array([c.information for c in fresh], dtype=float),
                np.array([c.kind == "loop" for c in fresh]),
            )
            old = self._edges
            self._edges = Edges(*(np.concatenate([getattr(old, n), getattr(more, n)]) for n in Edges.__slots__))
        return self._edges

    def _solve(self, poses: Array, edges: Edges) -> RobustSolution:
        known = len(self._accepted)
        fresh = np.arange(len(edges)) >= known
        if np.any(edges.is_loop & fresh):
            start = self._extended(self._by_odometry, poses)
            solution, possible = odometry_consistent(start, edges, fresh)
            self._by_odometry = solution.poses
        else:
            possible = fresh
        self._possible = np.concatenate([self._possible, possible[known:]])
        accepted = np.concatenate([self._accepted, possible[known:]])
        return solve_robustly(poses, edges, accepted, self._possible)

    @staticmethod
    def _extended(before: Array, poses: Array) -> Array:
        """Poses from odometry ``before``, with new poses appended by their relative motion."""
        if not len(before):
            return poses
        move = geometry.compose(before[-1], geometry.inverse(poses[len(before) - 1]))
        return np.concatenate([before, geometry.compose(move, poses[len(before) :])])

    def _adopt(self, before: Array, robust: RobustSolution) -> None:
        after = robust.solution.poses
        if len(self._poses) > len(after) > 0:
            move = geometry.compose(after[-1], geometry.inverse(before[-1]))
            later = [geometry.compose(move, p) for p in self._poses[len(after) :]]
            self._poses[len(after) :] = later
        self._poses[: len(after)] = list(after)
        self._accepted = robust.accepted


_EMPTY = ((0, np.int64), (0, np.int64), ((0, 3), float), ((0, 3, 3), float), (0, bool))
