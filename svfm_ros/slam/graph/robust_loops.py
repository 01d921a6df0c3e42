"""Which loop closures to believe.

A false loop ruins a map, a missing one leaves it open: both are worth some care. A loop is judged twice.

Against the odometry alone: a loop that asks for more drift than the odometry can have had is impossible, whatever the
other loops say. Against the other loops: those that cannot all hold at once are sorted out by graduated
non-convexity (Yang et al. 2020, truncated least squares). It starts from a problem in which every loop pulls, then
lets go, step by step, of those that stay out of line. No verdict of the second kind is final: a loop that was not
believed is looked at again whenever the poses have moved.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.graph_config import GraphConfig
from svfm_ros.slam.graph.block_cholesky import Factor, build_structure
from svfm_ros.slam.graph.edges import Edges, Settled, jacobians, settle

__all__ = ["Verdict", "judge", "possible_loops"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MOST_ROUNDS = 4  # of settling and looking again, after which the verdict stands
_MOST_GRADES = 40
_GRADE_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Poses at rest with the loops that are believed."""

    settled: Settled
    believed: Bools  # (E,), true for all that is no loop
    strain: Array  # (E,): squared residual of each edge over what it may be


def judge(poses: Array, edges: Edges, believed: Bools, possible: Bools, config: GraphConfig) -> Verdict:
    """Settle with the loops believed so far, then believe and disbelieve until all agree; ``possible`` bounds both."""
    lenient = _lenient(edges, config)
    believed = (believed & possible) | ~edges.is_loop
    for round_ in range(_MOST_ROUNDS):
        settled = _settle(poses, edges, believed, config)
        poses = settled.poses
        strain = lenient.costs(poses)
        agrees = (strain <= config.loop_gate) | ~edges.is_loop
        if np.all(agrees[believed]):
            back = possible & agrees & ~believed
            if not back.any() or round_ == _MOST_ROUNDS - 1:
                break
            believed = believed | back
        else:
            believed = _graduate(poses, edges, lenient, possible, config)
            if round_ == _MOST_ROUNDS - 2:  # no more turning in circles: the last round only lets go
                possible = believed
    return Verdict(settled, believed, strain)


def possible_loops(poses: Array, edges: Edges, which: Bools, config: GraphConfig) -> tuple[Settled, Bools]:
    """Poses by odometry alone, and which of the chosen loops its drift allows."""
    settled = _settle(poses, edges, ~edges.is_loop, config)
    possible = which.copy()
    if settled.factor is None:
        return settled, possible
    loops = np.flatnonzero(which & edges.is_loop)
    spreads = np.array([_spread(settled.factor, settled.poses, edges, int(e)) for e in loops]).reshape(-1, 3, 3)
    total = config.odometry_slack**2 * spreads + np.linalg.inv(edges.information[loops]) + _slack(config)
    residuals = edges.residuals(settled.poses)[loops]  # (loops, 3)
    strain = np.einsum("ei,eij,ej->e", residuals, np.linalg.inv(total), residuals)
    possible[loops] = strain <= config.loop_gate
    return settled, possible


def _settle(poses: Array, edges: Edges, which: Bools, config: GraphConfig) -> Settled:
    kept = edges.only(which)
    structure = build_structure(len(poses), 0, kept.start, kept.end)
    return settle(poses, kept, structure, config.max_iterations, config.tolerance)


def _spread(factor: Factor, poses: Array, edges: Edges, e: int) -> Array:
    """Covariance of where an edge's end lies as seen from its start."""
    start, end = int(edges.start[e]), int(edges.end[e])
    place = factor.structure.place
    return factor.spread(int(place[start]), int(place[end]), *jacobians(poses, start, end))


def _slack(config: GraphConfig) -> Array:
    return np.diag([config.loop_slack_m**2, config.loop_slack_m**2, config.loop_slack_rad**2])


def _lenient(edges: Edges, config: GraphConfig) -> Edges:
    """Loops with the trust they have in court: matchers tend to be too sure of themselves."""
    information = edges.information.copy()
    loops = edges.is_loop
    if loops.any():
        information[loops] = np.linalg.inv(np.linalg.inv(information[loops]) + _slack(config))
    return Edges(edges.start, edges.end, edges.measured, information, edges.is_loop)


def _graduate(poses: Array, edges: Edges, lenient: Edges, possible: Bools, config: GraphConfig) -> Bools:
    """Graduated non-convexity over all possible loops; returns the edges that are believed in the end."""
    active = possible | ~edges.is_loop
    pulling, judged = edges.only(active), lenient.only(active)
    structure = build_structure(len(poses), 0, pulling.start, pulling.end)
    gate, loops = config.loop_gate, pulling.is_loop
    poses = settle(poses, judged, structure, 3, config.tolerance).poses
    costs = judged.costs(poses)[loops]
    mu = gate / max(2.0 * float(costs.max(initial=0.0)) - gate, gate)
    weights = np.ones(len(pulling))
    for _ in range(_MOST_GRADES):
        weights[loops] = _truncated_weights(costs, mu, gate)
        poses = settle(poses, judged.scaled(weights), structure, 1, config.tolerance).poses
        costs = judged.costs(poses)[loops]
        if np.all((weights[loops] < 0.01) | (weights[loops] > 0.99)) and mu > 1.0:
            break
        mu *= _GRADE_FACTOR
    believed = ~edges.is_loop
    believed[np.flatnonzero(active)] = weights > 0.5
    return believed


def _truncated_weights(costs: Array, mu: float, gate: float) -> Array:
    """Weights of truncated least squares at one grade: 1 well within the gate, 0 well outside."""
    low, high = mu / (mu + 1.0) * gate, (mu + 1.0) / mu * gate
    between = np.sqrt(gate * mu * (mu + 1.0) / np.maximum(costs, 1e-12)) - mu
    return np.where(costs <= low, 1.0, np.where(costs >= high, 0.0, np.clip(between, 0.0, 1.0)))
