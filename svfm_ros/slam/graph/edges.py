"""Constraints of a pose graph as arrays: residuals, normal equations, Levenberg-Marquardt."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.geometry import wrap_angle
from svfm_ros.slam.graph.block_cholesky import Factor, Structure, factorise

__all__ = ["Edges", "GraphSolution", "jacobians", "minimise"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_MOST_DAMPING = 1e8
_SHORTEST_STEP = 1e-9
_ANCHOR = 1e-6  # prior on every pose (1/m², 1/rad²), so that poses without constraints stay where they are


@dataclass(frozen=True, slots=True)
class Edges:
    """Constraints of a graph, by the rows of their poses.

    The residual of an edge is ``inverse(from) @ to`` minus what was measured: x and y in the axes of ``from``, and the
    turn.
    """

    start: Ints  # (E,)
    end: Ints  # (E,)
    measured: Array  # (E, 3)
    information: Array  # (E, 3, 3)
    is_loop: Bools  # (E,)

    def __len__(self) -> int:
        return len(self.start)

    def only(self, which: Bools) -> "Edges":
        """Some of the edges."""
        return Edges(*(getattr(self, name)[which] for name in self.__slots__))

    def scaled(self, factor: Array) -> "Edges":
        """The same with each information multiplied by a number ``(E,)``."""
        return replace(self, information=self.information * factor[:, None, None])

    def residuals(self, poses: Array) -> Array:
        """``(E, 3)`` at the given poses ``(N, 3)``."""
        return _residuals(poses, self.start, self.end, self.measured)

    def costs(self, poses: Array) -> Array:
        """Squared, weighted residuals ``(E,)``."""
        r = self.residuals(poses)
        return np.asarray(np.einsum("ei,eij,ej->e", r, self.information, r))


@dataclass(frozen=True, slots=True)
class GraphSolution:
    """Result of ``minimise``."""

    poses: Array  # (N, 3)
    factor: Factor | None  # of the undamped system; None where there is nothing to solve for


def minimise(poses: Array, edges: Edges, structure: Structure, max_iterations: int, tolerance: float) -> GraphSolution:
    """Levenberg-Marquardt from the given poses; undamped (Gauss-Newton) while the cost decreases."""
    poses, damping, used_damping, factor = poses.copy(), 0.0, 0.0, None
    for _ in range(max_iterations):
        diagonal, below, gradient, cost = _linearise(poses, edges, structure, damping)
        factor = factorise(structure, diagonal, below)
        used_damping = damping
        trial, trial_cost, longest = poses, np.inf, np.inf
        if factor is not None:
            step = factor.solve(-gradient)
            longest = float(np.abs(step).max(initial=0.0))
            trial = _moved(poses, step, structure.column)
            trial_cost = float(edges.costs(trial).sum())
        if trial_cost <= cost:
            poses, damping = trial, damping / 10.0 if damping > 1e-6 else 0.0
            if cost - trial_cost <= tolerance * cost or longest < _SHORTEST_STEP:
                break
        elif longest < 1e-6 or damping > _MOST_DAMPING:  # converged to numerical precision
            break
        else:
            damping = max(damping * 10.0, 1e-4)
    if used_damping:  # it makes covariances too small, most of all across odometry breaks
        diagonal, below, _, _ = _linearise(poses, edges, structure, 0.0)
        factor = factorise(structure, diagonal, below) or factor
    return GraphSolution(poses, factor)


def _linearise(poses: Array, edges: Edges, structure: Structure, damping: float) -> tuple[Array, Array, Array, float]:
    diagonal = np.zeros((structure.size, 3, 3))
    below = np.zeros((len(structure.rows), 3, 3))
    gradient = np.zeros((structure.size, 3))
    cost = _assemble(
        poses, edges.start, edges.end, edges.measured, edges.information,
        structure.column, structure.slots, diagonal, below, gradient,
    )  # fmt: skip
    index = np.arange(3)
    diagonal[:, index, index] = (1.0 + damping) * diagonal[:, index, index] + _ANCHOR
    return diagonal, below, gradient, cost


def _moved(poses: Array, step: Array, column: Ints) -> Array:
    moved = poses.copy()
    free = column >= 0
    moved[free] += step[column[free]]
    moved[:, 2] = wrap_angle(moved[:, 2])
    return moved


@kernel
def _residual(poses: Array, start: int, end: int, measured: Array, out: Array) -> None:
    dx, dy = poses[end, 0] - poses[start, 0], poses[end, 1] - poses[start, 1]
    c, s = np.cos(poses[start, 2]), np.sin(poses[start, 2])
    out[0], out[1] = c * dx + s * dy - measured[0], -s * dx + c * dy - measured[1]
    out[2] = (poses[end, 2] - poses[start, 2] - measured[2] + np.pi) % (2.0 * np.pi) - np.pi


@kernel
def _residuals(poses: Array, start: Ints, end: Ints, measured: Array) -> Array:
    out = np.empty((len(start), 3))
    for e in range(len(start)):
        _residual(poses, start[e], end[e], measured[e], out[e])
    return out


@kernel
def jacobians(poses: Array, start: int, end: int) -> tuple[Array, Array]:
    """Of an edge's residual by the pose it starts from and the one it ends at, ``(3, 3)`` each."""
    J_start, J_end = np.zeros((3, 3)), np.zeros((3, 3))
    c, s = np.cos(poses[start, 2]), np.sin(poses[start, 2])
    dx, dy = poses[end, 0] - poses[start, 0], poses[end, 1] - poses[start, 1]
    J_start[0, 0], J_start[0, 1], J_start[0, 2] = -c, -s, -s * dx + c * dy
    J_start[1, 0], J_start[1, 1], J_start[1, 2] = s, -c, -c * dx - s * dy
    J_start[2, 2] = -1.0
    J_end[0, 0], J_end[0, 1], J_end[1, 0], J_end[1, 1], J_end[2, 2] = c, s, -s, c, 1.0
    return J_start, J_end


