"""The density of sampled paths on a grid of fixed size."""

import numpy as np

from svfm_ros.forecasting.visit_density import DensityRaster

RASTER = DensityRaster.around(np.array([[-1.0, 0.0], [3.0, 2.0]]), 0.1)


def path(*points):
    return np.array([points], dtype=float)


def test_a_path_is_drawn_where_it_is():
    grid = RASTER.draw(path((0.05, 1.05), (2.05, 1.05)))
    assert grid.prob.shape == RASTER.shape == (40, 60)
    centres = grid.centres_of(grid.prob >= 0.3)
    np.testing.assert_allclose(centres[:, 1], 1.05)
    assert abs(centres[:, 0].min() - 0.05) < 1e-6
    assert abs(centres[:, 0].max() - 2.05) < 1e-6


def test_shares_of_paths_are_smoothed_over_neighbours():
    """Of two paths that stand in one cell each, the cell has half, 1/4 of it from the binomial filter's middle."""
    grid = RASTER.draw(np.array([[[0.05, 1.05], [0.05, 1.05]], [[2.05, 0.05], [2.05, 0.05]]]))
    cells = np.array([[0.05, 1.05], [0.15, 1.05], [0.15, 1.15], [0.25, 1.05], [2.05, 0.05]])
    np.testing.assert_allclose(grid.prob_at(cells), [1 / 8, 1 / 16, 1 / 32, 0.0, 1 / 8])


def test_what_lies_outside_is_left_out_and_the_size_stays():
    inside, outside = RASTER.draw(path((-5.0, 1.0), (5.0, 1.0))), RASTER.draw(path((50.0, 50.0), (51.0, 50.0)))
    assert inside.prob.shape == outside.prob.shape == RASTER.empty().prob.shape
    assert inside.T_map_grid == outside.T_map_grid
    assert inside.prob.max() > 0.4
    assert outside.prob.max() == 0.0


def test_a_large_house_gets_coarser_cells():
    large = DensityRaster.around(np.array([[0.0, 0.0], [1000.0, 1000.0]]), 0.1)
    assert np.prod(large.shape) < 1.1e6
