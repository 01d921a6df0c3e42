"""The floor plan of a page is turned so that its walls are upright."""

import numpy as np
import pytest

from svfm_ros.report.drawn_plan import drawn_plan, known_bounds
from svfm_ros.types import OccupancyGrid, Places, Pose2, Walk


def room(angle: float) -> OccupancyGrid:
    """A room of 6 by 4 metres with a wall in it, turned about the origin by ``angle`` within its grid."""
    cell_m, cells = 0.05, 320
    centres = (np.indices((cells, cells))[::-1].reshape(2, -1).T + 0.5) * cell_m - 8.0
    x, y = (centres @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])).T
    inside = (np.abs(x) <= 3.0) & (np.abs(y) <= 2.0)
    wall = inside & ((np.abs(x) > 2.9) | (np.abs(y) > 1.9) | ((np.abs(x - 1.0) < 0.05) & (y > 0.0)))
    prob = np.where(inside, np.where(wall, 1.0, 0.0), np.nan).astype(np.float32).reshape(cells, cells)
    return OccupancyGrid(prob, cell_m, Pose2(-8.0, -8.0, 0.0))


def test_an_empty_map_has_no_bounds() -> None:
    empty = OccupancyGrid(np.full((30, 30), np.nan, dtype=np.float32), 0.1, Pose2())
    assert known_bounds(empty, 0.0) == []


def test_bounds_are_those_of_the_turned_room() -> None:
    angle = np.deg2rad(30.0)
    x0, y0, x1, y1 = known_bounds(room(angle), angle)
    assert [x1 - x0, y1 - y0] == pytest.approx([6.0 + 1.2, 4.0 + 1.2], abs=0.2)
    assert [x0 + x1, y0 + y1] == pytest.approx([0.0, 0.0], abs=0.1)


def test_a_plan_holds_its_walks_after_turning() -> None:
    angle = np.deg2rad(-20.0)
    far = 5.0 * np.array([np.cos(angle), np.sin(angle)])  # along a wall, beyond the room
    stamps = np.arange(2, dtype=np.int64) * 10**9
    walk = Walk("w", "", stamps, np.array([[0.0, 0.0, 0.0], [*far, 0.0]]))
    plan = drawn_plan([walk], Places(), room(angle), "UTC")
    assert plan.turn == pytest.approx(angle, abs=np.deg2rad(1.0))
    assert plan.bounds[2] == pytest.approx(5.6, abs=0.1)
    assert drawn_plan([walk], Places(), None, "UTC").turn == 0.0
