"""Rooms of floor plans that are known."""

import numpy as np
import pytest
from floor_plans import (
    FOUR_ROOMS,
    IN_CORRIDOR,
    LOWER_LEFT,
    LOWER_RIGHT,
    UPPER_LEFT,
    UPPER_RIGHT,
    floor_plan,
    turned_by,
)

from svfm_ros.types import OccupancyGrid, Pose2
from svfm_ros.walks.rooms import find_rooms

SPOTS = (LOWER_LEFT, LOWER_RIGHT, IN_CORRIDOR, UPPER_LEFT, UPPER_RIGHT)


@pytest.mark.parametrize("degrees", [0.0, 30.0, -17.0])
def test_rooms_behind_doors_are_told_apart(degrees: float) -> None:
    angle = float(np.deg2rad(degrees))
    found = find_rooms(floor_plan(angle=angle))
    rooms = [found.at(turned_by(angle, spot)) for spot in SPOTS]
    assert sorted(rooms) == [0, 1, 2, 3, 4]
    assert len(found.rooms) == 5
    assert [found.rooms[n].is_corridor for n in rooms] == [False, False, True, False, False]
    areas_m2 = [np.count_nonzero(found.labels == n + 1) * found.resolution_m**2 for n in rooms]
    assert areas_m2 == pytest.approx([4.0 * 2.4, 3.9 * 2.4, 8.0 * 1.2, 5.0 * 2.7, 2.9 * 2.7], rel=0.1)
    low, high = np.array(found.rooms[rooms[0]].low), np.array(found.rooms[rooms[0]].high)
    assert high - low == pytest.approx([4.0, 2.4], abs=0.3)
    assert found.rooms[rooms[3]].middle == pytest.approx((2.5, 5.15), abs=0.2)


@pytest.mark.parametrize(
    "furniture",
    [
        (1.5, 0.8, 2.3, 1.6),  # a table that stands free
        (1.1, 0.5, 2.9, 1.4),  # a large one, with 0.5 m below it and 1 m above it
        (0.0, 0.8, 1.2, 1.7),  # a bed at the wall
        (3.5, 3.6, 4.3, 3.7),  # a cabinet that leaves 1.1 m of the corridor
    ],
    ids=["table", "large table", "bed", "cabinet"],
)
def test_furniture_makes_no_rooms(furniture: tuple[float, float, float, float]) -> None:
    found = find_rooms(floor_plan((*FOUR_ROOMS, furniture)))
    assert len(found.rooms) == 5
    assert found.at(np.array((2.0, 3.1))) == found.at(np.array((7.5, 3.1)))  # both ends of the corridor
    assert found.at(np.array((0.2, 0.2))) == found.at(np.array((3.8, 2.2)))  # two corners of the room


def test_an_open_flat_is_one_room_and_an_empty_map_none() -> None:
    assert len(find_rooms(floor_plan(())).rooms) == 1
    assert len(find_rooms(floor_plan(((4.0, 0.0, 4.1, 4.5),))).rooms) == 1  # an opening of 2 m is no door
    empty = OccupancyGrid(np.full((40, 30), np.nan, dtype=np.float32), 0.05, Pose2())
    assert find_rooms(empty).rooms == ()


def test_positions_outside_of_the_rooms_are_in_none() -> None:
    found = find_rooms(floor_plan())
    assert [found.at(np.array(xy)) for xy in ((-3.0, 1.0), (1e9, 0.0), (np.nan, 0.0), (4.05, 1.0))] == [-1] * 4
