"""Compiled steps against the same written down plainly, one path and one number at a time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.forecasting.field_tables import SPEEDS_MPS, FieldTable
from svfm_ros.forecasting.likelihood import CLIP, NOT_YET, WalkBatch, filter_walks
from svfm_ros.forecasting.sampler_kernels import crossings, stride
from svfm_ros.forecasting.step_evidence import believe

DT = 0.4
KEEP, PAUSES = (0.6, 0.3), (0.2, 0.5)
FLOOR, STILL, STEADY, WIDEN = np.float32(2e-4), np.float32(0.02), np.float32(0.4), np.float32(1.3)


def table_of(seed: int, ends: float) -> FieldTable:
    """Two fields over 5 x 4 nodes."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(0.0, 1.0, (2 * 5 * 4, 10)).astype(np.float32)
    cells[:, 2:4] = np.abs(cells[:, 2:4]) * 0.2
    cells[:, 4:] += ends
    return FieldTable(cells, np.array([-1.0, -1.0], dtype=np.float32), 0.5, (2, 5, 4))


def rows_of(count: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    f = [rng.normal(0.0, 0.6, count).astype(np.float32) for _ in range(5)]
    pausing, ended = rng.random(count) < 0.3, rng.random(count) < 0.2
    return f[0], f[1], rng.integers(2, size=count), np.exp(f[2]), f[3], f[4], pausing, ended, np.zeros_like(f[0])


def plain_stride(table: FieldTable, row: tuple, fresh: bool, ramp: float, not_yet: float, normal, uniform) -> tuple:
    """One path; what it is after the step."""
    x, y, component, pace, eps_v, eps_u, pausing, ended, speed = row
    if ended:
        return row
    ax, ay, across_sd, along_sd = table.look_up(np.array([x]), np.array([y]), np.array([component]))[0, :4].tolist()
    length = math.sqrt(ax * ax + ay * ay + 1e-9)
    m = length * pace * DT * ramp
    sd_u, sd_v = (STEADY * math.sqrt((m * WIDEN * sd) ** 2 + FLOOR) for sd in (across_sd, along_sd))
    if not fresh:
        eps_v = KEEP[0] * np.clip(eps_v, -CLIP, CLIP) + math.sqrt(1 - KEEP[0] ** 2) * normal[0]
        eps_u = KEEP[1] * np.clip(eps_u, -CLIP, CLIP) + math.sqrt(1 - KEEP[1] ** 2) * normal[1]
    along, across = max(m + sd_v * eps_v, 0.0), sd_u * eps_u
    if pausing:
        along, across = STILL * normal[0], STILL * normal[1]
        eps_v, eps_u = (along - m) / sd_v, across / sd_u
    dx, dy = (along * ax - across * ay) / length, (along * ay + across * ax) / length
    x, y, speed = x + dx, y + dy, math.hypot(dx, dy) / DT
    there = table.look_up(np.array([x], np.float32), np.array([y], np.float32), np.array([component]))
    logit = float(table.end_logit(there, np.array([speed], np.float32))[0]) + not_yet
    ended = uniform[0] * (1.0 + math.exp(-logit)) < 1.0
    pausing = uniform[1] > PAUSES[1] if pausing else uniform[1] < PAUSES[0]
    return x, y, component, pace, eps_v, eps_u, pausing, ended, speed


@pytest.mark.parametrize("fresh", [True, False])
def test_a_step_is_what_the_rules_say(fresh: bool):
    rng, table = np.random.default_rng(3), table_of(1, ends=0.0)
    rows = rows_of(300, rng)
    normal, uniform = rng.standard_normal((2, 300), dtype=np.float32), rng.random((3, 300), dtype=np.float32)
    ramp, not_yet = np.float32(0.7), np.float32(NOT_YET if fresh else 0.0)
    expected = [
        plain_stride(table, tuple(r[s] for r in rows), fresh, ramp, not_yet, normal[:, s], uniform[:, s])
        for s in range(300)
    ]
    given_rows = tuple(r.copy() for r in rows)
    path = np.empty((1, 300, 2), dtype=np.float32)
    first = ([ramp], 0) if fresh else ([1.0, ramp, 1.0], 1)
    walk(table, *first, fresh, given_rows, normal[None], uniform[None], path)
    for got, want in zip(given_rows, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(got.astype(float), np.array(want, dtype=float), atol=2e-5)
    np.testing.assert_array_equal(path[0], np.stack(given_rows[:2], axis=1))
    assert (given_rows[7] & ~rows[7]).any() or fresh


def walk(table: FieldTable, ramp: list, step: int, not_yet: bool, rows: tuple, normal, uniform, path, ends=True) -> int:
    noise = tuple(np.float32(v) for v in (FLOOR, STILL, *KEEP, CLIP, WIDEN))
    ending = (ends, np.float32(NOT_YET if not_yet else 0.0))
    return stride(
        table.parts,
        SPEEDS_MPS,
        DT,
        np.array([ramp, np.full(len(ramp), STEADY)], np.float32),
        noise,
        PAUSES,
        ending,
        step,
        rows,
        normal,
        uniform,
        path,
    )


def many(seed: int, ends: float, ticks: int) -> tuple:
    rng, table = np.random.default_rng(seed), table_of(2, ends=ends)
    rows = (*rows_of(50, rng)[:7], np.zeros(50, dtype=np.bool_), np.zeros(50, dtype=np.float32))
    normal, uniform = (
        rng.standard_normal((ticks, 2, 50), dtype=np.float32),
        rng.random((ticks, 3, 50), dtype=np.float32),
    )
    return table, rows, normal, uniform, np.empty((ticks, 50, 2), dtype=np.float32)


def test_walks_without_ends_go_on_and_those_with_ends_stay_there():
    table, rows, normal, uniform, path = many(0, 50.0, 5)
    assert walk(table, [], 3, False, rows, normal, uniform, path, ends=False) == 5
    assert not rows[7].any()
    table, rows, normal, uniform, path = many(0, 50.0, 5)
    assert walk(table, [], 3, False, rows, normal, uniform, path) == 1
    assert rows[7].all()


def test_many_steps_at_once_are_the_same_steps_one_by_one():
    table, rows, normal, uniform, path = many(1, -1.0, 6)
    single = tuple(r.copy() for r in rows)
    steps = np.empty_like(path)
    walk(table, [0.5, 0.8], 0, True, rows, normal, uniform, path)
    for t in range(6):
        now = slice(t, t + 1)
        walk(table, [0.5, 0.8], t, True, single, normal[now], uniform[now], steps[now])
    np.testing.assert_array_equal(path, steps)
    assert 0 < rows[7].sum() < 50


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_crossings_are_those_of_all_looks_at_once(seed: int):
    rng = np.random.default_rng(seed)
    occupied = rng.random((7, 9)) < 0.15
    paths = rng.uniform(-2.0, 11.0, (20, 4, 2))
    looks = int(np.ceil(np.abs(np.diff(paths, axis=1)).max())) + 1
    crossed = np.zeros(20, dtype=np.bool_)
    crossings(occupied, paths, looks, crossed)
    share = (np.arange(looks) / looks)[:, None]
    points = paths[:, :-1, None] + share * np.diff(paths, axis=1)[:, :, None]
    column, row = np.moveaxis(np.floor(points).astype(int), -1, 0)
    inside = (row >= 0) & (row < 7) & (column >= 0) & (column < 9)
    hit = occupied[row.clip(0, 6), column.clip(0, 8)] & inside
    np.testing.assert_array_equal(crossed, hit.any((1, 2)))


def test_a_belief_of_those_who_change_their_minds_is_that_of_training():
    import torch

    from svfm_ros.forecasting.walk_model import WalkModel

    model = WalkModel(WalkModelConfig(components=3, switch_per_s=0.3), DT, seed=4)
    xy = np.cumsum(np.random.default_rng(1).normal(0.2, 0.1, (12, 2)), axis=0)
    batch = WalkBatch(
        torch.as_tensor(xy[None], dtype=torch.float32), torch.tensor([11]), torch.tensor([23.9]), torch.tensor([False])
    )
    with torch.no_grad():
        expected = filter_walks(model, batch)
    found = believe(model, xy, 23.9)
    np.testing.assert_allclose(found.probability, expected.belief[0].numpy(), atol=1e-4)  # theirs is single precision
    assert found.log_likelihood == pytest.approx(float(expected.log_likelihood[0]), rel=1e-5)
