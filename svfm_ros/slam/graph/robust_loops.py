"""Pose-graph optimisation that rejects false loop closures.

Two tests decide about a loop closure:

1. Against odometry alone: a loop whose residual is larger than the accumulated odometry covariance allows is rejected,
   whatever the other loops say.
2. Against the other loops: graduated non-convexity (Yang et al. 2020) with a truncated least-squares kernel. It starts
   from a convex problem in which every loop has weight 1 and lowers, step by step, the weights of outliers.

The second decision is not final: a rejected loop is tested again whenever the poses have moved.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.slam.graph.block_cholesky import Factor, build_structure
from svfm_ros.slam.graph.edges import Edges, GraphSolution, jacobians, minimise

__all__ = ["RobustSolution", "odometry_consistent", "solve_robustly"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MAX_ITERATIONS = 30
_TOLERANCE = 1e-6  # relative decrease of the cost at which the solver stops
_LOOP_GATE = 16.0  # a loop with a larger squared, weighted residual is an outlier
_LOOP_SLACK = np.diag(np.array([0.05, 0.05, 0.02]) ** 2)  # m², m², rad²: added to a loop's covariance when it is tested
_ODOMETRY_SLACK = 3.0  # standard deviations of odometry are multiplied by this when a loop is tested
_MAX_ROUNDS = 4  # of optimising and testing all loops again
_MAX_GRADES = 40
_GRADE_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class RobustSolution:
    """Optimised poses and the loops they were optimised with."""

    solution: GraphSolution
    accepted: Bools  # (E,), true for every edge that is no loop
    costs: Array  # (E,): squared residual of each edge, weighted by its (for loops: inflated) covariance


def solve_robustly(poses: Array, edges: Edges, accepted: Bools, possible: Bools) -> RobustSolution:
    """Optimise with the loops accepted so far, then accept and reject loops until nothing changes.

    Only loops that are ``possible`` (E,) can be accepted.
    """
    inflated = _inflated(edges)
    accepted = (accepted & possible) | ~edges.is_loop
    for round_ in range(_MAX_ROUNDS):
        solution = _minimise(poses, edges, accepted)
        poses = solution.poses
        costs = inflated.costs(poses)
        agrees = (costs <= _LOOP_GATE) | ~edges.is_loop
        if np.all(agrees[accepted]):
            again = possible & agrees & ~accepted
            if not again.any() or round_ == _MAX_ROUNDS - 1:
                break
            accepted = accepted | again
        else:
            accepted = _graduated_non_convexity(poses, edges, inflated, possible)
            if round_ == _MAX_ROUNDS - 2:  # the last round only rejects, so that the loop ends
                possible = accepted
    return RobustSolution(solution, accepted, costs)


def odometry_consistent(poses: Array, edges: Edges, which: Bools) -> tuple[GraphSolution, Bools]:
    """Poses from odometry alone, and which of the chosen loops ``(E,)`` its covariance allows ``(E,)``."""
    solution = _minimise(poses, edges, ~edges.is_loop)
    possible = which.copy()
    if solution.factor is None:
        return solution, possible
    loops = np.flatnonzero(which & edges.is_loop)
    drift = np.array([_relative_covariance(solution.factor, solution.poses, edges, int(e)) for e in loops])
    total = _ODOMETRY_SLACK**2 * drift.reshape(-1, 3, 3) + np.linalg.inv(edges.information[loops]) + _LOOP_SLACK
    residuals = edges.residuals(solution.poses)[loops]  # (loops, 3)
    costs = np.einsum("ei,eij,ej->e", residuals, np.linalg.inv(total), residuals)
    possible[loops] = costs <= _LOOP_GATE
    return solution, possible


def _minimise(poses: Array, edges: Edges, which: Bools) -> GraphSolution:
    kept = edges.only(which)
    structure = build_structure(len(poses), 0, kept.start, kept.end)
    return minimise(poses, kept, structure, _MAX_ITERATIONS, _TOLERANCE)


def _relative_covariance(factor: Factor, poses: Array, edges: Edges, e: int) -> Array:
    """Covariance ``(3, 3)`` of the pose of an edge's end relative to its start."""
    start, end = int(edges.start[e]), int(edges.end[e])
    column = factor.structure.column
    return factor.propagated(int(column[start]), int(column[end]), *jacobians(poses, start, end))


def _inflated(edges: Edges) -> Edges:
    """The edges with the covariance of loops enlarged: scan matchers underestimate their own error."""
    information = edges.information.copy()
    loops = edges.is_loop
    if loops.any():
        information[loops] = np.linalg.inv(np.linalg.inv(information[loops]) + _LOOP_SLACK)
    return Edges(edges.start, edges.end, edges.measured, information, edges.is_loop)


def _graduated_non_convexity(poses: Array, edges: Edges, inflated: Edges, possible: Bools) -> Bools:
    """Graduated non-convexity over all possible loops; returns the accepted edges ``(E,)``."""
    active = possible | ~edges.is_loop
    tested = inflated.only(active)
    structure = build_structure(len(poses), 0, tested.start, tested.end)
    loops = tested.is_loop
    poses = minimise(poses, tested, structure, 3, _TOLERANCE).poses
    costs = tested.costs(poses)[loops]
    mu = _LOOP_GATE / max(2.0 * float(costs.max(initial=0.0)) - _LOOP_GATE, _LOOP_GATE)
    weights = np.ones(len(tested))
    for _ in range(_MAX_GRADES):
        weights[loops] = _truncated_weights(costs, mu)
        poses = minimise(poses, tested.scaled(weights), structure, 1, _TOLERANCE).poses
        costs = tested.costs(poses)[loops]
        if np.all((weights[loops] < 0.01) | (weights[loops] > 0.99)) and mu > 1.0:
            break
        mu *= _GRADE_FACTOR
    accepted = ~edges.is_loop
    accepted[np.flatnonzero(active)] = weights > 0.5
    return accepted


def _truncated_weights(costs: Array, mu: float) -> Array:
    """Weights of truncated least squares at one grade: 1 well within the gate, 0 well outside."""
    low, high = mu / (mu + 1.0) * _LOOP_GATE, (mu + 1.0) / mu * _LOOP_GATE
    between = np.sqrt(_LOOP_GATE * mu * (mu + 1.0) / np.maximum(costs, 1e-12)) - mu
    return np.where(costs <= low, 1.0, np.where(costs >= high, 0.0, np.clip(between, 0.0, 1.0)))
