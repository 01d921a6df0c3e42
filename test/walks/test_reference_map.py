"""Lines of sight, and the map that they draw: what hides what, worked out by hand."""

import numpy as np

from svfm_ros.types import Walk
from svfm_ros.walks.reference_map import FREE, UNKNOWN, WALL, ReferenceMap, sightlines


def test_a_wall_hides_what_is_behind_it_also_in_its_gaps() -> None:
    y = np.arange(-1.0, 1.001, 0.05)
    wall, behind = np.column_stack([np.full(len(y), 2.0), y]), np.array([[4.0, 0.0], [5.0, 0.3], [6.0, -0.5]])
    aside = np.column_stack([y, np.full(len(y), -3.0)])
    stamps = np.array([0, 10**9])
    starts, ends = sightlines(Walk("w", "ann", stamps, np.zeros((2, 3)), np.concatenate([wall, behind, aside])))
    np.testing.assert_array_equal(starts, np.zeros((len(ends), 2)))
    assert (np.isclose(ends[:, 0], 2.0) | np.isclose(ends[:, 1], -3.0)).all()
    assert np.isclose(ends[:, 0], 2.0).sum() > 15
    assert np.isclose(ends[:, 1], -3.0).sum() > 10


def test_floor_between_the_path_and_the_walls_is_free_and_what_lies_behind_them_is_unknown() -> None:
    x = np.arange(-1.0, 5.001, 0.05)
    walls = np.concatenate([np.column_stack([x, np.full(len(x), side)]) for side in (-1.0, 1.0)])
    path = np.column_stack([np.linspace(0.0, 4.0, 41), np.zeros((41, 2))])
    house = ReferenceMap.from_walk(Walk("w", "ann", np.arange(41) * 10**8, path, walls))
    wanted = {
        (2.0, 0.0): FREE,
        (2.0, 0.6): FREE,
        (0.3, -0.6): FREE,
        (2.0, 1.01): WALL,
        (2.0, 1.5): UNKNOWN,
        (2.0, 9.0): UNKNOWN,
    }
    assert house.classes(np.array(list(wanted))).tolist() == list(wanted.values())
    starts, ends = np.array([[2.0, 0.0], [2.0, 0.0]]), np.array([[2.0, 1.6], [2.0, 1.0]])
    assert house.crossed(starts, ends).tolist() == [True, False]  # a line may end in the wall that it saw


def test_a_line_of_sight_is_free_wherever_the_origin_lies_on_it() -> None:
    wall = np.column_stack([np.full(5, 1.0), np.linspace(-0.1, 0.1, 5)])
    path = np.array([[-1.0, 0.0, 0.0], [-0.99, 0.0, 0.0]])
    house = ReferenceMap.from_walk(Walk("w", "ann", np.array([0, 10**9]), path, wall))
    assert house.classes(np.column_stack([np.arange(-0.8, 0.8, 0.05), np.full(32, 0.01)])).tolist() == [FREE] * 32
