"""Familiar ground: where a house is known, its map stops growing."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from flats import FLAT, scans_along, walk, wall

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import relocalisation_constraint
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.state_file import read_state, write_state
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.types import MatchResult, Pose2

ROUND = ((1.5, 1.2), (2.8, 3.2), (5.2, 3.2), (5.4, 1.5), (5.2, 3.2), (2.8, 3.2))
OFTEN = 8
ROUNDS = walk(*(ROUND * OFTEN), ROUND[0])
THEN_OUT = walk(*(ROUND * OFTEN), *ROUND[:3], (6.2, 3.4), (6.0, 5.0), (5.0, 6.0))
CONFIG = SlamConfig(local_keyframes=40, submap_keyframes=16, loop_group=8, familiar_views=3)


@dataclass
class Walked:
    slam: Slam
    keyframes: list[int]  # after each scan

    def grown(self, first: int, last: int) -> int:
        """Keyframes that were added in these of the equal parts of the rounds."""
        at = np.linspace(0, len(ROUNDS) - 1, OFTEN + 1).astype(int)
        return self.keyframes[at[last]] - self.keyframes[at[first]]


def walked(config: SlamConfig, poses: np.ndarray) -> Walked:
    slam, keyframes = Slam(config), []
    for scan in scans_along(FLAT, poses):
        slam.add_scan(scan)
        keyframes.append(slam.counters["keyframes"])
    return Walked(slam, keyframes)


@pytest.fixture(scope="module")
def known() -> Walked:
    return walked(CONFIG, THEN_OUT)


def test_the_map_of_a_known_flat_stops_growing(known: Walked) -> None:
    always = walked(replace(CONFIG, familiar_views=0), ROUNDS)
    assert always.grown(OFTEN - 3, OFTEN) > 60
    assert known.grown(OFTEN - 3, OFTEN) <= 0.1 * always.grown(OFTEN - 3, OFTEN)


def test_the_map_stops_growing_where_the_local_map_holds_only_part_of_the_visits() -> None:
    """Keyframes of earlier visits count as well, though those of this visit are nearer along the path."""
    seen = walked(replace(CONFIG, local_keyframes=16), ROUNDS)
    assert seen.grown(0, 1) > 30
    assert seen.grown(OFTEN - 3, OFTEN) <= 0.2 * seen.grown(0, 1)


def test_every_scan_has_its_place_all_the_same(known: Walked) -> None:
    track = known.slam.trajectory()
    assert len(track) == len(THEN_OUT)
    error = absolute_error(track.poses, THEN_OUT)
    assert error.rmse_m < 0.02
    assert error.worst_m < 0.08


def test_a_way_out_of_familiar_ground_is_tied_to_where_it_begins(known: Walked) -> None:
    """Not to the keyframe that happened to be made last, which may lie in another room."""
    steps = known.slam.state().steps
    assert any(step.to_id - step.from_id > 1 for step in steps)
    assert all(np.hypot(step.T_from_to.x, step.T_from_to.y) < 1.0 for step in steps)


def test_the_ways_between_keyframes_survive_a_restart(known: Walked, tmp_path: Path) -> None:
    write_state(known.slam.state(), tmp_path / "known.state")
    again = Slam.resumed(read_state(tmp_path / "known.state"), CONFIG)
    for k in (0, 30, len(known.slam.keyframes()) - 1):
        before, after = (s._keyframes.near(k, 40, 25.0) for s in (known.slam, again))
        assert np.array_equal(before, after)


def test_what_has_changed_is_worth_a_keyframe(known: Walked, tmp_path: Path) -> None:
    write_state(known.slam.state(), tmp_path / "known.state")
    changed = np.concatenate(
        [FLAT, wall(0.5, 0.1, 0.5, 6.9), wall(0.1, 6.4, 3.9, 6.4), wall(8.4, 0.1, 8.4, 3.9)]
    )  # wardrobes
    grown = {}
    for name, walls in (("as it was", FLAT), ("changed", changed)):
        slam = Slam.resumed(read_state(tmp_path / "known.state"), CONFIG)
        for scan in scans_along(walls, walk(*ROUND, ROUND[0]), start_ns=10**15):
            slam.add_scan(scan)
        grown[name] = slam.counters["keyframes"]
    assert grown["changed"] >= grown["as it was"] + 4


def test_a_scan_that_never_matches_well_does_not_add_keyframes_for_ever(known: Walked) -> None:
    """Each scan sees something new in front of a third of its beams, at the same places over and over."""
    slam, rng, grown = Slam(replace(CONFIG, familiar_views=1)), np.random.default_rng(0), []
    for scan in scans_along(FLAT, walk(*((ROUND[0], ROUND[1]) * 10))):
        ranges = scan.ranges.copy()
        ranges[rng.random(len(ranges)) < 0.35] *= np.float32(0.7)
        slam.add_scan(replace(scan, ranges=ranges))
        grown.append(slam.counters["keyframes"])
    assert grown[len(grown) // 2] > 20
    assert grown[-1] - grown[len(grown) // 2] <= 0.3 * grown[len(grown) // 2]


def test_a_relocalised_keyframe_is_constrained_to_the_nearest_one_of_the_old_map() -> None:
    poses = np.array([[3.0, 2.0, 0.5], [-3.0, -2.2, 0.0], [3.1, 2.1, 0.0], [3.2, 2.2, 0.1]])
    match = MatchResult(Pose2.from_array(poses[3]), True, 1, 1.0, 0.0, np.diag([1e6, 1e4, 1e7]))
    found = relocalisation_constraint(poses, np.array([0, 1]), 3, match)
    assert (found.from_id, found.to_id, found.kind) == (0, 3, "loop")
    expected = geometry.relative(poses[0], poses[3])
    np.testing.assert_allclose(found.T_from_to.as_array(), expected)
    assert np.linalg.eigvalsh(found.information).max() <= 1.0 / 0.004**2 * 1.001, "the floor of the deviations"
