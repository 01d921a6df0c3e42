"""The step filter against the Gaussian of all moves at once; the Student-t against scipy's."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from svfm_ros.forecasting.field_step import (
    KEPT,
    StepNumbers,
    predict,
    relative_move,
    student_log_density,
    update,
)

NUMBERS = StepNumbers(
    pace_var=0.04,
    drift_var=0.02,
    keep_pace=0.9,
    back_pace=0.3,
    direction_var=0.03,
    keep_direction=0.5,
    back_direction=-0.2,
    restore=0.3,
    body_var=0.004,
    sway_var=0.003,
    sensor_var=1e-4,
    prior_walks=2.0,
    prior_along=3.0,
    prior_across=4.0,
    nu=5.0,
    nu_per_walk=0.5,
)
MANY = 1e9  # walks: neither the prior spread nor the uncertainty of the field's mean is left
USUAL_M = 0.4


def autocovariance(variance: float, keep: float, back: float, count: int) -> "np.ndarray":  # type: ignore[type-arg]
    """Of an AR(2), lags 0 to count - 1, by the Yule-Walker equations."""
    found = [variance, variance * keep / (1.0 + back)]
    for _ in range(count):
        found.append(keep * found[-1] - back * found[-2])
    return np.array(found[:count])


def test_the_filter_gives_the_conditionals_of_one_joint_gaussian() -> None:
    n, count = NUMBERS, 10
    lag = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    white = n.sensor_var / USUAL_M**2
    along = n.pace_var + autocovariance(n.drift_var, n.keep_pace, n.back_pace, count)[lag]
    along += (n.body_var + white) * np.eye(count)
    across = autocovariance(n.direction_var, n.keep_direction, n.back_direction, count)[lag]
    across += (n.sway_var + white) * np.eye(count)
    moves = 0.1 * np.random.default_rng(0).standard_normal((count, 2))
    state = np.zeros(KEPT)
    for i in range(count):
        found = predict(state, n.packed, n.gains.parts, USUAL_M, 1.0, (MANY, 1.0, 1.0, 0.0), 0.0)
        for axis, joint in enumerate((along, across)):
            gain = np.linalg.solve(joint[:i, :i], joint[:i, i]) if i else np.zeros(0)
            assert found[axis] == pytest.approx(float(gain @ moves[:i, axis]), abs=1e-9)
            assert found[2 + axis] ** 2 == pytest.approx(joint[i, i] - float(gain @ joint[:i, i]), rel=1e-6)
        update(state, n.gains.parts, *moves[i], found, False)


def ask(support: float = 10.0, offset: float = 0.0, steady: float = 1.0, position_var: float = 0.0):  # type: ignore[no-untyped-def]
    here = (support, 1.0, 1.0, offset)
    return predict(np.zeros(KEPT), NUMBERS.packed, NUMBERS.gains.parts, USUAL_M, steady, here, position_var)


def test_who_walks_beside_the_others_turns_back_to_them() -> None:
    assert ask(offset=0.5)[1] == pytest.approx(-0.3 * 0.5)
    assert ask(offset=-0.5)[1] == pytest.approx(0.3 * 0.5)


def test_few_walks_uncertain_positions_and_no_first_steps_widen_a_step() -> None:
    def scales(**how: float) -> "np.ndarray":  # type: ignore[type-arg]
        return np.array(ask(**how)[2:4])

    assert (scales(position_var=0.01) > scales()).all()
    assert (scales(support=0.0) > scales()).all()
    assert (scales(steady=0.5) < scales()).all()
    assert ask(support=10.0)[4] == pytest.approx(10.0)


def test_standing_says_nothing_about_the_pace() -> None:
    state = np.array([0.2, 0.1, 0.1, 0.05, 0.05, 7.0])
    update(state, NUMBERS.gains.parts, -1.0, 0.0, ask(), True)
    assert state == pytest.approx([0.2, 0.0, 0.0, 0.0, 0.0, 7.0])


def test_a_wild_move_teaches_no_more_than_one_three_scales_away() -> None:
    states = []
    for scales in (3.0, 30.0):
        found, state = ask(), np.zeros(KEPT)
        update(state, NUMBERS.gains.parts, scales * found[2], scales * found[3], found, False)
        states.append(state)
    assert states[0] == pytest.approx(states[1])
    assert states[0][0] > 0.0


def test_a_move_is_seen_along_and_across() -> None:
    y, z = relative_move(0.1, 0.6, 0.0, 1.0, 0.4)  # the field points along +y; 0.1 m to the right
    assert y == pytest.approx(0.5)
    assert z == pytest.approx(-0.25)


def test_gains_do_not_depend_on_what_only_widens() -> None:
    wide = replace(NUMBERS, nu=30.0, prior_walks=5.0, restore=0.1)
    assert all(np.array_equal(a, b) for a, b in zip(wide.gains.parts, NUMBERS.gains.parts, strict=True))


@pytest.mark.parametrize("nu", [2.2, 5.0, 80.0])
def test_the_density_is_a_student_t(nu: float) -> None:
    for z in (-8.0, -0.5, 0.0, 2.0):
        assert student_log_density(z, nu) == pytest.approx(stats.t.logpdf(z, nu))
