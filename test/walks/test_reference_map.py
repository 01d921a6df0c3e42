"""Lines of sight: what hides what, worked out by hand."""

import numpy as np

from svfm_ros.types import Walk
from svfm_ros.walks.reference_map import sightlines


def test_a_wall_hides_what_is_behind_it_also_in_its_gaps() -> None:
    y = np.arange(-1.0, 1.001, 0.05)
    wall, behind = np.column_stack([np.full(len(y), 2.0), y]), np.array([[4.0, 0.0], [5.0, 0.3], [6.0, -0.5]])
    aside = np.column_stack([y, np.full(len(y), -3.0)])
    stamps = np.array([0, 10**9])
    starts, ends = sightlines(Walk("w", "ann", stamps, np.zeros((2, 3)), np.concatenate([wall, behind, aside])))
    np.testing.assert_array_equal(starts, np.zeros((len(ends), 2)))
    assert (np.isclose(ends[:, 0], 2.0) | np.isclose(ends[:, 1], -3.0)).all()
    assert np.isclose(ends[:, 0], 2.0).sum() > 15
    assert np.isclose(ends[:, 1], -3.0).sum() > 10
