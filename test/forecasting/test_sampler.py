"""One density, one sampler: sampled moves are distributed as the likelihood says; paths end where walks do."""

import math
from dataclasses import replace

import numba
import numpy as np
import pytest
from two_destinations import KITCHEN, MONDAY_NS, PLACES, STUDY, model_file, walks

from svfm_ros.clock import days_of
from svfm_ros.forecasting.field_step import KEPT
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.forward import (
    ENDED,
    GOES_ON,
    HAZARDS,
    field_log_densities,
    forward,
    still_log_densities,
    taken_up,
)
from svfm_ros.forecasting.free_walker import FREE_COLUMNS, TICK_S, free_log_densities
from svfm_ros.forecasting.posterior import filter_walk, on_ticks, start_probabilities, walk_log_density
from svfm_ros.forecasting.sampler import draw_evenly, fresh_walkers, sample_walks

HOUR, DAY = 10.5, int(days_of([MONDAY_NS], "UTC")[0])
SAMPLES, POINTS = 100_000, 10_000


@pytest.fixture(scope="module")
def model():  # type: ignore[no-untyped-def]
    """All hidden changes are likely enough to be seen, and nobody who arrived sets off again."""
    model = model_file().model
    switches = replace(model.switches, leave=0.05, join=0.1, slip=0.1)
    tables = model.tables.copy()
    tables[..., HAZARDS] = 0.1  # of stopping
    return replace(model, switches=switches, tables=tables, set_off=np.zeros(model.components))


@pytest.fixture(scope="module")
def seen():  # type: ignore[no-untyped-def]
    """Positions seen before the sampled move, by the state that they lead to."""
    straight, _ = on_ticks(walks(2, seed=5)[0], 0.4)
    standing = np.concatenate([straight[:5], straight[4] + 0.01 * np.random.default_rng(0).standard_normal((4, 2))])
    off = straight[0] + np.cumsum(np.tile([-0.05, -0.45], (7, 1)), axis=0)
    waits = np.concatenate([off, off[-1] + 0.01 * np.random.default_rng(1).standard_normal((4, 2))])
    states = {"start": straight[:1], "under way": straight[:6], "standing": standing}
    return {**states, "free": off, "free, standing": waits}


def walkers_after(model, xy, count, rng):  # type: ignore[no-untyped-def]
    """Walkers whose hidden state is drawn from what the positions seen say."""
    here = np.tile(xy[-1] - model.origin, (count, 1))
    if len(xy) > 1:
        return filter_walk(model, xy, np.zeros(len(xy)), HOUR, DAY, ended=False).draw(here, rng)
    return fresh_walkers(here, start_probabilities(model, xy[-1], HOUR, DAY), rng)


def density(model, xy, moved):  # type: ignore[no-untyped-def]
    """Density of the next position: whether the walk ends there or not is summed over."""
    whole, still = np.vstack([xy, moved]), np.zeros(len(xy) + 1)
    return sum(np.exp(filter_walk(model, whole, still, HOUR, DAY, ended).log_each[-1]) for ended in (False, True))


def proposed(near, count, rng):  # type: ignore[no-untyped-def]
    """Points (N, 2) around some positions (M, 2), from near to far, and their density (N,)."""
    parts = [(c, s) for c in near for s in (0.004, 0.01, 0.04, 0.15, 1.0)]
    which = rng.integers(len(parts), size=count)
    centre, scale = np.array([c for c, _ in parts]), np.array([s for _, s in parts])
    radius = np.sqrt(rng.random(count) ** (-1.0) - 1.0)  # a two-dimensional Student-t with two degrees of freedom
    angle = rng.uniform(0.0, 2.0 * np.pi, count)
    at = centre[which] + (scale[which] * radius)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    squared = ((at[:, None] - centre) ** 2).sum(-1) / scale**2
    return at, (1.0 / (np.pi * scale**2 * (1.0 + squared) ** 2)).mean(1)


