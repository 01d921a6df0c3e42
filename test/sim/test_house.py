"""The exported map and the drawing agree."""

import numpy as np
import pytest
import yaml
from rooms import cast_level, drawing
from scipy.ndimage import binary_dilation

from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.errors import DataError
from svfm_ros.installed_files import share_file
from svfm_ros.mapio import load_map
from svfm_ros.sim.house import House, floor_plan
from svfm_ros.sim.house_drawing import parse_drawing
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.sensors.raycast import RayCaster
from svfm_ros.sim.walker import simulate_habit

HEIGHT = LidarConfig().height_m


def test_the_map_that_comes_with_the_package_is_that_of_the_drawing(home: House) -> None:
    drawn, stored = floor_plan(home, HEIGHT), load_map(share_file("maps/house.yaml"))
    np.testing.assert_array_equal(drawn.prob, stored.prob)
    assert (drawn.resolution_m, drawn.T_map_grid) == (stored.resolution_m, stored.T_map_grid)


def test_the_places_that_come_with_the_package_are_those_of_the_drawing(home: House) -> None:
    stored = yaml.safe_load(share_file("config/places.yaml").read_text())["places"]
    drawn = [{"name": p.name, "x": p.x, "y": p.y, "radius": p.radius_m, "colour": p.colour} for p in home.places]
    assert stored == drawn


def test_beams_end_in_occupied_cells_and_walks_stay_in_free_ones(any_house: House, any_ways: RouteBook) -> None:
    grid = floor_plan(any_house, HEIGHT)
    walks = simulate_habit(any_house, seed=1, count=40, book=any_ways)
    xy = np.concatenate([w.walk.xy[::20] for w in walks])
    assert np.all(grid.prob[cells(grid, xy)] == 0.0)
    origins = np.repeat(xy[:100], 36, axis=0)
    azimuths = np.tile(np.linspace(-np.pi, np.pi, 36, endpoint=False), len(xy[:100])) + 0.01
    hits = cast_level(RayCaster.of_house(any_house), origins, azimuths, HEIGHT)
    ends = origins + hits.distance_m[:, None] * np.stack([np.cos(azimuths), np.sin(azimuths)], axis=1)
    near = binary_dilation(grid.prob == 1.0, np.ones((3, 3)))
    assert np.mean(grid.prob[cells(grid, ends)] == 1.0) > 0.97
    assert np.all(near[cells(grid, ends)])


def cells(grid, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    column, row = np.floor((xy - grid.T_map_grid.as_array()[:2]) / grid.resolution_m + 1e-6).astype(int).T
    return row, column


def test_what_nobody_can_see_is_unknown(home: House) -> None:
    grid = floor_plan(home, HEIGHT)
    bathroom, outside, in_the_fridge = [7.5, 6.0], [8.9, -0.5], [6.0, 5.5]
    assert np.isnan(grid.prob[cells(grid, np.array([bathroom, outside, in_the_fridge]))]).all()


def test_low_furniture_is_on_the_map_of_a_lower_sensor(home: House) -> None:
    couch = cells(floor_plan(home, 0.5), np.array([[1.5, 1.1]]))
    assert floor_plan(home, 0.5).prob[couch] == 1.0
    assert floor_plan(home, HEIGHT).prob[couch] == 0.0


def test_a_house_with_a_hole_in_its_wall_has_no_map() -> None:
    house = parse_drawing(drawing(doors=[{"name": "gap", "from": [2, 0], "to": [3, 0]}]))
    with pytest.raises(DataError, match="a gap that leads outside"):
        floor_plan(house, HEIGHT)
