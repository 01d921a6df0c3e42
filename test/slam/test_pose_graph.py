"""The pose graph, on graphs whose answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros import geometry
from svfm_ros.errors import DataError
from svfm_ros.slam.graph.block_cholesky import FIXED, build_structure, factorise
from svfm_ros.slam.graph.pose_graph import PoseGraph
from svfm_ros.slam.graph.robust_loops import odometry_consistent
from svfm_ros.slam.matching.pose_covariance import BREAK
from svfm_ros.types import Constraint, Pose2

ODOMETRY_SIGMA = np.array([0.01, 0.01, 0.003])
LOOP_SIGMA = np.array([0.03, 0.03, 0.01])


def laps(count: int, per_lap: int = 60, radius_m: float = 5.0) -> np.ndarray:
    """Poses on a circle, round after round."""
    angle = 2 * np.pi * np.arange(count) / per_lap
    return np.stack(
        [radius_m * np.cos(angle), radius_m * np.sin(angle), geometry.wrap_angle(angle + np.pi / 2)], axis=-1
    )


def between(truth: np.ndarray, a: int, b: int, kind: str, sigma: np.ndarray, noise: np.ndarray) -> Constraint:
    motion = geometry.relative(truth[a], truth[b]) + noise * sigma
    return Constraint(a, b, Pose2.from_array(motion), np.diag(1 / sigma**2), kind)


def graph_of(truth: np.ndarray, rng: np.random.Generator, loops: list[tuple[int, int]]) -> PoseGraph:
    """A graph with noisy odometry and loops, started from dead reckoning."""
    graph = PoseGraph()
    pose = truth[0]
    graph.add_node(0, Pose2.from_array(pose))
    for k in range(1, len(truth)):
        step = between(truth, k - 1, k, "odometry", ODOMETRY_SIGMA, rng.normal(size=3))
        pose = geometry.compose(pose, step.T_from_to.as_array())
        graph.add_node(k, Pose2.from_array(pose))
        graph.add(step)
    for a, b in loops:
        graph.add(between(truth, a, b, "loop", LOOP_SIGMA, rng.normal(size=3)))
    return graph


def covariance_of(graph: PoseGraph, row: int) -> np.ndarray:
    """Covariance of a pose relative to the first one, in map axes, as the check of loops computes it."""
    edges = graph._take_edges()
    factor = odometry_consistent(graph.poses(), edges, ~edges.is_loop)[0].factor
    assert factor is not None
    return factor.propagated(FIXED, int(factor.structure.column[row]), np.zeros((3, 3)), np.eye(3))


def rmse(result_poses: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.sum((result_poses - truth)[:, :2] ** 2, axis=1))))


@given(st.integers(2, 40), st.integers(0, 60), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_the_sparse_factor_solves_what_the_dense_one_does(count: int, bridges: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    held = int(rng.integers(count))
    a = np.concatenate([np.arange(count - 1), rng.integers(0, count, bridges)])
    b = np.concatenate([np.arange(1, count), rng.integers(0, count, bridges)])
    a, b = a[a != b], b[a != b]
    s = build_structure(count, held, a, b)
    diagonal, below = np.zeros((s.size, 3, 3)), np.zeros((len(s.rows), 3, 3))
    dense = np.zeros((3 * s.size, 3 * s.size))
    diagonal += 1e-3 * np.eye(3)
    dense += 1e-3 * np.eye(3 * s.size)
    for e in range(len(a)):
        J = {int(s.column[a[e]]): rng.normal(size=(3, 3)), int(s.column[b[e]]): rng.normal(size=(3, 3))}
        J.pop(-1, None)
        for p, J_p in J.items():
            diagonal[p] += J_p.T @ J_p
            for q, J_q in J.items():
                dense[3 * p : 3 * p + 3, 3 * q : 3 * q + 3] += J_p.T @ J_q
        if len(J) == 2:
            low, high = sorted(J)
            below[s.slots[e]] += J[high].T @ J[low]
    factor = factorise(s, diagonal, below)
    assert factor is not None
    right = rng.normal(size=(s.size, 3))
    np.testing.assert_allclose(dense @ factor.solve(right).ravel(), right.ravel(), atol=1e-6)
    p, q = int(rng.integers(s.size)), int(rng.integers(s.size))
    J_p, J_q = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    J_all = np.zeros((3, 3 * s.size))
    J_all[:, 3 * p : 3 * p + 3] += J_p
    J_all[:, 3 * q : 3 * q + 3] += J_q
    wanted = J_all @ np.linalg.solve(dense, J_all.T)
    np.testing.assert_allclose(factor.propagated(p, q, J_p, J_q), wanted, rtol=1e-5, atol=1e-6)


def test_exact_measurements_are_met_exactly() -> None:
    truth = laps(150)
    graph = PoseGraph()
    rng = np.random.default_rng(0)
    for k, pose in enumerate(truth):
        graph.add_node(k, Pose2.from_array(pose + (rng.normal(size=3) * 0.2 if k else 0.0)))
    for k in range(1, len(truth)):
        graph.add(between(truth, k - 1, k, "odometry", ODOMETRY_SIGMA, np.zeros(3)))
    graph.add(between(truth, 3, 123, "loop", LOOP_SIGMA, np.zeros(3)))
    result = graph.optimise()
    np.testing.assert_allclose(result.poses, truth, atol=1e-6)
    np.testing.assert_array_equal(result.weights, [1.0])
    assert graph.pose(149).x == pytest.approx(truth[149, 0])


def test_information_is_read_in_the_axes_of_the_pose_it_starts_from() -> None:
    """Two measurements disagree; the one that is sure along the starting pose's x axis wins there."""
    graph = PoseGraph()
    graph.add_node(7, Pose2(1.0, 2.0, np.pi / 2))
    graph.add_node(8, Pose2(1.0, 3.0, np.pi / 2))
    sure_of_x, sure_of_y = np.diag([1e6, 1.0, 1e4]), np.diag([1.0, 1e6, 1e4])
    graph.add(Constraint(7, 8, Pose2(1.0, 0.0, 0.0), sure_of_x, "odometry"))
    graph.add(Constraint(7, 8, Pose2(2.0, 0.5, 0.0), sure_of_y, "odometry"))
    graph.optimise()
    pose = graph.pose(8)
    # In the frame of 7 the answer is (1, 0.5); 7 looks along the map's y axis.
    np.testing.assert_allclose([pose.x, pose.y], [1.0 - 0.5, 2.0 + 1.0], atol=1e-4)


