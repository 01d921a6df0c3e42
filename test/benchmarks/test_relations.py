"""Errors by relations, on trajectories whose error is known."""

from pathlib import Path

import numpy as np
import pytest
from benchlib.relations import Relations, load_relations, relation_error

from svfm_ros import geometry
from svfm_ros.errors import DataError

SECOND = 1_000_000_000


def stroll(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    poses = np.zeros((count, 3))
    for k in range(1, count):
        poses[k] = geometry.compose(poses[k - 1], [0.1, 0.0, rng.normal() * 0.2])
    return poses


def write_relations(path: Path, stamps_s: np.ndarray, poses: np.ndarray, pairs: np.ndarray) -> None:
    lines = []
    for a, b in pairs:
        dx, dy, turn = geometry.relative(poses[a], poses[b])
        lines.append(f"{stamps_s[a]:.6f} {stamps_s[b]:.6f} {dx:.9f} {dy:.9f} 0 0 0 {turn:.9f}")
    path.write_text("\n".join(lines))


def test_a_trajectory_made_from_the_relations_themselves_has_no_error(tmp_path: Path) -> None:
    truth = stroll(200, 0)
    stamps_s = 0.25 * np.arange(200)
    chain = np.stack([np.arange(0, 199), np.arange(1, 200)], axis=-1)
    write_relations(tmp_path / "a.relations", stamps_s + 1211.43, truth, chain)
    relations = load_relations(tmp_path / "a.relations", offset_s=1211.43)
    poses = [np.array([3.0, -2.0, 1.0])]  # any frame will do
    for motion in relations.T_from_to:
        poses.append(geometry.compose(poses[-1], motion))
    error = relation_error((stamps_s * SECOND).astype(np.int64), np.array(poses), relations)
    assert error.count == 199
    assert error.left_out == 0
    assert error.translation_m == pytest.approx(0.0, abs=1e-7)
    assert error.rotation_deg == pytest.approx(0.0, abs=1e-6)


def test_a_known_error_is_measured() -> None:
    truth = stroll(100, 1)
    stamps = np.arange(100) * SECOND
    pairs = np.random.default_rng(0).integers(0, 100, (50, 2))
    relations = Relations(
        stamps[pairs[:, 0]], stamps[pairs[:, 1]], geometry.relative(truth[pairs[:, 0]], truth[pairs[:, 1]])
    )
    off = np.array([0.03, 0.04, np.radians(2.0)])
    wrong = Relations(relations.from_ns, relations.to_ns, geometry.compose(relations.T_from_to, geometry.inverse(off)))
    error = relation_error(stamps, truth, wrong)
    assert error.translation_m == pytest.approx(0.05)
    assert error.rotation_deg == pytest.approx(2.0)
    assert error.translation_sd_m == pytest.approx(0.0, abs=1e-9)


def test_the_nearest_scan_is_taken_and_far_relations_are_left_out() -> None:
    stamps = np.array([0, 1, 2, 10]) * SECOND
    poses = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [10, 0, 0]])
    starts = np.array([int(0.3 * SECOND), int(0.3 * SECOND)])
    ends = np.array([int(1.7 * SECOND), 6 * SECOND])
    relations = Relations(starts, ends, np.array([[2.0, 0, 0], [6, 0, 0]]))
    error = relation_error(stamps, poses, relations)
    assert (error.count, error.left_out) == (1, 1)
    assert error.translation_m == 0.0
    assert len(relations.within(2.0).from_ns) == 1


def test_relations_of_another_clock_are_refused() -> None:
    relations = Relations(np.array([10**18]), np.array([10**18]), np.zeros((1, 3)))
    with pytest.raises(DataError, match="in the clock of the trajectory"):
        relation_error(np.arange(3) * SECOND, np.zeros((3, 3)), relations)


@pytest.mark.parametrize("text", ["", "1 2 3\n", "a b c d e f g h\n"])
def test_other_files_are_no_relations(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.relations").write_text(text)
    with pytest.raises(DataError, match="relations"):
        load_relations(tmp_path / "a.relations")
