"""A known field is found again; without walks a field leads straight to its destination."""

from dataclasses import replace

import numpy as np
import pytest

from svfm_ros.forecasting.fit.field_fit import fit_field, fit_hazards, hazard_events, pool_fields
from svfm_ros.forecasting.fit.walk_steps import Moves, WalkRows, first_shares, overlapping_moves
from svfm_ros.forecasting.floor_grid import FloorGrid

END = np.array([4.0, 2.0])


def moves_in(field, walks: int, seed: int = 0) -> Moves:  # type: ignore[no-untyped-def]
    """Moves of walks from left to right through a room of 4 by 4 metres."""
    rng = np.random.default_rng(seed)
    xy = np.column_stack([np.tile(np.arange(0.0, 4.0, 0.1), walks), np.repeat(rng.uniform(0.0, 4.0, walks), 40)])
    velocity = field(xy)
    return Moves(xy, velocity, np.full(len(xy), 0.1), np.repeat(np.arange(walks), 40))


def winding(xy):  # type: ignore[no-untyped-def]
    return np.column_stack([1.0 + 0.2 * xy[:, 1] / 4.0, 0.4 * np.sin(np.pi * xy[:, 0] / 2.0)])


def test_a_known_field_is_found_again() -> None:
    moves = moves_in(winding, 80)
    grid = FloorGrid.around(moves.xy, 1.0)
    table = fit_field(grid, moves, np.ones(len(moves.xy), dtype=bool), END, 1.0)
    inside = np.random.default_rng(1).uniform(0.5, 3.5, (200, 2))
    found = grid.look_up(inside, table)
    assert np.abs(found[:, :2] - winding(inside)).max() < 0.06
    # 80 walks over 4 m, each counting within about 0.3 m of its line
    assert found[:, 2].mean() == pytest.approx(80 / 4.0 * np.sqrt(2.0 * np.pi) * 0.3, rel=0.15)


def test_without_walks_it_leads_straight_to_the_destination() -> None:
    moves = moves_in(winding, 3)
    grid = FloorGrid.around(moves.xy, 1.0)
    table = fit_field(grid, moves, np.zeros(len(moves.xy), dtype=bool), END, 1.2)
    at = np.array([[0.0, 0.0], [4.0, 0.0], [1.0, 3.5]])
    found = grid.look_up(at, table)
    ahead = (END - at) / np.linalg.norm(END - at, axis=1, keepdims=True)
    assert found[:, :2] == pytest.approx(1.2 * ahead, abs=0.01)
    assert (found[:, 2] == 0.0).all()


def test_the_middle_of_the_walks_is_where_they_are() -> None:
    xy = np.column_stack([np.tile(np.arange(0.0, 4.0, 0.1), 6), np.repeat(np.linspace(0.9, 1.1, 6), 40)])
    moves = Moves(xy, np.tile([1.0, 0.0], (len(xy), 1)), np.full(len(xy), 0.1), np.repeat(np.arange(6), 40))
    grid = FloorGrid.around(xy, 1.0)
    table = fit_field(grid, moves, np.ones(len(xy), dtype=bool), END, 1.0)
    to_the_middle = grid.look_up(np.array([[2.0, 1.0], [2.0, 0.8], [2.0, 1.2]]), table)[:, 4]
    assert to_the_middle == pytest.approx([0.0, 0.2, -0.2], abs=0.03)


def test_fields_are_pooled_where_they_do_not_differ() -> None:
    """Both habits go east with some noise; beyond x = 2 m one of them goes north-east."""
    rng, tables, parts = np.random.default_rng(0), [], []
    for turn in (0.0, 1.0):
        xy = np.column_stack([np.tile(np.arange(0.0, 4.0, 0.1), 8), np.repeat(rng.uniform(1.8, 2.2, 8), 40)])
        velocity = np.column_stack([np.ones(len(xy)), turn * (xy[:, 0] > 2.0)])
        velocity += np.repeat(0.2 * rng.standard_normal((8, 2)), 40, axis=0)
        parts.append(Moves(xy, velocity, np.full(len(xy), 0.1), np.repeat(np.arange(8), 40)))
    columns = ("xy", "velocity", "length", "row")
    both = Moves(*(np.concatenate([getattr(p, name) for p in parts]) for name in columns))
    of = np.repeat([0, 1], 320)
    grid = FloorGrid.around(both.xy, 1.0)
    tables = [fit_field(grid, both, of == k, END, 1.0) for k in (0, 1)]
    pooled = pool_fields(grid, tables, both, of)
    shared, apart = np.array([[1.0, 2.0]]), np.array([[3.0, 2.0]])
    before, after = ([grid.look_up(shared, t)[0] for t in found] for found in (tables, pooled))
    assert np.abs(after[0][:2] - after[1][:2]).max() < 0.35 * np.abs(before[0][:2] - before[1][:2]).max()
    assert after[0][2] == pytest.approx(before[0][2] + before[1][2], rel=0.35)
    for k in (0, 1):
        assert grid.look_up(apart, pooled[k])[0, 1] == pytest.approx(grid.look_up(apart, tables[k])[0, 1], abs=0.05)


