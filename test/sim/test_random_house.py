"""Every seed gives a house that can be lived in, and hardly any two are alike."""

import numpy as np
import pytest
from rooms import drawing

from svfm_ros.config.sim_config import WalkerConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.sim.house import House, Solid, load_house
from svfm_ros.sim.house_drawing import parse_drawing
from svfm_ros.sim.random_house import _draw, all_places_connected, random_house
from svfm_ros.sim.walker import route_book, simulate_protocol

SEEDS = range(50)


@pytest.fixture(scope="module")
def houses() -> list[House]:
    return [random_house(seed) for seed in SEEDS]


def lintels(house: House) -> list[Solid]:
    """Walls above the doors: they cover each doorway exactly."""
    return [s for s in house.solids if s.kind == "lintel"]


def overlap(a: Solid, b: Solid) -> bool:
    (ax0, ay0), (ax1, ay1) = a.outline.min(axis=0), a.outline.max(axis=0)
    (bx0, by0), (bx1, by1) = b.outline.min(axis=0), b.outline.max(axis=0)
    return bool(ax0 < bx1 and bx0 < ax1 and ay0 < by1 and by0 < ay1)


def test_a_body_reaches_every_place(houses: list[House]) -> None:
    assert all(all_places_connected(h, WalkerConfig().body_radius_m + 0.05) for h in houses)


def test_connection_is_checked() -> None:
    assert all_places_connected(parse_drawing(drawing()), 0.25)
    assert not all_places_connected(parse_drawing(drawing(doors=[])), 0.25)
    assert not all_places_connected(parse_drawing(drawing()), 0.55)  # the door is 1 m wide


def test_no_furniture_stands_in_a_doorway(houses: list[House]) -> None:
    for house in houses:
        furniture = [s for s in house.solids if s.kind == "furniture"]
        assert len(furniture) >= 4
        assert not any(overlap(door, piece) for door in lintels(house) for piece in furniture)


def test_sizes_rooms_doors_and_places_are_those_of_homes(houses: list[House]) -> None:
    for seed, house in zip(SEEDS, houses, strict=True):
        x0, y0, x1, y1 = house.bounds()
        assert 5.0 <= x1 - x0 <= 16.5
        assert 5.0 <= y1 - y0 <= 11.0
        assert 4 <= len(house.places) <= 8
        assert {"couch", "kitchen", "front_door"} <= set(house.places.names)
        doors = _draw(seed)[0]["doors"]
        widths = [np.hypot(*(np.array(d["to"]) - d["from"])) for d in doors]
        assert all(0.8 - 1e-9 <= w <= 1.0 + 1e-9 for w in widths)
        assert 3 <= len(doors) <= 8  # at least one for each room but the first, and the front door


def test_front_doors_are_narrow_only_in_short_walls() -> None:
    """0.9 m; 0.8 m where the hall is narrower than 1.3 m."""
    fronts = [d for s in range(30) for d in _draw(s)[0]["doors"] if d["name"].startswith("front_door")]
    widths = [round(float(np.hypot(*(np.array(d["to"]) - d["from"]))), 2) for d in fronts]
    assert set(widths) == {0.8, 0.9}
    assert widths.count(0.9) > 3 * widths.count(0.8)


def test_houses_differ(houses: list[House]) -> None:
    assert len({h.bounds() for h in houses}) >= 49
    assert len({h.places.names for h in houses}) >= 10
    assert np.ptp([len(h.places) for h in houses]) >= 3


def test_the_same_seed_gives_the_same_house(houses: list[House]) -> None:
    assert _draw(7)[0] == _draw(7)[0]
    again = load_house("random:7")
    assert again.name == houses[7].name == "random-7"
    assert again.places == houses[7].places


@pytest.mark.parametrize("seed", [3, 11])
def test_walks_from_the_couch_go_everywhere(houses: list[House], seed: int) -> None:
    walks = simulate_protocol(houses[seed], repeats=2, book=route_book(houses[seed]))
    assert {w.destination for w in walks} == set(houses[seed].places.names) - {"couch"}


def test_seeds_are_numbers() -> None:
    for bad in ("random:", "random:x", "random:-1"):
        with pytest.raises(UsageError, match="whole number after random:"):
            load_house(bad)
    with pytest.raises(DataError, match="at least 0"):
        random_house(-1)
