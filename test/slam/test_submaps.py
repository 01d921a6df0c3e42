"""The life cycle of submaps: two at a time, each half over the next, none without an end."""

import numpy as np
from flats import FLAT, scan_at
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import Keyframes, Pool
from svfm_ros.slam.loops.submap import PackedMap, Submaps, SubmapSpan, draw
from svfm_ros.slam.matching.local_map import build_local_map
from svfm_ros.slam.preprocess import cloud_from_scan


def test_submaps_overlap_by_half() -> None:
    submaps = Submaps(10)
    spans = [s for k in range(31) if (s := submaps.add(k, float(k))) is not None]
    assert [(s.first, s.last) for s in spans] == [(0, 10), (5, 15), (10, 20), (15, 25), (20, 30)]
    assert [s.submap_id for s in spans] == [0, 1, 2, 3, 4]
    assert spans[1].anchor == 10


def test_an_ended_chain_finishes_its_open_submap_and_drops_one_of_a_single_keyframe() -> None:
    submaps = Submaps(10)
    for k in range(7):
        assert submaps.add(k, float(k)) is None
    span = submaps.close(7)
    assert span is not None
    assert (span.first, span.last) == (0, 7)
    assert submaps.open == []
    submaps.add(7, 7.0)
    assert submaps.close(8) is None


def test_long_steps_fill_a_submap_sooner() -> None:
    submaps = Submaps(10)
    spans = [s for k in range(9) if (s := submaps.add(k, 3.0 * k)) is not None]
    assert [(s.first, s.last) for s in spans] == [(0, 4), (2, 6), (4, 8)]


@given(steps=st.lists(st.floats(0.5, 6.0), min_size=60, max_size=120))
def test_every_keyframe_but_the_newest_is_in_a_submap(steps: list[float]) -> None:
    submaps = Submaps(12)
    progress = np.cumsum(steps)
    spans = [s for k, p in enumerate(progress) if (s := submaps.add(k, float(p))) is not None]
    covered = np.zeros(len(steps), dtype=int)
    for span in spans:
        covered[span.first : span.last] += 1
    assert (covered[: spans[-1].last] >= 1).all()
    assert covered.max() <= 3


POSES = np.array([[1.5 + 0.2 * k, 1.5 + 0.1 * k, 0.1 * k] for k in range(8)])


def _seen() -> Pool:
    keyframes, config = Keyframes(0.3), SlamConfig()
    for k, pose in enumerate(POSES):
        keyframes.add(
            k, cloud_from_scan(scan_at(FLAT, pose, k + 1), np.zeros(3), config), pose, before=k - 1 if k else None
        )
    return keyframes.pool


def test_a_drawing_comes_back_from_rest_as_it_was() -> None:
    pool, ids = _seen(), np.arange(8)
    drawn = build_local_map(pool, POSES, ids, np.array([2.0, 2.0]), 25.0, ids, depth=6)
    packed = PackedMap.of(drawn)
    again = packed.unpacked()
    assert np.array_equal(again.points, drawn.points)
    assert np.array_equal(again.starts, drawn.starts)
    assert np.array_equal(again.pyramid.levels, drawn.pyramid.levels)
    assert np.array_equal(again.pyramid.origin, drawn.pyramid.origin)
    assert packed.finest.levels.base is None  # or it would hold all the levels that it leaves out


def test_a_finished_drawing_moves_with_its_anchor() -> None:
    """Drawn from two sets of poses that differ by one rigid motion, it is the same."""
    pool, span = _seen(), SubmapSpan(0, 1, 7)
    one = draw(span, pool, POSES)
    other = draw(span, pool, geometry.compose([7.0, -3.0, 1.1], POSES))
    assert np.allclose(np.sort(one.target().points[:, 0]), np.sort(other.target().points[:, 0]), atol=1e-6)
    assert one.target().pyramid.levels.shape == other.target().pyramid.levels.shape
    assert np.allclose(one.signatures, other.signatures, atol=1e-6)
