"""Constant velocity, replayed walks and one-step densities on walks with known answers."""

import numpy as np
import pytest
from benchlib.forecasts.comparators import ConstantVelocity, fit_student
from benchlib.forecasts.forecast_scores import score
from benchlib.forecasts.questions import Question, ask_along, ask_from_start, ask_from_within, flattened
from benchlib.forecasts.replay_comparators import PlaceReplay, WalkerFrameReplay, kernel_density
from benchlib.forecasts.step_density import kernel_step_nll, straight_step_nll

from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

DT = 0.4
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


def windows_of(xy: np.ndarray, lengths: np.ndarray | None = None) -> WalkWindows:
    count, steps = xy.shape[:2]
    ids = tuple(f"w{i}" for i in range(count))
    lengths = np.full(count, steps) if lengths is None else lengths
    valid = np.arange(steps) < lengths[:, None]
    return WalkWindows(xy, valid, DT, np.arange(count), np.full(count, 9.0), ids, ids)


def straight(count: int, steps: int = 30, seed: int = 0, noise_m: float = 0.0) -> WalkWindows:
    """From near the origin eastwards, 0.5 m a step."""
    rng = np.random.default_rng(seed)
    line = np.arange(steps)[:, None] * [0.5, 0.0]
    xy = line + rng.normal(0.0, 0.1, (count, 1, 2)) + noise_m * rng.standard_normal((count, steps, 2))
    return windows_of(xy)


def test_student_t_is_fitted() -> None:
    rng = np.random.default_rng(0)
    k = rng.choice([1.0, 2.0, 4.0, 8.0], 8000)
    speed = rng.uniform(0.0, 1.0, 8000)
    x = (0.05 + 0.2 * speed) * k**1.3 * rng.standard_t(3.0, 8000)
    found = fit_student(x, speed, k)
    assert found.a == pytest.approx(0.05, abs=0.02)
    assert found.b == pytest.approx(0.2, abs=0.03)
    assert found.p == pytest.approx(1.3, abs=0.05)
    assert found.nu == pytest.approx(3.0, abs=0.5)


def test_constant_velocity_goes_on_as_before() -> None:
    forecaster = ConstantVelocity()
    forecaster.fit(straight(20, noise_m=0.02))
    north = np.array([3.0, 1.0]) + np.arange(6)[:, None] * [0.0, 0.5]
    paths = forecaster.sample(Question(north, 9.0, 4, samples=4001))
    expected = north[-1] + np.arange(5)[:, None] * [0.0, 0.5]
    np.testing.assert_allclose(np.median(paths, axis=0), expected, atol=0.03)
    assert 0.005 < np.median(np.abs(paths[:, 1] - expected[1])) < 0.1
    np.testing.assert_array_equal(paths[:, 0], np.broadcast_to(north[-1], (4001, 2)))
    just_begun = forecaster.sample(Question(np.zeros((1, 2)), 9.0, 4, samples=2000))
    np.testing.assert_allclose(np.linalg.norm(just_begun[:, -1], axis=1), 2.0, atol=0.3)
    assert np.abs(just_begun[:, -1].mean(0)).max() < 0.2  # in any direction
    with pytest.raises(DataError, match="fit"):
        ConstantVelocity().sample(Question(north, 9.0, 4))


def test_replay_replays() -> None:
    walks = straight(6)
    forecaster = PlaceReplay(ticks=15)
    forecaster.fit(walks)
    paths = forecaster.sample(Question(np.zeros((1, 2)), 9.0, 15, samples=40))
    shapes = flattened(walks, 15) - walks.xy[:, :1]
    np.testing.assert_allclose(paths, np.broadcast_to(shapes[0], paths.shape), atol=0.35)
    np.testing.assert_allclose(paths[:, 0], 0.0, atol=1e-12)
    later = forecaster.sample(Question(walks.xy[2, :5], 9.0, 3, samples=5))
    np.testing.assert_allclose(later[:, 0], np.broadcast_to(walks.xy[2, 4], (5, 2)))
    with pytest.raises(DataError, match="fit"):
        PlaceReplay(ticks=3).sample(Question(np.zeros((1, 2)), 9.0, 3))


def test_bandwidths_are_tuned() -> None:
    """Two lanes 0.6 m apart that turn to different sides: only a narrow kernel tells them apart."""
    rng = np.random.default_rng(0)
    lane = rng.choice([-1.0, 1.0], 30)
    x = np.minimum(np.arange(24) * 0.5, 6.0)
    y = 0.3 * lane[:, None] + lane[:, None] * np.maximum(np.arange(24) - 12, 0) * 0.5
    xy = np.stack([np.broadcast_to(x, y.shape), y], axis=-1) + 0.02 * rng.standard_normal((30, 24, 2))
    for forecaster in (PlaceReplay(8, past=4, ends=False), kernel_density(8, past=4, ends=False)):
        forecaster.fit(windows_of(xy))
        assert forecaster.near_m <= 0.3
        assert forecaster.spread_m <= 0.1
        seen = np.stack([x[6:11], np.full(5, 0.3)], axis=1)
        paths = forecaster.sample(Question(seen, 9.0, 8, samples=200, step=10))
        assert (paths[:, -1, 1] > 1.0).mean() > 0.95


