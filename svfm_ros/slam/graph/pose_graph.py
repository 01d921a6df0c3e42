"""The pose graph: poses, the motions measured between them, and the poses that agree best with all of these.

The first pose is held; it says where the map lies. Loop closures may be false: each gets a weight, 1 while it is
believed and 0 while it is not, and may get the other one later, when more is known (see ``judge``).
"""

from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.graph_config import GraphConfig
from svfm_ros.errors import DataError
from svfm_ros.slam.graph.edges import Edges, jacobians
from svfm_ros.slam.graph.robust_loops import Verdict, judge, possible_loops
from svfm_ros.types import Constraint, Pose2

__all__ = ["GraphResult", "PoseGraph"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MAP = -1  # row of the map itself, where priors start


@dataclass(frozen=True, slots=True)
class GraphResult:
    """Optimised poses, and what was believed on the way."""

    ids: NDArray[np.int64]  # (N,), in the order they were added
    poses: Array  # (N, 3), T_map_node
    iterations: int
    chi2: float  # of all that is believed
    loops: tuple[Constraint, ...]
    weights: Array  # (loops,), 1 believed, 0 not
    strain: float  # the largest squared, weighted residual of what is no loop

    def pose(self, node_id: int) -> Pose2:
        """``T_map_node`` of one node."""
        return Pose2.from_array(self.poses[int(np.flatnonzero(self.ids == node_id)[0])])


class PoseGraph:
    """A graph that grows: each ``optimise`` starts from the poses of the last one.

    ``optimise`` may run in a thread of its own while nodes and constraints are added: it works on a copy, and nodes
    that came meanwhile move along with the last node it knew.
    """

    def __init__(self, config: GraphConfig | None = None) -> None:
        self.config = config or GraphConfig()
        self._lock = Lock()
        self._row: dict[int, int] = {}
        self._poses: list[Array] = []
        self._constraints: list[Constraint] = []
        self._rows: list[tuple[int, int]] = []
        self._believed: Bools = np.empty(0, dtype=bool)
        self._possible: Bools = np.empty(0, dtype=bool)
        self._by_odometry: Array = np.empty((0, 3))
        self._verdict: Verdict | None = None
        self._edges = Edges(*(np.empty(s, t) for s, t in _EMPTY))

    def __len__(self) -> int:
        return len(self._poses)

    def add_node(self, node_id: int, T_map_node: Pose2) -> None:
        """A new pose with a first guess; the first of all is held where it is."""
        with self._lock:
            if node_id in self._row:
                raise DataError(f"expected a new node, got {node_id} a second time")
            self._row[node_id] = len(self._poses)
            self._poses.append(T_map_node.as_array())

    def add(self, constraint: Constraint) -> None:
        """A measured motion between two nodes; a prior's ``from_id`` is not looked at, it starts at the map."""
        with self._lock:
            start = _MAP if constraint.kind == "prior" else self._row_of(constraint.from_id)
            self._rows.append((start, self._row_of(constraint.to_id)))
            self._constraints.append(constraint)

    def pose(self, node_id: int) -> Pose2:
        """``T_map_node`` as of now."""
        return Pose2.from_array(self._poses[self._row_of(node_id)])

    def poses(self) -> Array:
        """``T_map_node`` of all nodes ``(N, 3)`` as of now, in the order they were added."""
        return np.array(self._poses).reshape(-1, 3)

    def optimise(self) -> GraphResult:
        """Settle all poses, judging loops on the way."""
        with self._lock:
            poses, edges = np.array(self._poses).reshape(-1, 3), self._take_edges()
        if not len(poses):
            return GraphResult(np.empty(0, dtype=np.int64), poses, 0, 0.0, (), np.empty(0), 0.0)
        verdict = self._judge(poses, edges)
        with self._lock:
            self._adopt(poses, verdict)
            ids = np.fromiter(self._row, dtype=np.int64, count=len(poses))
        loops = np.flatnonzero(edges.is_loop)
        return GraphResult(
            ids,
            verdict.settled.poses,
            verdict.settled.iterations,
            verdict.settled.cost,
            tuple(self._constraints[int(e)] for e in loops),
            verdict.believed[loops].astype(float),
            float(verdict.strain[~edges.is_loop].max(initial=0.0)),
        )

    def covariance(self, node_id: int) -> Array:
        """Of a node's pose ``(3, 3)``, in the map's axes, as seen from the first node; after ``optimise``."""
        factor = None if self._verdict is None else self._verdict.settled.factor
        row = self._row_of(node_id)
        if factor is None or row >= len(factor.structure.place):
            raise DataError(f"expected a node that was optimised, got {node_id}")
        return factor.spread(-1, int(factor.structure.place[row]), np.zeros((3, 3)), np.eye(3))

    def relative_covariance(self, from_id: int, to_id: int) -> Array:
        """Of ``T_from_to`` ``(3, 3)``, in the axes of ``from``; after ``optimise``."""
        verdict = self._verdict
        start, end = self._row_of(from_id), self._row_of(to_id)
        if verdict is None or verdict.settled.factor is None or max(start, end) >= len(verdict.settled.poses):
            raise DataError(f"expected nodes that were optimised, got {from_id} and {to_id}")
        factor, place = verdict.settled.factor, verdict.settled.factor.structure.place
        return factor.spread(int(place[start]), int(place[end]), *jacobians(verdict.settled.poses, start, end))

    def _row_of(self, node_id: int) -> int:
        if node_id not in self._row:
            raise DataError(f"expected a node of the graph, got {node_id}")
        return self._row[node_id]

    def _take_edges(self) -> Edges:
        """All constraints as arrays; those of the last time are kept."""
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

    def _judge(self, poses: Array, edges: Edges) -> Verdict:
        known = len(self._believed)
        fresh = np.arange(len(edges)) >= known
        if np.any(edges.is_loop & fresh):
            start = self._carried_on(self._by_odometry, poses)
            settled, possible = possible_loops(start, edges, fresh, self.config)
            self._by_odometry = settled.poses
        else:
            possible = fresh
        self._possible = np.concatenate([self._possible, possible[known:]])
        believed = np.concatenate([self._believed, possible[known:]])
        return judge(poses, edges, believed, self._possible, self.config)

    @staticmethod
    def _carried_on(before: Array, poses: Array) -> Array:
        """Poses by odometry, the new ones laid at the end of the old ones."""
        if not len(before):
            return poses
        move = geometry.compose(before[-1], geometry.inverse(poses[len(before) - 1]))
        return np.concatenate([before, geometry.compose(move, poses[len(before) :])])

    def _adopt(self, before: Array, verdict: Verdict) -> None:
        after = verdict.settled.poses
        if len(self._poses) > len(after) > 0:
            move = geometry.compose(after[-1], geometry.inverse(before[-1]))
            later = [geometry.compose(move, p) for p in self._poses[len(after) :]]
            self._poses[len(after) :] = later
        self._poses[: len(after)] = list(after)
        self._believed, self._verdict = verdict.believed, verdict


_EMPTY = ((0, np.int64), (0, np.int64), ((0, 3), float), ((0, 3, 3), float), (0, bool))
