"""Sums and lookups on the floor's grid against direct computation."""

import numpy as np
import pytest

from svfm_ros.forecasting.floor_grid import FloorGrid


@pytest.fixture(scope="module")
def xy() -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    return np.random.default_rng(0).uniform([-2.0, -1.0], [3.0, 2.0], (150, 2))


def test_it_covers_all_positions_with_a_margin(xy) -> None:  # type: ignore[no-untyped-def]
    grid = FloorGrid.around(xy, 1.5)
    assert (grid.nodes[0, 0] <= xy.min(0) - 1.5 + 1e-9).all()
    assert (grid.nodes[-1, -1] >= xy.max(0) + 1.5).all()


def test_a_large_floor_gets_larger_cells() -> None:
    grid = FloorGrid.around(np.array([[0.0, 0.0], [300.0, 200.0]]), 1.5)
    assert grid.nx * grid.ny < 60_000
    assert grid.cell_m > 1.0


@pytest.mark.parametrize("width_m", [0.2, 0.3, 0.6, 1.2, 2.4])
def test_smoothing_is_the_sum_of_gaussians(xy, width_m: float) -> None:  # type: ignore[no-untyped-def]
    grid = FloorGrid.around(xy, 1.5)
    values = np.random.default_rng(1).uniform(0.5, 1.5, (len(xy), 2))
    got = grid.smoothed(xy, values, width_m)
    squared = ((grid.nodes[:, :, None] - xy) ** 2).sum(-1)
    want = np.exp(-0.5 * squared / width_m**2) @ values
    inner = slice(6, -6)  # wide kernels are constant over the last 0.3 m before the border
    assert np.abs(got - want)[inner, inner].max() < 0.03 * want.max()


def test_a_plane_is_looked_up_exactly(xy) -> None:  # type: ignore[no-untyped-def]
    grid = FloorGrid.around(xy, 0.5)
    slope = np.array([[0.7, -2.0], [1.3, 0.4]])
    table = grid.nodes @ slope + [3.0, -1.0]
    assert grid.look_up(xy, table) == pytest.approx(xy @ slope + [3.0, -1.0], abs=1e-9)


def test_outside_the_nearest_node_counts(xy) -> None:  # type: ignore[no-untyped-def]
    grid = FloorGrid.around(xy, 0.5)
    table = grid.nodes.copy()
    far = np.array([[-100.0, 0.0], [100.0, 100.0]])
    got = grid.look_up(far, table)
    assert got[0] == pytest.approx([grid.low_x, 0.0], abs=1e-6)
    assert got[1] == pytest.approx(grid.nodes[-1, -1], abs=1e-3)
