"""Mapping that goes on after the program was killed."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flats import FLAT, OTHER, scans_along, walk
from numpy.typing import NDArray

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.errors import DataError
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.state_file import read_state, write_state
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.types import Pose2

ROUND = ((1.5, 1.2), (2.8, 3.2), (5.2, 3.2), (5.4, 1.5), (5.2, 3.2), (2.8, 3.2), (1.5, 1.2))
FIRST = walk(*ROUND, *ROUND[1:])
SECOND = walk((5.8, 6.0), (5.0, 5.0), (6.0, 4.4), (6.4, 2.4), (8.4, 2.4), (6.0, 3.0), (2.8, 3.2))
CONFIG = SlamConfig(local_keyframes=24, submap_keyframes=16, loop_group=8)  # so that loops close on a short way


@pytest.fixture(scope="module")
def mapped() -> Slam:
    slam = Slam(CONFIG)
    for scan in scans_along(FLAT, FIRST):
        slam.add_scan(scan)
    return slam


@pytest.fixture
def saved(mapped: Slam, tmp_path: Path) -> Path:
    write_state(mapped.state(), tmp_path / "slam.state")
    return tmp_path / "slam.state"


def test_what_was_mapped_comes_back_as_it_was(mapped: Slam, saved: Path) -> None:
    again = Slam.resumed(read_state(saved), CONFIG)
    assert np.array_equal(again.trajectory().stamps_ns, mapped.trajectory().stamps_ns)
    assert np.allclose(again.trajectory().poses, mapped.trajectory().poses, atol=1e-12)
    assert [v.points.tobytes() for v in again.keyframes()] == [v.points.tobytes() for v in mapped.keyframes()]
    assert len(again.loops) == len(mapped.loops) > 0


@pytest.mark.parametrize("background", [False, True])
def test_mapping_goes_on_in_the_old_map(saved: Path, background: bool) -> None:
    slam = Slam.resumed(read_state(saved), CONFIG, background=background)
    scans = scans_along(FLAT, SECOND, start_ns=10**12)
    updates = [slam.add_scan(s) for s in scans]
    found = next(k for k, u in enumerate(updates) if u.match is not None)
    assert found < 25
    assert all(u.match is not None for u in updates[found:])
    slam.finish()
    track = slam.trajectory()
    assert len(track) == len(FIRST) + len(SECOND) - found
    error = absolute_error(track.poses, np.concatenate([FIRST, SECOND[found:]]))
    assert error.worst_m < 0.08
    assert error.rmse_m < 0.03
    assert slam.counters["pieces_left_out"] == 0
    # The new room is in the map.
    assert max((error.T_truth_estimate @ v.T_map_keyframe).y for v in slam.keyframes()) > 4.5
    # Until it was found, the place was said to be unknown.
    assert updates[0].covariance[0, 0] > 100.0
    assert "not known" in updates[0].reason


def test_the_first_pose_that_is_found_is_joined_to_the_old_map(mapped: Slam, saved: Path) -> None:
    slam = Slam.resumed(read_state(saved), CONFIG)
    found = next(s for s in scans_along(FLAT, SECOND, start_ns=10**12) if slam.add_scan(s).match is not None)
    joined = slam.loops[-1]
    assert len(slam.loops) == len(mapped.loops) + 1
    assert joined.accepted
    assert joined.constraint.to_id == len(mapped.state().poses)  # the keyframe after those of the old map
    assert slam.trajectory().stamps_ns[-1] == found.stamp_ns


def test_elsewhere_the_old_map_is_left_as_it_was(mapped: Slam, saved: Path) -> None:
    slam = Slam.resumed(read_state(saved), CONFIG)
    poses = walk((1.0, 1.2), (3.3, 0.5), (7.4, 0.6), (7.2, 2.6), (10.0, 2.5))
    for scan in scans_along(OTHER, np.concatenate([poses, poses[::-1]]), start_ns=10**12):
        slam.add_scan(scan)
    slam.finish()
    assert slam.counters["found"] == 0
    assert slam.counters["chains_begun"] == 1
    assert np.array_equal(slam.trajectory().stamps_ns, mapped.trajectory().stamps_ns)


def test_a_state_does_not_change_while_mapping_goes_on(saved: Path, tmp_path: Path) -> None:
    slam = Slam.resumed(read_state(saved), CONFIG)
    before = slam.state()
    for scan in scans_along(FLAT, SECOND, start_ns=10**12):
        slam.add_scan(scan)
    assert len(slam.state()) > len(before)
    write_state(before, tmp_path / "late.state")
    assert (tmp_path / "late.state").read_bytes() == saved.read_bytes()


def test_a_map_saved_twice_is_still_whole(saved: Path, tmp_path: Path) -> None:
    slam = Slam.resumed(read_state(saved), CONFIG)
    for scan in scans_along(FLAT, SECOND, start_ns=10**12):
        slam.add_scan(scan)
    write_state(slam.state(), saved)
    again = Slam.resumed(read_state(saved), CONFIG)
    assert np.allclose(again.trajectory().poses, slam.trajectory().poses, atol=1e-12)
    last = [again.add_scan(s) for s in scans_along(FLAT, SECOND[::-1], start_ns=2 * 10**12)][-1]
    assert last.match is not None


def test_nothing_mapped_is_saved_and_restored(tmp_path: Path) -> None:
    write_state(Slam().state(), tmp_path / "slam.state")
    slam = Slam.resumed(read_state(tmp_path / "slam.state"))
    assert slam.add_scan(scans_along(FLAT, FIRST[:1])[0]).T_map_base == Pose2()


def test_damaged_and_newer_files_are_refused(saved: Path) -> None:
    data = saved.read_bytes()
    line, _, body = data.partition(b"\n")
    broken = bytearray(data)
    broken[len(data) // 2] ^= 1
    newer = json.dumps({**json.loads(line), "version": 2}).encode() + b"\n" + body
    other = json.dumps({**json.loads(line), "format": "poem"}).encode() + b"\n" + body
    for bad, why in (
        (data[: len(data) // 2], "damaged"),
        (bytes(broken), "damaged"),
        (newer, "got 2"),
        (other, "poem"),
        (b"", "another kind"),
        (body, "another kind"),
    ):
        saved.write_bytes(bad)
        with pytest.raises(DataError, match=why):
            Slam.resumed(read_state(saved), CONFIG)
    saved.unlink()
    with pytest.raises(DataError, match="No such file"):
        Slam.resumed(read_state(saved), CONFIG)


def test_arrays_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    write_state(replace(Slam().state(), walked_m=np.zeros(3)), tmp_path / "slam.state")
    with pytest.raises(DataError, match="walked_m has type float64 and shape"):
        read_state(tmp_path / "slam.state")


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("poses", lambda a: a + np.nan, "poses holds numbers"),
        ("poses", lambda a: a + 1e6, "farther than 1000 m"),
        ("chains", lambda a: a + 2**62, "numbers of keyframes"),
        ("chains", lambda a: a - 1, "numbers of keyframes"),
        ("starts", lambda a: a[::-1].copy(), "numbers of keyframes"),
        ("scan_keyframes", lambda a: a + len(FIRST), "numbers of keyframes"),
        ("open_submaps", lambda a: a.astype(str), "open_submaps has type"),
        ("stamps_ns", lambda a: a + 2**62, "no times"),
        ("points", lambda a: a[:, :3].copy(), "points has type"),
    ],
)
def test_a_map_with_a_right_checksum_is_looked_at_all_the_same(
    saved: Path, name: str, change: Callable[[NDArray[Any]], NDArray[Any]], why: str
) -> None:
    """Before, SLAM took what it needed of such a file, and ended with an error at every start."""
    state = read_state(saved)
    write_state(replace(state, **{name: change(getattr(state, name))}), saved)
    with pytest.raises(DataError, match=why):
        read_state(saved)


def test_what_is_no_file_of_a_map_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (tmp_path / "deep").write_bytes(b"[" * 100_000 + b"\n")
    for name, why in (("pipe", "got a pipe"), ("zeros", "got a device"), ("deep", "another kind of file")):
        with pytest.raises(DataError, match=why):
            read_state(tmp_path / name)
