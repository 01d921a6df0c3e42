"""What the walk so far says, at every moment of an ordinary walk."""

import numpy as np
import pytest
from two_destinations import PLACES, model_file, walk_along

from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.posterior import on_ticks
from svfm_ros.types import Walk


def first(walk: Walk, count: int) -> Walk:
    return Walk(walk.walk_id, walk.resident, walk.stamps_ns[:count], walk.poses[:count])


def test_ticks_are_counted_from_the_start_of_the_walk() -> None:
    stamps_ns = np.arange(0, 1_000_000_000, 100_000_000)  # 0.9 s at 2 m/s
    poses = np.column_stack([2e-9 * stamps_ns, np.zeros((len(stamps_ns), 2))])
    covariance = np.zeros((len(stamps_ns), 3, 3))
    covariance[:, 0, 0] = covariance[:, 1, 1] = 1e-9 * stamps_ns
    xy, variance = on_ticks(Walk("", "", stamps_ns, poses, covariance=covariance), 0.4)
    assert xy == pytest.approx(np.array([[0.0, 0.0], [0.8, 0.0], [1.6, 0.0]]))
    assert variance == pytest.approx([0.0, 0.4, 0.8])


def test_an_ordinary_walk_is_familiar_at_every_moment() -> None:
    """Ticks that ended now began in the middle of the first step, which was then faster than anybody sets off."""
    forecaster = Forecaster(model_file(), PLACES)
    walk = walk_along("kitchen", 9, 0)
    seen = [forecaster.posterior(first(walk, count)) for count in range(5, len(walk.xy) - 8)]
    unfamiliar = [p.unfamiliar for p in seen if p is not None]
    assert len(unfamiliar) == len(seen)
    assert max(unfamiliar) < 0.2
    ticks = np.arange(4, len(walk.xy) - 9) // 4  # whole ones before each last position
    assert np.abs(np.diff(unfamiliar))[np.diff(ticks) == 0].max() == pytest.approx(0.0, abs=1e-9)
