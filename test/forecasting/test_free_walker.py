"""The free walker: the same person at another time step, in another direction, at another position."""

import numpy as np
import pytest

from svfm_ros.errors import DataError
from svfm_ros.forecasting.free_walker import FreeWalkerPrior, free_log_densities


@pytest.fixture(scope="module")
def weights():  # type: ignore[no-untyped-def]
    return FreeWalkerPrior.load().free.parts


@pytest.fixture(scope="module")
def track():  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    return np.cumsum([0.4, 0.05] + 0.03 * rng.standard_normal((10, 2)), axis=0)


def log_densities(xy, weights, variance=0.0, ticks=1.0):  # type: ignore[no-untyped-def]
    out = np.empty(len(xy) - 1)
    free_log_densities(np.ascontiguousarray(xy), np.full(len(out), variance), weights, ticks, out)
    return out


def test_a_longer_time_step_scales_moves_and_their_noise(track, weights) -> None:  # type: ignore[no-untyped-def]
    """Twice the step: moves are twice as long, variances four times as large, densities in 2D a quarter."""
    ours = log_densities(track, weights, 0.01)
    theirs = log_densities(2.0 * track, weights, 0.04, ticks=2.0)
    assert theirs == pytest.approx(ours - 2.0 * np.log(2.0))


def test_position_and_direction_do_not_matter(track, weights) -> None:  # type: ignore[no-untyped-def]
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    moved = log_densities(track @ turn + [7.0, -3.0], weights)
    assert moved[1:] == pytest.approx(log_densities(track, weights)[1:], abs=1e-9)


def test_steady_walking_is_likelier_than_a_jump(track, weights) -> None:  # type: ignore[no-untyped-def]
    jump = track.copy()
    jump[-1] += [0.0, 1.5]
    assert log_densities(track, weights)[-1] > log_densities(jump, weights)[-1] + 3.0


def test_uncertain_positions_widen_the_density(track, weights) -> None:  # type: ignore[no-untyped-def]
    jump = track.copy()
    jump[-1] += [0.0, 0.5]
    assert log_densities(jump, weights, 0.1)[-1] > log_densities(jump, weights)[-1]


def test_a_wrong_file_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "prior").write_bytes(b"something")
    with pytest.raises(DataError, match="population prior"):
        FreeWalkerPrior.load(tmp_path / "prior")
