"""CLiFF-LHMP: maps of known mixtures, paths that are pulled along."""

import numpy as np
import pytest
from benchlib.forecasts.cliff_lhmp import CliffForecaster, CliffMap, learn_cliff_map
from benchlib.forecasts.questions import Question

from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows


def test_the_mixture_of_a_cell_is_found() -> None:
    """People go west (across the cut of the angle) at 1.2 m/s and, half as often, north at 0.6 m/s."""
    rng = np.random.default_rng(0)
    angle = np.concatenate([rng.normal(np.pi, 0.15, 200), rng.normal(np.pi / 2, 0.15, 100)])
    speed = np.concatenate([rng.normal(1.2, 0.1, 200), rng.normal(0.6, 0.1, 100)])
    velocity = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    cliff = learn_cliff_map(rng.uniform(0.0, 0.5, (300, 2)), velocity)
    assert len(cliff.weight) == 2
    west, north = np.argsort(-cliff.weight)
    assert abs(np.cos(cliff.mean[west, 0]) + 1.0) < 0.02
    assert cliff.mean[west, 1] == pytest.approx(1.2, abs=0.05)
    assert cliff.mean[north] == pytest.approx([np.pi / 2, 0.6], abs=0.06)
    assert cliff.weight[west] == pytest.approx(2 / 3, abs=0.03)
    np.testing.assert_allclose(cliff.xy, [[0.25, 0.25]] * 2)
    with pytest.raises(DataError, match="observations"):
        learn_cliff_map(np.zeros((2, 2)), np.ones((2, 2)))


def bend() -> WalkWindows:
    """Eastwards, then northwards from x = 5 on."""
    rng = np.random.default_rng(0)
    k = np.arange(24)
    corner = np.stack([np.minimum(0.4 * k, 5.0), np.maximum(0.4 * (k - 12.5), 0.0)], axis=1)
    xy = corner + 0.05 * rng.standard_normal((20, 1, 2)) + 0.01 * rng.standard_normal((20, 24, 2))
    names = tuple(f"w{i}" for i in range(20))
    return WalkWindows(xy, np.ones((20, 24), dtype=np.bool_), 0.4, np.arange(20), np.full(20, 9.0), names, names)


def test_paths_follow_the_map_where_there_is_one() -> None:
    forecaster = CliffForecaster(ticks=10, past=4)
    forecaster.fit(bend())
    seen = np.stack([3.4 + 0.4 * np.arange(4), np.zeros(4)], axis=1)
    paths = forecaster.sample(Question(seen, 9.0, 10, samples=200))
    assert np.median(paths[:, -1, 1]) > 1.0  # round the corner
    np.testing.assert_allclose(np.linalg.norm(np.diff(paths, axis=1), axis=-1), 0.4, atol=1e-9)  # the speed stays
    away = forecaster.sample(Question(seen + 50.0, 9.0, 10, samples=5))
    np.testing.assert_allclose(away[:, -1], np.broadcast_to(seen[-1] + 50.0 + [4.0, 0.0], (5, 2)), atol=1e-9)
    begun = forecaster.sample(Question(seen[:1] * 0.0, 9.0, 10, samples=50))
    assert np.median(begun[:, 1, 0]) > 0.2
    with pytest.raises(DataError, match="fit"):
        CliffForecaster(ticks=3).sample(Question(seen, 9.0, 3))


def test_published_maps_are_read() -> None:
    rows = np.array([[1.0, 0.0, 0.1, 1.0, 1, 0, 0, 1, 0.4, 1, 0.5], [0.0, 0.0, 0.2, 1.0, 1, 0, 0, 1, 1.0, 1, 0.1]])
    cliff = CliffMap.from_table(np.concatenate([rows, rows[:1]]))
    assert cliff.xy[:, 0].tolist() == [0.0, 1.0, 1.0]
    assert cliff.cov.shape == (3, 2, 2)
