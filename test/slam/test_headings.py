"""Headings at which two maps can match, from the directions that their walls face."""

import numpy as np
import pytest

from svfm_ros import geometry
from svfm_ros.slam.loops.headings import HeadingRange, facing_histogram, likely_headings

RNG = np.random.default_rng(0)


def normals_of(*directions_rad: float, each: int = 100) -> np.ndarray:
    angles = np.concatenate([d + RNG.normal(0.0, 0.03, each) for d in directions_rad])
    return np.column_stack([np.cos(angles), np.sin(angles)])


def contains(ranges: list[HeadingRange], heading_rad: float) -> bool:
    return any(abs(geometry.wrap_angle(np.array(heading_rad - r.centre_rad))) <= r.half_rad for r in ranges)


@pytest.mark.parametrize("heading_rad", [-3.1, -1.0, 0.0, 0.4, 3.14])
def test_a_room_turned_by_some_angle_is_searched_at_it_and_at_right_angles_to_it(heading_rad: float) -> None:
    walls = np.array([0.1, 0.1 + np.pi / 2, 0.1 + np.pi, 0.1 - np.pi / 2])
    found = likely_headings(facing_histogram(normals_of(*walls)), facing_histogram(normals_of(*(walls + heading_rad))))
    assert len(found) == 4
    assert all(contains(found, heading_rad + k * np.pi / 2) for k in range(4))
    assert sum(r.half_rad for r in found) < np.pi / 4  # most headings need no search


def test_a_query_that_sees_other_walls_than_most_of_the_map_is_searched_at_its_heading() -> None:
    along, across = (0.0, np.pi), (np.pi / 2, -np.pi / 2)
    source = facing_histogram(np.concatenate([normals_of(*along, each=100), normals_of(*across, each=20)]))
    target = facing_histogram(np.concatenate([normals_of(*along, each=20), normals_of(*across, each=100)]))
    assert contains(likely_headings(source, target), 0.0)


def test_without_straight_walls_every_heading_is_searched() -> None:
    round_about = facing_histogram(normals_of(*np.linspace(-np.pi, np.pi, 400, endpoint=False), each=2))
    assert likely_headings(round_about, round_about) == [HeadingRange(0.0, float(np.pi))]


def test_nothing_to_see_is_searched_at_every_heading() -> None:
    nothing = facing_histogram(np.empty((0, 2)))
    assert likely_headings(nothing, nothing) == [HeadingRange(0.0, float(np.pi))]
