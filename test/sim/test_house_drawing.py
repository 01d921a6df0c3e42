"""Drawings: what they become, and what is said about those that make no sense."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from rooms import drawing

from svfm_ros.errors import DataError, UsageError
from svfm_ros.sim.house import House, clearance_grid, contains, distance_to_segments, load_house
from svfm_ros.sim.house_drawing import parse_drawing


def test_the_paper_s_places_are_in_both_houses(any_house: House) -> None:
    assert set(any_house.places.names) == {"couch", "front_door", "kitchen", "landing", "study"}


def test_places_do_not_overlap(any_house: House) -> None:
    for a in any_house.places:
        for b in any_house.places:
            assert a is b or np.hypot(*(a.xy - b.xy)) > a.radius_m + b.radius_m


def test_a_door_is_a_gap_as_wide_as_drawn() -> None:
    house = parse_drawing(drawing(doors=[{"name": "middle", "from": [4, 1.5], "to": [4, 2.5]}]))
    segments = np.concatenate([s.segments() for s in house.obstacles()])
    assert distance_to_segments(np.array([[4.0, 2.0]]), segments)[0] == pytest.approx(0.5)
    lintel = next(s for s in house.solids if s.kind == "lintel")
    assert (lintel.bottom_m, lintel.top_m) == (2.0, 2.4)


def test_a_leaf_hinges_at_from_and_opens_counter_clockwise() -> None:
    house = parse_drawing(drawing())
    leaf = next(s for s in house.solids if s.kind == "door")
    # from (4, 1.5) to (4, 2.5), turned by 90 degrees: towards negative x
    tip = leaf.outline.mean(axis=0) * 2 - np.array([4.0, 1.5])
    assert tip == pytest.approx([3.0, 1.5])


def test_walls_close_their_corners() -> None:
    house = parse_drawing(drawing())
    corner = np.array([[-0.049, -0.049], [8.049, 4.049]])
    walls = [s for s in house.solids if s.kind == "wall"]
    assert all(any(contains(w.outline, p[None])[0] for w in walls) for p in corner)


def test_low_furniture_is_in_the_way_but_not_seen_at_chest_height() -> None:
    house = parse_drawing(drawing())
    assert "table" in {s.name for s in house.obstacles()}
    assert "table" not in {s.name for s in house.at_height(1.2)}
    assert "table" in {s.name for s in house.at_height(0.5)}


def test_clearance_is_the_distance_to_the_nearest_thing() -> None:
    house = parse_drawing(drawing(furniture=[], doors=[]))
    grid = clearance_grid(house)
    points = np.array([[2.0, 2.0], [0.4, 2.0], [2.0, 3.8], [2.0, -0.5], [4.0, 2.0]])
    assert grid.at(points) == pytest.approx([1.95, 0.35, 0.15, 0.0, 0.0], abs=0.02)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rooms": []}, "got 'rooms'"),
        ({"walls": None}, "at least one wall"),
        ({"walls": [[[0, 0]]]}, "at least two corners"),
        ({"walls": [[[0, 0], [0, 0]]]}, "same corner twice"),
        ({"walls": [[[0, 0], [1, "x"]]]}, "expected a number, got 'x'"),
        ({"walls": [[[0, 0], [1, float("nan")]]]}, "expected a number, got nan"),
        ({"walls": "all around"}, "expected a list, got str"),
        ({"wall_thickness": 0}, "number above 0"),
        ({"doors": [{"name": "odd", "from": [1, 1], "to": [1, 2]}]}, "door 'odd': expected both ends on one wall"),
        ({"doors": [{"name": "thin", "from": [4, 1], "to": [4, 1.05]}]}, "at least 0.1 m wide"),
        ({"doors": [{"name": "odd", "from": [4, 1]}]}, "expected 'to', but it is missing"),
        ({"furniture": [{"name": "chair", "height": 1}]}, "expected one of box, circle, polygon, got none"),
        ({"furniture": [{"name": "chair", "box": [2, 0, 1, 1], "height": 1}]}, "x0 < x1"),
        ({"furniture": [{"name": "chair", "circle": [2, 2, -1], "height": 1}]}, "number above 0"),
        ({"furniture": [{"name": "chair", "polygon": [[0, 0], [1, 1]], "height": 1}]}, "at least 3 corners"),
        ({"furniture": [{"name": "lamp", "circle": [2, 2, 1], "height": 1, "from_height": 2}]}, "from_height < height"),
        ({"furniture": ["chair"]}, "expected name, height by name, got str"),
        ({"places": drawing()["places"][:1]}, "at least two places"),
        ({"places": drawing()["places"][:1] * 2}, "'couch' 2 times"),
        ({"places": [{**drawing()["places"][0], "x": 2.0, "y": 1.0}, drawing()["places"][1]]}, "furniture 'table'"),
        ({"places": [{**drawing()["places"][0], "colour": "red"}, drawing()["places"][1]]}, '"#rrggbb"'),
    ],
)
def test_a_wrong_drawing_is_refused_in_one_sentence(changes: dict, words: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_drawing(drawing(**changes), "cabin.yaml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("cabin.yaml: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_no_drawing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "house.yaml"
    with pytest.raises(DataError, match="cannot read"):
        load_house(path)
    path.write_text("walls: [[")
    with pytest.raises(DataError, match="is not the drawing of a house in YAML") as caught:
        load_house(path)
    assert "\n" not in str(caught.value)
    path.write_text("")
    with pytest.raises(DataError, match="got nothing"):
        load_house(path)
    with pytest.raises(UsageError, match="castle"):
        load_house("castle")


def test_a_drawing_of_one_s_own_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "cabin.yaml"
    path.write_text(yaml.safe_dump(drawing()))
    house = load_house(str(path))
    assert house.name == "cabin"
    assert house.bounds() == pytest.approx((-0.05, -0.05, 8.05, 4.05))
