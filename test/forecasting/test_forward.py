"""The forward algorithm against the sum over every hidden course."""

from itertools import product

import numpy as np
import pytest

from svfm_ros.forecasting.forward import ENDED, FREE_ENDS, GOES_ON, ODD_SHARE, OPEN, forward
from svfm_ros.forecasting.free_walker import (
    FREE_ANY,
    FREE_COLUMNS,
    FREE_GOING,
    FREE_SETTING_OFF,
    FREE_STANDING,
    FREE_STOPS,
)

FIELDS, MOVES = 2, 3
SWITCHES = np.array([0.1, 0.2, 0.03, 0.05, 0.15])  # leave, join, free end moving and standing, slip
SET_OFF = 0.3
REST = 1 + 2 * FIELDS  # the state of a free walker who stands


def free_move(before, now, free):  # type: ignore[no-untyped-def]
    """Probability that a free walker goes over from one state to the other right before a move, times its density."""
    if before == REST:
        return SET_OFF * np.exp(free[FREE_SETTING_OFF]) if now == 0 else (1 - SET_OFF) * np.exp(free[FREE_STANDING])
    stops = free[FREE_STOPS]
    return (1 - stops) * np.exp(free[FREE_GOING]) if now == 0 else stops * np.exp(free[FREE_STANDING])


def by_enumeration(start, log_move, log_still, free, hazards, stood, gate, ended):  # type: ignore[no-untyped-def]
    """Density of all moves, and the state after them, from all courses.

    A course names the state before and the state during each move; they differ for free walkers alone.
    """
    leave, join, free_end, free_end_still, slip = SWITCHES
    states = range(2 + 2 * FIELDS)
    pairs = [(b, d) for b in states for d in states if b == d or {b, d} == {0, REST}]
    after, total = np.zeros(len(states)), 0.0
    for course in product(pairs, repeat=MOVES):
        weight = start[course[0][0]]
        for i, (before, s) in enumerate(course):
            k = (s - 1) % FIELDS
            if s in (0, REST):
                emitted = free_move(before, s, free[i])
                own = free_end_still if stood[i] else free_end
                end = max(own, FREE_ENDS * hazards[i, :, 3 if stood[i] else 2].max())
            elif s <= FIELDS:
                stop, _, end, _ = hazards[i - 1, k] if i else np.zeros(4)  # where people stop or end, moves are odd
                usual = (1 - slip) * (1 - ODD_SHARE * stop) * (1 - ODD_SHARE * end)
                emitted = usual * np.exp(log_move[i, k]) + (1 - usual) * np.exp(free[i, FREE_ANY])
                end = hazards[i, k, 2]
            else:
                emitted, end = np.exp(log_still[i]), hazards[i, k, 3]
            known = {GOES_ON: 1.0 - end, ENDED: end, OPEN: 1.0}[ended if i == MOVES - 1 else GOES_ON]
            weight *= emitted * known
            if i < MOVES - 1:
                weight *= change(s, course[i + 1][0], i, hazards, gate, leave, join)
        total += weight
        last = course[-1][1]
        after += weight * np.array([change(last, t, MOVES - 1, hazards, gate, leave, join) for t in states])
    return np.log(total), after / total


def change(s, t, i, hazards, gate, leave, join):  # type: ignore[no-untyped-def]
    """Probability of state t after state s and move i."""
    if s == REST:
        return float(t == REST)
    if s == 0:
        return 1.0 - join * gate[i].sum() if t == 0 else join * gate[i, t - 1] if t <= FIELDS else 0.0
    k, standing = (s - 1) % FIELDS, s > FIELDS
    stop, go = hazards[i, k, 0], hazards[i, k, 1]
    stands = 1.0 - go if standing else stop
    if t in (0, REST):
        return leave * (stands if t == REST else 1.0 - stands)
    if (t - 1) % FIELDS != k:
        return 0.0
    return (1.0 - leave) * (stands if t > FIELDS else 1.0 - stands)


@pytest.mark.parametrize("ended", [GOES_ON, ENDED, OPEN])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_sums_over_all_courses(seed: int, ended: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(2 + 2 * FIELDS))
    shapes = ((MOVES, FIELDS), MOVES, (MOVES, FREE_COLUMNS))
    log_move, log_still, free_moves = (rng.normal(0.0, 2.0, s) for s in shapes)
    free_moves[:, FREE_STOPS] = rng.uniform(0.1, 0.6, MOVES)
    hazards, stood = rng.uniform(0.01, 0.6, (MOVES, FIELDS, 4)), rng.random(MOVES) < 0.5
    gate = 0.7 * rng.dirichlet(np.ones(FIELDS), MOVES)  # some take up no field
    want, after = by_enumeration(start, log_move, log_still, free_moves, hazards, stood, gate, ended)
    state, each, free = start.copy(), np.empty(MOVES), np.empty(MOVES)
    forward(state, log_move, log_still, free_moves, SET_OFF, hazards, stood, SWITCHES, gate, ended, each, free)
    assert each.sum() == pytest.approx(want, abs=1e-9)
    assert state == pytest.approx(after, abs=1e-9)
    assert free[-1] == pytest.approx(state[0] + state[REST])
    assert state.sum() == pytest.approx(1.0)