@pytest.mark.parametrize("state", ["start", "under way", "standing", "free", "free, standing"])
def test_sampled_moves_are_distributed_as_the_density_says(model, seen, state: str) -> None:  # type: ignore[no-untyped-def]
    rng, xy = np.random.default_rng(1), seen[state]
    drawn = sample_walks(model, walkers_after(model, xy, SAMPLES, rng), HOUR, DAY, 1, 0, rng).xy[:, 1] + model.origin
    at, q = proposed(drawn[:200], POINTS, rng)  # any proposal will do; these points waste the fewest
    weight = np.array([density(model, xy, p) for p in at]) / q
    error = weight.std() / np.sqrt(POINTS)
    assert error < 0.03
    assert abs(weight.mean() - 1.0) < 4.0 * error  # the density integrates to one
    for axis in ([1.0, 0.0], [0.0, 1.0], [0.6, 0.8]):
        ours, theirs = drawn @ axis, at @ np.array(axis)
        for level in (0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99):
            below = weight * (theirs <= np.quantile(ours, level))
            tolerance = 4.5 * np.hypot(below.std() / np.sqrt(POINTS), np.sqrt(level * (1.0 - level) / SAMPLES))
            assert below.mean() == pytest.approx(level, abs=tolerance)


@numba.njit  # not cached: it would keep what it calls as it was
def log_densities(
    xy, count, ended, tables, grid, numbers, gains, slow_starts, dt_s, lengths, parts, set_off, switches, gate
):  # type: ignore[no-untyped-def]
    """``walk_log_density`` of many walks (N, T + 1, 2), of which the first ``count`` (N,) moves count, in one loop.

    ``gate`` (N, T + 1, K) are the habits' shares where each field is taken up, and ``gate[:, :, K]`` who walks freely.
    """
    rows, k = len(xy), len(tables)
    ramp, steady = slow_starts
    stand_m, still_m = lengths
    out = np.empty(rows)
    for n in range(rows):
        m = count[n]
        here, still = xy[n, : m + 1], np.zeros(m)
        log_move, hazards, support = np.empty((m, k)), np.empty((m, k, 4)), np.empty((m + 1, k))
        filters, log_still, free_moves = np.zeros((k, KEPT)), np.empty(m), np.empty((m, FREE_COLUMNS))
        field_log_densities(
            here, still, tables, grid, numbers, gains, ramp, steady, dt_s, stand_m, log_move, hazards, support, filters
        )
        free_log_densities(here, still, parts, dt_s / TICK_S, free_moves)
        still_log_densities(here, still, still_m, log_still)
        stood = np.zeros(m, dtype=np.bool_)
        for i in range(1, m):
            stood[i] = math.hypot(here[i + 1, 0] - here[i, 0], here[i + 1, 1] - here[i, 1]) < stand_m
        state, each, free = np.zeros(2 + 2 * k), np.empty(m), np.empty(m)
        taken = gate[n, : m + 1, :k] * taken_up(support)
        state[1 : 1 + k] = (1.0 - gate[n, 0, k]) * taken[0]
        state[0] = 1.0 - state.sum()
        knows = ENDED if ended[n] else GOES_ON
        forward(state, log_move, log_still, free_moves, set_off, hazards, stood, switches, taken[1:], knows, each, free)
        out[n] = each.sum()
    return out


def gates(model, paths):  # type: ignore[no-untyped-def]
    """What the habits say at paths (N, T + 1, 2): shares of K fields, and of who walks freely (N, T + 1, K + 1)."""
    shares, free = model.habits.at(paths.reshape(-1, 2), HOUR, DAY)
    return np.column_stack([shares, free]).reshape(*paths.shape[:2], -1)


def path_log_densities(model, paths, count, ended, gate):  # type: ignore[no-untyped-def]
    """Log densities (N,) of paths (N, T + 1, 2) relative to the model's origin."""
    g = model.grid
    return log_densities(
        np.ascontiguousarray(paths), count, ended, model.tables, (g.low_x, g.low_y, g.cell_m), model.steps.packed,
        model.steps.gains.parts, (model.ramp, model.steady), model.dt_s, (model.stand_m, model.still_m),
        model.free.parts, model.free.sets_off(model.dt_s), model.switches.packed, gate,
    )  # fmt: skip


def changed_models(model):  # type: ignore[no-untyped-def]
    """The model with one number changed, for some of its numbers."""
    for name, factor in (("pace_var", 0.6), ("keep_pace", 0.6), ("restore", 0.6), ("nu", 1.5)):
        yield name, replace(model, steps=replace(model.steps, **{name: factor * getattr(model.steps, name)}))
    for name in ("leave", "slip"):
        yield name, replace(model, switches=replace(model.switches, **{name: 0.6 * getattr(model.switches, name)}))


