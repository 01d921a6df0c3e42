"""The mean distance between walks of which each target has its share."""

import numpy as np
import pytest
from forecast_homes import _among


def test_equal_shares_are_no_bias() -> None:
    """Two targets 3 m apart: two walks drawn at random go to different ones half of the time."""
    target = np.repeat([0, 1], 4)
    paths = np.zeros((8, 5, 2))
    paths[4:, :, 0] = 3.0
    assert _among(paths, target) == pytest.approx(1.5)


def test_without_targets_a_walk_is_not_its_own_partner() -> None:
    paths = np.zeros((2, 5, 2))
    paths[1, :, 1] = 2.0
    assert _among(paths, np.zeros(2, dtype=np.int64)) == pytest.approx(2.0)