@kernel
def _add_product(out: Array, A: Array, W: Array, B: Array) -> None:
    """``out += A' W B`` for 3 x 3 matrices."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                total += A[k, i] * (W[k, 0] * B[0, j] + W[k, 1] * B[1, j] + W[k, 2] * B[2, j])
            out[i, j] += total


@kernel
def _add_gradient(out: Array, J: Array, W: Array, r: Array) -> None:
    """``out += J' W r``."""
    for i in range(3):
        for k in range(3):
            out[i] += J[k, i] * (W[k, 0] * r[0] + W[k, 1] * r[1] + W[k, 2] * r[2])


@kernel
def _assemble(
    poses: Array, start: Ints, end: Ints, measured: Array, information: Array,
    column: Ints, slots: Ints, diagonal: Array, below: Array, gradient: Array,
) -> float:  # fmt: skip
    """Fill the normal equations; returns the cost."""
    r, cost = np.empty(3), 0.0
    for e in range(len(start)):
        W = information[e]
        _residual(poses, start[e], end[e], measured[e], r)
        for i in range(3):
            cost += r[i] * (W[i, 0] * r[0] + W[i, 1] * r[1] + W[i, 2] * r[2])
        J_a, J_b = jacobians(poses, start[e], end[e])
        a, b = column[start[e]], column[end[e]]
        if a >= 0:
            _add_product(diagonal[a], J_a, W, J_a)
            _add_gradient(gradient[a], J_a, W, r)
        if b >= 0:
            _add_product(diagonal[b], J_b, W, J_b)
            _add_gradient(gradient[b], J_b, W, r)
        if slots[e] >= 0:
            if a > b:
                _add_product(below[slots[e]], J_a, W, J_b)
            else:
                _add_product(below[slots[e]], J_b, W, J_a)
    return cost