@pytest.mark.parametrize("state", ["start", "under way", "standing", "free", "free, standing"])
def test_five_sampled_steps_have_the_density_of_the_likelihood(model, seen, state: str) -> None:  # type: ignore[no-untyped-def]
    """The mean of q / p over paths drawn from p is one for every density q; here q is a model with one other number."""
    rng, past, ticks = np.random.default_rng(2), seen[state], 5
    model = replace(model, switches=replace(model.switches, join=1e-6))
    found = sample_walks(model, walkers_after(model, past, SAMPLES, rng), HOUR, DAY, ticks, 0, rng)
    arrived = (found.xy[:, 1:] == found.end_xy[:, None]).all(2)
    last = np.where(found.ended, np.argmax(arrived, axis=1) + 1, ticks)
    before = np.tile(past[:-1] - model.origin, (SAMPLES, 1, 1))
    paths, count = np.concatenate([before, found.xy], axis=1), len(past) - 1 + last
    gate = gates(model, paths)
    ours = path_log_densities(model, paths, count, found.ended, gate)
    for n in range(20):
        whole = paths[n, : count[n] + 1] + model.origin
        expected = walk_log_density(model, whole, np.zeros(len(whole)), HOUR, DAY, bool(found.ended[n]))
        assert ours[n] == pytest.approx(expected, abs=1e-9)
    for name, other in changed_models(model):
        now = 0.0
        if len(past) > 1:  # what was seen already does not count
            now = float(np.subtract(*(seen_log_density(m, past) for m in (other, model))))
        ratio = np.exp(path_log_densities(other, paths, count, found.ended, gate) - ours - now)
        assert abs(ratio.mean() - 1.0) < 4.5 * ratio.std() / np.sqrt(SAMPLES), name
        assert name == "slip" or state.startswith("free") or ratio.std() > 0.005, name  # the two differ


def seen_log_density(model, xy) -> float:  # type: ignore[no-untyped-def]
    """Log density of what was seen of a walk that goes on."""
    return walk_log_density(model, xy, np.zeros(len(xy)), HOUR, DAY, ended=False)


@pytest.mark.parametrize("seed", range(5))
def test_shares_of_few_paths_are_those_of_the_probabilities(seed: int) -> None:
    p = np.array([0.1, 0.33, 0.0, 0.57])
    index = draw_evenly(p, 20, np.random.default_rng(seed))
    assert (np.abs(np.bincount(index, minlength=4) - 20 * p) < 1.0).all()
    first = np.array([draw_evenly(p, 20, np.random.default_rng(s))[0] for s in range(2000)])
    assert np.bincount(first, minlength=4) / 2000 == pytest.approx(p, abs=0.04)  # none is drawn first more often


@pytest.fixture(scope="module")
def forecast():  # type: ignore[no-untyped-def]
    return Forecaster(model_file(), PLACES).forecast((0.0, 0.0), MONDAY_NS, horizon_s=12.0, samples=1000)


def test_nobody_pauses_where_nobody_paused(forecast) -> None:  # type: ignore[no-untyped-def]
    xy = forecast.samples_xy
    short = np.hypot(*np.diff(xy, axis=1)[:, 2:].transpose(2, 0, 1)) < 0.06
    ends = np.array([KITCHEN, STUDY])
    away = np.linalg.norm(xy[:, 2:-1, None] - ends, axis=-1).min(-1) > 1.5
    familiar = forecast.component >= 0
    assert short[familiar][away[familiar]].mean() < 0.04


def test_paths_end_near_the_destinations(forecast) -> None:  # type: ignore[no-untyped-def]
    assert forecast.shares["elsewhere"] < 0.15
    assert forecast.shares["kitchen"] == pytest.approx(0.5, abs=0.15)
    assert forecast.shares["study"] == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("rate", [0.0, 0.05])
def test_who_arrived_stays_and_may_set_off_again(rate: float) -> None:
    """After 60 s everyone is where they arrived, or some are on their way again."""
    model = replace(model_file().model, set_off=np.full(model_file().model.components, rate))
    file = replace(model_file(), model=model)
    found = Forecaster(file, PLACES).forecast((0.0, 0.0), MONDAY_NS, horizon_s=60.0, samples=300)
    moved = np.hypot(*np.diff(found.samples_xy[:, -40:], axis=1).transpose(2, 0, 1)).sum(1) > 0.0
    assert np.isfinite(found.samples_xy).all()
    if rate == 0.0:
        assert moved.mean() < 0.05
    else:
        assert moved.mean() > 0.3
    assert found.shares["elsewhere"] < 0.2  # where a path ended first is what counts
