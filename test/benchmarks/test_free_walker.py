"""Who follows a habit, who goes their own way: tracks with known answers."""

from dataclasses import replace

import numpy as np
import pytest
from benchlib.comparators import Bootstrap, Question
from benchlib.free_walker import FreeWalker, HabitsOrFree, is_standing

from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

PAST, FUTURE = 3, 4
STEPS = PAST + FUTURE


def tracks_of(xy: np.ndarray) -> WalkWindows:
    count = len(xy)
    ids = tuple(f"w{i}" for i in range(count))
    valid = np.ones(xy.shape[:2], dtype=np.bool_)
    return WalkWindows(xy, valid, 0.4, np.arange(count), np.full(count, 9.0), ids, ids)


def turning(angles: np.ndarray, rate: float, step_m: float = 0.5) -> np.ndarray:
    """Tracks (N, STEPS, 2) that set off at those angles and turn by ``rate`` with every step once they were seen."""
    turned = angles[:, None] + rate * np.maximum(np.arange(STEPS - 1) - (PAST - 2), 0)
    steps = step_m * np.stack([np.cos(turned), np.sin(turned)], axis=-1)
    return np.concatenate([np.zeros((len(angles), 1, 2)), np.cumsum(steps, axis=1)], axis=1)


def test_a_free_walker_goes_off_as_others_did_to_either_side() -> None:
    walker = FreeWalker(PAST, FUTURE)
    walker.fit(tracks_of(turning(np.linspace(0.0, 6.0, 12), 0.3)))
    seen = turning(np.array([1.0]), 0.0)[0, :PAST]
    paths = walker.sample(Question(seen, 9.0, FUTURE, samples=40))
    left, right = (turning(np.array([1.0]), side)[0, PAST - 1 :] for side in (0.3, -0.3))
    goes_left = np.abs(paths - left).max(axis=(1, 2)) < 1e-9
    goes_right = np.abs(paths - right).max(axis=(1, 2)) < 1e-9
    assert (goes_left ^ goes_right).all()
    assert 8 < goes_left.sum() < 32


def test_a_free_walker_follows_people_of_its_own_speed() -> None:
    slow, fast = turning(np.zeros(6), 0.0, 0.2), turning(np.zeros(6), 0.3, 1.0)
    walker = FreeWalker(PAST, FUTURE)
    walker.fit(tracks_of(np.concatenate([slow, fast])))
    paths = walker.sample(Question(slow[0, :PAST], 9.0, FUTURE, samples=30))
    np.testing.assert_allclose(paths, np.broadcast_to(slow[0, PAST - 1 :], paths.shape), atol=1e-9)


@pytest.mark.parametrize(("rate", "low", "high"), [(0.6, 0.5, 1.0), (0.0, 0.0, 0.2)])
def test_the_share_of_habits_is_learnt(rate: float, low: float, high: float) -> None:
    """Where all turn left at one spot, replaying them is right and mirrored turns are wrong; where nobody does, not."""
    rng = np.random.default_rng(0)
    angles = rng.normal(0.0, 0.02, 30) if rate else rng.uniform(-np.pi, np.pi, 30)
    both = HabitsOrFree(Bootstrap(), FreeWalker(PAST, FUTURE), "both")
    both.fit(tracks_of(turning(angles, rate)))
    assert low <= both.share <= high


def test_samples_come_in_the_learnt_shares_and_who_stands_is_free() -> None:
    both = HabitsOrFree(Bootstrap(), FreeWalker(PAST, FUTURE), "both")
    tracks = tracks_of(turning(np.zeros(10), 0.6))
    both.fit(tracks)
    both.share = 0.25
    alone = {"habit": Bootstrap(), "free": FreeWalker(PAST, FUTURE)}
    for part in alone.values():
        part.fit(tracks)
    walking = Question(tracks.xy[0, :PAST], 9.0, FUTURE, samples=8)
    paths = both.sample(walking)
    np.testing.assert_array_equal(paths[[3, 7]], alone["habit"].sample(replace(walking, samples=2)))
    np.testing.assert_array_equal(paths[[0, 1, 2, 4, 5, 6]], alone["free"].sample(replace(walking, samples=6)))
    still = replace(walking, seen=np.zeros((PAST, 2)))
    assert is_standing(still)
    assert not is_standing(walking)
    np.testing.assert_array_equal(both.sample(still), alone["free"].sample(still))


def test_bad_input_is_refused() -> None:
    with pytest.raises(DataError, match="at least 7 positions"):
        FreeWalker(PAST, FUTURE).fit(tracks_of(np.zeros((3, STEPS - 1, 2))))
    with pytest.raises(DataError, match="after fit"):
        FreeWalker(PAST, FUTURE).sample(Question(np.zeros((2, 2)), 9.0, FUTURE))