def test_a_track_that_left_the_scene_goes_on_and_a_walk_that_ended_stays() -> None:
    walks = straight(5, steps=10)
    question = Question(walks.xy[0, 4:9], 9.0, 6, samples=10, step=8)
    for ends, expected in ((True, 0.5), (False, 3.0)):
        forecaster = PlaceReplay(6, past=4, ends=ends)
        forecaster.fit(walks)
        forecaster.near_m, forecaster.back_ticks = 0.1, 1e6
        gone = forecaster.sample(question)[:, -1, 0] - walks.xy[0, 8, 0]
        assert np.median(gone) == pytest.approx(expected, abs=1e-3)


def test_walker_frame_turns_with_the_walker_and_mirrors() -> None:
    rng = np.random.default_rng(0)
    headings = np.cumsum(np.where(np.arange(20) < 10, 0.0, 0.2))
    step = 0.5 * np.stack([np.cos(headings), np.sin(headings)], axis=1)
    xy = np.cumsum(step, axis=0) + 0.002 * rng.standard_normal((20, 20, 2))
    forecaster = WalkerFrameReplay(8, past=8, ends=False)
    forecaster.fit(windows_of(xy))
    forecaster.drift_m = 0.0
    here = forecaster.sample(Question(xy[0, 3:11], 9.0, 8, samples=300))
    there = forecaster.sample(Question(xy[0, 3:11] @ TURN.T + [5.0, 7.0], 9.0, 8, samples=300))
    np.testing.assert_allclose(there, here @ TURN.T + [5.0, 7.0], atol=1e-9)
    side = here[:, -1, 1] - xy[0, 10, 1]
    assert (side > 0.3).any()
    assert (side < -0.3).any()  # the mirror image of a left turn that nobody made


def test_scores_prefer_the_truth() -> None:
    asked = ask_from_within(straight(12, steps=20, seed=3), past=8, samples=200)
    right, wrong = PlaceReplay(12, past=8, ends=False), PlaceReplay(12, past=8, name="stands still")
    right.fit(straight(6))
    wrong.fit(windows_of(np.zeros((6, 30, 2))))
    a, b = score(right, asked), score(wrong, asked)
    assert a.log_path.mean() < b.log_path.mean() - 1.0
    assert a.energy_m.mean() < b.energy_m.mean() - 1.0
    assert a.min_ade20_m.mean() < 0.3
    assert b.min_fde20_m.mean() > 5.0


def test_densities_of_steps() -> None:
    train = straight(30, noise_m=0.02)
    same, other = straight(20, seed=9, noise_m=0.02), straight(20, seed=9, noise_m=0.2)
    for nll in (straight_step_nll, kernel_step_nll):
        assert nll(train, same).shape == (20,)
        assert nll(train, same).mean() < nll(train, other).mean() - 1.0


def test_the_density_of_a_gaussian_random_walk() -> None:
    """Steps with Gaussian changes of spread 0.05: log(2 pi e 0.05^2) nats each; the first of 59 costs more."""
    rng = np.random.default_rng(0)
    change = 0.05 * rng.standard_normal((60, 60, 2))
    change[:, 0] += [0.5, 0.0]
    xy = np.cumsum(np.cumsum(change, axis=1), axis=1)
    train, walks = windows_of(xy[:40]), windows_of(xy[40:])
    assert straight_step_nll(train, walks).mean() == pytest.approx(np.log(2.0 * np.pi * np.e * 0.05**2), abs=0.1)


def test_questions_hold_what_was_seen() -> None:
    walks = windows_of(np.arange(40.0).reshape(2, 10, 2), np.array([10, 5]))
    starts = ask_from_start(walks, 12, samples=3)
    assert [len(q.seen) for q in starts.questions] == [1, 1]
    np.testing.assert_array_equal(starts.truth[1, 4:], np.broadcast_to(walks.xy[1, 4], (9, 2)))
    half = ask_along(walks, 0.5, 4, samples=3)
    assert [len(q.seen) for q in half.questions] == [6, 3]
    assert half.lengths.tolist() == [5, 3]
    np.testing.assert_array_equal(half.truth[:, 0], [walks.xy[0, 5], walks.xy[1, 2]])
    assert half.questions[0].stamp_ns == 2_000_000_000
    assert len(starts.at_most(1)) == 1