def test_off_its_own_ways_a_field_does_not_follow_the_others() -> None:
    """Two walks go east along y = 0, eight north along x = 2 m: off y = 0, the first field does not go north."""
    line = np.arange(0.0, 4.0, 0.1)
    east = np.column_stack([np.tile(line, 2), np.zeros(80)])
    north = np.column_stack([np.full(320, 2.0), np.tile(line, 8)])
    velocity = np.concatenate([np.tile([1.0, 0.0], (80, 1)), np.tile([0.0, 1.0], (320, 1))])
    moves = Moves(np.concatenate([east, north]), velocity, np.full(400, 0.1), np.repeat(np.arange(10), 40))
    of, grid = np.repeat([0, 1], [80, 320]), FloorGrid.around(moves.xy, 1.0)
    ends = np.array([[4.0, 0.0], [2.0, 4.0]])
    tables = [fit_field(grid, moves, of == k, ends[k], 1.0) for k in (0, 1)]
    strayed = np.array([[2.0, 3.0]])
    alone, pooled = (grid.look_up(strayed, t)[0] for t in (tables[0], pool_fields(grid, tables, moves, of)[0]))
    assert pooled[:2] == pytest.approx(alone[:2], abs=0.1)
    assert pooled[1] < 0.0 < pooled[0]  # on to its own destination


def rows_of(xy: "np.ndarray", count: int) -> WalkRows:  # type: ignore[type-arg]
    numbers, none = np.arange(count), np.zeros(count, dtype=np.int64)
    return WalkRows(
        0.4, np.zeros(2), (xy,) * count, (np.zeros(len(xy) - 1),) * count, none * 1.0, none, none, none,
        np.ones(count, dtype=bool), numbers, ("",) * count,
    )  # fmt: skip


def test_first_steps_count_with_the_speed_that_follows() -> None:
    """Everyone walks at 1 m/s after moves of a quarter and of half the usual length."""
    x = np.cumsum([0.0, 0.1, 0.2, *[0.4] * 12])
    rows = rows_of(np.column_stack([x, np.zeros(len(x))]), 3)
    ramp = first_shares(rows, 2, 0.06)
    assert ramp == pytest.approx([0.25, 0.5])
    moves = overlapping_moves(rows, ramp, 0.06)
    assert moves.velocity[:, 0] == pytest.approx(np.ones(len(moves.xy)))
    assert moves.xy[:, 0].min() == 0.0


def test_hazards_are_where_it_happened() -> None:
    """Everyone pauses halfway for four steps and ends at 4 m."""
    x = np.concatenate([np.arange(0.0, 2.01, 0.4), np.full(4, 2.0), np.arange(2.4, 4.01, 0.4)])
    xy, count = np.column_stack([x, np.zeros(len(x))]), 20
    rows = rows_of(xy, count)
    grid = FloorGrid.around(xy, 1.5)
    table = fit_hazards(grid, rows, np.ones(count, dtype=bool), 0.06, np.array([0.01, 0.3, 0.05, 0.1]))
    stop, go, end, _ = grid.look_up(np.array([[2.0, 0.0], [0.8, 0.0], [4.0, 0.0]]), table).T
    assert stop[0] > 0.4  # smoothing takes a part of it
    assert go[0] == pytest.approx(0.25, abs=0.05)
    assert stop[1:].max() < 0.02
    assert end[2] > 0.4
    assert end[:2].max() < 0.02


def test_noise_of_people_who_stand_in_a_scene_is_no_going_on() -> None:
    """Two seconds at one position with a jump of 8 cm in between, then away: one stop and one going on."""
    stay = np.array([[1.0, 0.0], [1.01, 0.0], [1.02, 0.0], [1.1, 0.0], [1.02, 0.0], [1.03, 0.0]])
    xy = np.concatenate([[[0.0, 0.0], [0.5, 0.0]], stay, [[1.5, 0.0], [2.0, 0.0], [2.5, 0.0]]])
    rows = rows_of(xy, 1)
    for scene, changes in ((False, 2), (True, 1)):
        _, event, risk = hazard_events(replace(rows, passers_by=scene), np.ones(1, dtype=bool), 0.06)
        assert (event & risk)[:, :2].sum(0).tolist() == [changes, changes]
