"""Rays in rooms whose distances are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import box, cast_level, distance_in_square, square_house

from svfm_ros.sim.house import House, Solid
from svfm_ros.sim.sensors.raycast import RayCaster

inside = st.floats(-2.99, 2.99)
angle = st.floats(-7.0, 7.0)
SQUARE = RayCaster.of_house(square_house(3.0))


@given(x=inside, y=inside, azimuth=angle)
def test_square_room(x: float, y: float, azimuth: float) -> None:
    origin, azimuths = np.array([[x, y]]), np.array([azimuth])
    hit = cast_level(SQUARE, origin, azimuths, 1.2)
    assert hit.distance_m[0] == pytest.approx(distance_in_square(3.0, origin, azimuths)[0], abs=1e-9)


CORNERS = 720
TURN = np.arange(CORNERS) * 2.0 * np.pi / CORNERS
ROUND = RayCaster([Solid("round", "wall", 5.0 * np.stack([np.cos(TURN), np.sin(TURN)], axis=1), 0.0, 2.4)])


@given(azimuth=angle)
def test_round_room(azimuth: float) -> None:
    hit = cast_level(ROUND, np.zeros((1, 2)), np.array([azimuth]), 1.0)
    # A polygon lies between its inner and its outer circle.
    assert 5.0 * np.cos(np.pi / CORNERS) - 1e-9 <= hit.distance_m[0] <= 5.0 + 1e-9
    assert hit.sine[0] >= np.cos(np.pi / CORNERS) - 1e-9


def brute_force(house: House, origin: np.ndarray, azimuth: float, z: float) -> float:
    """The nearest crossing with any edge at that height, one edge after the other."""
    best = np.inf
    d = np.array([np.cos(azimuth), np.sin(azimuth)])
    for x0, y0, x1, y1 in np.concatenate([s.segments() for s in house.at_height(z)]):
        matrix = np.array([[d[0], x0 - x1], [d[1], y0 - y1]])
        if abs(np.linalg.det(matrix)) > 1e-12:
            t, u = np.linalg.solve(matrix, np.array([x0, y0]) - origin)
            if t >= 0.0 and -1e-12 <= u <= 1.0 + 1e-12:
                best = min(best, t)
    return best


def test_the_grid_finds_what_looking_at_everything_finds(any_house: House) -> None:
    rng = np.random.default_rng(5)
    x0, y0, x1, y1 = any_house.bounds()
    origins = rng.uniform([x0 - 1, y0 - 1], [x1 + 1, y1 + 1], size=(150, 2))  # within things and outside as well
    azimuths = rng.uniform(-np.pi, np.pi, size=150)
    hits = cast_level(RayCaster.of_house(any_house), origins, azimuths, 1.2)
    expected = [brute_force(any_house, o, a, 1.2) for o, a in zip(origins, azimuths, strict=True)]
    assert hits.distance_m == pytest.approx(expected, abs=1e-7)


@settings(max_examples=50)
@given(x=inside, y=inside, quarter=st.integers(0, 3))
def test_rays_along_the_axes(x: float, y: float, quarter: int) -> None:
    hit = cast_level(SQUARE, np.array([[x, y]]), np.array([quarter * np.pi / 2]), 1.2)
    assert hit.distance_m[0] == pytest.approx([3 - x, 3 - y, 3 + x, 3 + y][quarter], abs=1e-9)
    assert hit.sine[0] == pytest.approx(1.0)


def one(caster: RayCaster, z: float, slope: float, x: float = 0.0, longest: float = 100.0) -> float:
    """Straight along x."""
    hits = caster.cast(np.array([[x, 0.0]]), np.zeros(1), np.array([z]), np.array([slope]), longest)
    return float(hits.distance_m[0])


def test_floor_and_ceiling_end_beams_that_leave_the_level() -> None:
    hall = RayCaster.of_house(square_house(20.0))
    assert one(hall, 1.2, -0.1) == pytest.approx(12.0)
    assert one(hall, 1.2, +0.1) == pytest.approx(12.0)
    assert one(hall, 1.2, -0.05) == pytest.approx(20.0)  # the wall comes first
    assert one(hall, 1.2, -0.05, longest=15.0) == np.inf


def test_heights_decide_what_is_met() -> None:
    table, cupboard, wall = box(2, -1, 3, 1, top=0.75), box(4, -1, 5, 1, 1.4, 2.1), box(8, -9, 9, 9)
    caster = RayCaster([table, cupboard, wall], 2.4)
    assert one(caster, 0.5, 0.0) == pytest.approx(2.0)
    assert one(caster, 1.2, 0.0) == pytest.approx(8.0)  # over the table, below the cupboard
    assert one(caster, 1.5, 0.0) == pytest.approx(4.0)
    assert one(caster, 1.2, 0.1) == pytest.approx(4.0)  # 1.6 m up at the cupboard
    assert one(caster, 1.2, 0.05) == pytest.approx(4.0)  # 1.4 m: just meets its lower edge
    assert one(caster, 1.2, 0.042) == pytest.approx(0.2 / 0.042)  # meets the underside further in
    assert one(caster, 1.2, -0.2) == pytest.approx(2.25)  # sinks onto the table's top
    assert one(caster, 1.2, -0.1) == pytest.approx(8.0)
    assert one(caster, 1.2, -1.0, x=2.5) == pytest.approx(0.45)  # from above the table
    assert one(caster, 2.2, -0.1) == pytest.approx(4.0)  # 1.8 m up at the cupboard: its side
    assert one(caster, 2.3, -0.045) == pytest.approx(0.2 / 0.045)  # just over its edge, onto its top


def test_from_outside_and_from_far() -> None:
    caster = RayCaster([box(0, -1, 1, 1)])
    assert one(caster, 1.0, 0.0, x=-30.0) == pytest.approx(30.0)
    assert one(caster, 1.0, 0.0, x=5.0) == np.inf


def test_grazing_angles_are_told() -> None:
    hits = cast_level(SQUARE, np.zeros((2, 2)), np.array([0.0, np.arctan2(0.9, 1.0)]), 1.2)
    assert hits.sine == pytest.approx([1.0, np.cos(np.arctan2(0.9, 1.0))])


def test_the_turn_of_an_outline_does_not_matter() -> None:
    there = box(2, -1, 3, 1, top=0.75)
    back = Solid("box", "wall", there.outline[::-1], 0.0, 0.75)
    for slope in (-0.2, -0.3, -0.5, 0.0):
        assert one(RayCaster([there]), 1.2, slope) == one(RayCaster([back]), 1.2, slope)