def test_loops_take_most_of_the_drift_away() -> None:
    truth = laps(600)
    loops = [(k, k + 60 * n) for k in range(0, 60, 6) for n in (3, 6, 9)]
    graph = graph_of(truth, np.random.default_rng(1), loops)
    drift = rmse(np.array([graph.pose(k).as_array() for k in range(600)]), truth)
    result = graph.optimise()
    assert rmse(result.poses, truth) < 0.2 * drift
    assert result.weights.min() == 1.0


@pytest.mark.parametrize("kind", ["anywhere", "near"])
def test_one_false_loop_in_five_does_no_harm(kind: str) -> None:
    truth = laps(600)
    loops = [(k, k + 60 * n) for k in range(0, 60, 3) for n in (2, 5, 8)]
    sound = graph_of(truth, np.random.default_rng(2), loops)
    bad = graph_of(truth, np.random.default_rng(2), loops)
    rng = np.random.default_rng(3)
    for _ in range(len(loops) // 4):
        a, b = (int(v) for v in rng.choice(600, 2, replace=False))
        lie = (
            rng.normal(size=3)
            if kind == "anywhere"
            else geometry.relative(truth[a], truth[b]) + np.array([0.8, -0.8, 0.1])
        )
        bad.add(Constraint(a, b, Pose2.from_array(lie), np.diag(1 / LOOP_SIGMA**2), "loop"))
    result = bad.optimise()
    assert rmse(result.poses, truth) <= 1.2 * rmse(sound.optimise().poses, truth)
    assert result.weights[: len(loops)].mean() > 0.95
    assert result.weights[len(loops) :].sum() == 0


def test_a_false_loop_that_came_first_is_taken_back() -> None:
    truth = laps(300)
    graph = graph_of(truth, np.random.default_rng(4), [])
    # Off by half a metre, which the drift of a whole lap allows: nothing speaks against it yet.
    lie = geometry.relative(truth[10], truth[70]) + np.array([0.4, 0.3, 0.0])
    graph.add(Constraint(10, 70, Pose2.from_array(lie), np.diag(1 / LOOP_SIGMA**2), "loop"))
    assert graph.optimise().weights[0] == 1.0
    rng = np.random.default_rng(5)
    for k in range(0, 50, 5):
        graph.add(between(truth, k, k + 60, "loop", LOOP_SIGMA, rng.normal(size=3)))
        result = graph.optimise()
    np.testing.assert_array_equal(result.weights, [0.0] + 10 * [1.0])
    assert rmse(result.poses[:120], truth[:120]) < 0.15


def test_optimising_as_loops_come_ends_where_optimising_once_does() -> None:
    truth = laps(300)
    loops = [(k, k + 120) for k in range(0, 120, 10)]
    once = graph_of(truth, np.random.default_rng(6), loops).optimise()
    graph = graph_of(truth, np.random.default_rng(6), [])
    rng = np.random.default_rng(6)
    rng.normal(size=(299, 3))  # the noise the odometry took
    for a, b in loops:
        graph.add(between(truth, a, b, "loop", LOOP_SIGMA, rng.normal(size=3)))
        result = graph.optimise()
    np.testing.assert_allclose(result.poses, once.poses, atol=2e-3)


def test_covariance_is_that_of_repeated_trials() -> None:
    truth = laps(40, per_lap=80)
    ends = []
    for seed in range(300):
        graph = graph_of(truth, np.random.default_rng(seed), [])
        ends.append(graph.optimise().poses[-1])
    seen = np.cov(np.array(ends).T)
    said = covariance_of(graph, 39)
    np.testing.assert_allclose(np.sqrt(np.diag(said)), np.sqrt(np.diag(seen)), rtol=0.15)
    np.testing.assert_allclose(said / np.abs(said).max(), seen / np.abs(seen).max(), atol=0.15)


def test_loops_across_a_break_of_odometry_are_accepted_however_wrong_the_motion_there() -> None:
    """After a loss the motion is a guess (standard deviations 100 m, 10 rad); here it is off by 2 m and 1.4 rad."""
    truth = laps(60, per_lap=30)
    graph = PoseGraph()
    for k, pose in enumerate(truth):
        graph.add_node(k, Pose2.from_array(pose))  # the piece after the break was moved to where a loop puts it
        if k and k != 30:
            graph.add(between(truth, k - 1, k, "odometry", ODOMETRY_SIGMA, np.zeros(3)))
    off = np.array([-0.7, -1.9, 1.4])
    unknown = np.diag(BREAK) ** -0.5
    graph.add(between(truth, 29, 30, "odometry", unknown, off / unknown))
    graph.optimise()
    assert np.sqrt(np.diag(covariance_of(graph, 30))) == pytest.approx(unknown, rel=0.2)
    for k in range(5, 25, 5):
        graph.add(between(truth, k, k + 30, "loop", LOOP_SIGMA, np.zeros(3)))
    assert graph.optimise().weights.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_nodes_that_came_meanwhile_move_along() -> None:
    truth = laps(130)
    graph = graph_of(truth, np.random.default_rng(7), [(0, 120), (5, 125)])
    before = graph.pose(129)
    frozen = graph._solve  # the moment between taking the copy and laying it back

    def add_one_meanwhile(*args: object) -> object:
        graph.add_node(130, before @ Pose2(0.5, 0.1, 0.2))
        return frozen(*args)  # type: ignore[arg-type]

    graph._solve = add_one_meanwhile  # type: ignore[assignment,method-assign]
    result = graph.optimise()
    assert len(result.poses) == 130
    moved = graph.pose(129).inverse() @ graph.pose(130)
    np.testing.assert_allclose(moved.as_array(), [0.5, 0.1, 0.2], atol=1e-9)


def test_a_graph_that_falls_apart_stays_where_it_is() -> None:
    graph = PoseGraph()
    for k in range(4):
        graph.add_node(k, Pose2(float(k), 0.0, 0.0))
    graph.add(Constraint(0, 1, Pose2(1.5, 0.0, 0.0), np.eye(3), "odometry"))
    graph.add(Constraint(2, 3, Pose2(1.0, 0.0, 0.0), np.eye(3), "odometry"))
    result = graph.optimise()
    np.testing.assert_allclose(result.poses[:, 0], [0.0, 1.5, 2.0, 3.0], atol=1e-3)


def test_one_node_and_no_node_are_graphs_too() -> None:
    graph = PoseGraph()
    assert len(graph.optimise().poses) == 0
    graph.add_node(5, Pose2(1.0, 2.0, 3.0))
    np.testing.assert_allclose(graph.optimise().poses, [[1.0, 2.0, 3.0]])


def test_unknown_and_doubled_nodes_are_refused() -> None:
    graph = PoseGraph()
    graph.add_node(0, Pose2())
    with pytest.raises(DataError, match="second time"):
        graph.add_node(0, Pose2())
    with pytest.raises(DataError, match="expected a node of the graph, got 3"):
        graph.add(Constraint(0, 3, Pose2(), np.eye(3), "odometry"))
