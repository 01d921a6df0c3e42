"""Maps of floor plans with known rooms."""

import numpy as np

from svfm_ros.types import OccupancyGrid, Pose2

Box = tuple[float, float, float, float]

CELL_M = 0.05
# Two rooms below a corridor of 1.2 m, two above it; walls of 0.1 m, doors of 0.9 m.
FOUR_ROOMS: tuple[Box, ...] = (
    (0.0, 2.4, 1.5, 2.5), (2.4, 2.4, 6.0, 2.5), (6.9, 2.4, 8.0, 2.5),  # between the lower rooms and the corridor
    (0.0, 3.7, 1.0, 3.8), (1.9, 3.7, 6.5, 3.8), (7.4, 3.7, 8.0, 3.8),  # between the corridor and the upper rooms
    (4.0, 0.0, 4.1, 2.5), (5.0, 3.7, 5.1, 6.5),
)  # fmt: skip
IN_CORRIDOR = (4.0, 3.1)
LOWER_LEFT, LOWER_RIGHT, UPPER_LEFT, UPPER_RIGHT = (1.0, 1.0), (7.0, 1.0), (2.0, 5.5), (7.0, 5.5)


def floor_plan(solids: tuple[Box, ...] = FOUR_ROOMS, angle: float = 0.0) -> OccupancyGrid:
    """A house of 8 by 6.5 metres with these boxes as walls and furniture, turned about its lower left corner."""
    cells = 420
    centres = (np.indices((cells, cells))[::-1].reshape(2, -1).T + 0.5) * CELL_M - 10.0
    x, y = turned_by(-angle, centres).T
    inside = (x >= -0.1) & (x <= 8.1) & (y >= -0.1) & (y <= 6.6)
    solid = (x < 0.0) | (x > 8.0) | (y < 0.0) | (y > 6.5)
    for x0, y0, x1, y1 in solids:
        solid |= (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
    prob = np.where(inside, np.where(solid, 1.0, 0.0), np.nan).astype(np.float32).reshape(cells, cells)
    return OccupancyGrid(prob, CELL_M, Pose2(-10.0, -10.0, 0.0))


def turned_by(angle: float, xy: np.ndarray | tuple[float, float]) -> np.ndarray:
    """Positions (N, 2) or (2,), turned about the origin by ``angle``."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.asarray(xy) @ np.array([[cos, sin], [-sin, cos]])
