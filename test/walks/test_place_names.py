"""What places are called that nobody has named, on floor plans that are known."""

import numpy as np
import pytest
from floor_plans import IN_CORRIDOR, LOWER_LEFT, LOWER_RIGHT, UPPER_LEFT, UPPER_RIGHT, floor_plan, turned_by

from svfm_ros.types import OccupancyGrid, Place, Places
from svfm_ros.walks.place_names import PlanNames, named_by_plan


def places(*spots: tuple[float, float] | np.ndarray, named: dict[int, str] | None = None) -> Places:
    """Found places at these positions; ``named`` are the names that a person gave to some of them."""
    names = [(named or {}).get(n, f"place {n + 1}") for n in range(len(spots))]
    return Places(
        tuple(
            Place(name, *map(float, xy), 0.5, f"#0000{n:02x}")
            for n, (name, xy) in enumerate(zip(names, spots, strict=True))
        )
    )


@pytest.mark.parametrize("degrees", [0.0, 30.0, -17.0])
def test_a_place_is_called_by_its_room_as_the_plan_is_drawn(degrees: float) -> None:
    angle = float(np.deg2rad(degrees))
    spots = [turned_by(angle, s) for s in (UPPER_RIGHT, LOWER_LEFT, LOWER_RIGHT, UPPER_LEFT, IN_CORRIDOR)]
    found = named_by_plan(places(*spots), floor_plan(angle=angle))
    assert found.names == (
        "top right room",
        "bottom left room",
        "bottom right room",
        "top left room",
        "corridor (middle)",
    )
    assert [(p.x, p.y, p.colour) for p in found] == [(p.x, p.y, p.colour) for p in places(*spots)]


def test_further_places_of_a_room_are_told_apart_and_the_first_keeps_its_name() -> None:
    grid = floor_plan()
    spots = [LOWER_LEFT, (3.7, 2.2), (0.3, 1.2), (0.3, 1.1), (0.5, 3.1), (7.6, 3.1), (2.1, 1.2)]
    found = named_by_plan(places(*spots), grid).names
    assert found == (
        "bottom left room",
        "bottom left room (top right)",
        "bottom left room (left)",
        "bottom left room (left 2)",
        "corridor (left end)",
        "corridor (right end)",
        "bottom left room (middle)",
    )
    for count in range(len(spots)):  # later walks add places behind: names stay
        assert named_by_plan(places(*spots[:count]), grid).names == found[:count]


def test_names_that_a_person_gave_stay_and_are_not_given_twice() -> None:
    given = places(LOWER_LEFT, UPPER_LEFT, (0.3, 1.2), named={1: "kitchen", 2: "bottom left room"})
    assert named_by_plan(given, floor_plan()).names == (
        "bottom left room (left)",
        "kitchen",
        "bottom left room",
    )


def test_rooms_of_one_side_get_letters_from_left_to_right() -> None:
    grid = floor_plan(((2.0, 0.0, 2.1, 5.6), (4.2, 0.0, 4.3, 5.6)))
    found = named_by_plan(places((2.8, 2.0), (1.0, 2.0), (6.0, 2.0)), grid)
    assert found.names == ("left room B", "left room A", "right room")


@pytest.mark.parametrize("grid", [floor_plan(()), floor_plan(((2.0, 2.0, 2.1, 3.0),))], ids=["one room", "a screen"])
def test_where_no_rooms_can_be_told_apart_places_keep_their_numbers(grid: OccupancyGrid) -> None:
    assert named_by_plan(places(LOWER_LEFT, UPPER_RIGHT), grid).names == ("place 1", "place 2")


def test_a_place_outside_of_all_rooms_keeps_its_number() -> None:
    assert named_by_plan(places(LOWER_LEFT, (-2.0, 1.0)), floor_plan()).names == ("bottom left room", "place 2")
    assert PlanNames(floor_plan()).name_at(np.array((-2.0, 1.0)), ()) is None


def test_names_are_unique_in_a_house_of_many_rooms() -> None:
    prob = np.tile(floor_plan().prob[195:340, 195:365], (3, 4))  # twelve times the same flat
    names = PlanNames(OccupancyGrid(prob, 0.05))
    found: list[str] = []
    for x in np.arange(0.3, prob.shape[1] * 0.05, 0.9):
        for y in np.arange(0.3, prob.shape[0] * 0.05, 0.9):
            found += [name] if (name := names.name_at(np.array([x, y]), found)) else []
    assert len(found) == len(set(found)) > 300
    assert len({name for name in found if "(" not in name}) >= 40  # rooms
