"""The angle of the walls on a map."""

import numpy as np
import pytest
from floor_plans import floor_plan

from svfm_ros.types import OccupancyGrid, Pose2
from svfm_ros.wall_angle import wall_angle


@pytest.mark.parametrize("degrees", [-40.0, -12.5, 0.0, 7.0, 22.3, 44.0])
def test_the_angle_of_the_walls_is_found(degrees: float) -> None:
    assert np.rad2deg(wall_angle(floor_plan(angle=float(np.deg2rad(degrees))))) == pytest.approx(degrees, abs=1.0)


def test_a_map_without_walls_is_not_turned() -> None:
    assert wall_angle(OccupancyGrid(np.full((30, 30), np.nan, dtype=np.float32), 0.1, Pose2())) == 0.0
