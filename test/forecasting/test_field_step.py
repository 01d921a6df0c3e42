"""The step filter against the Gaussian of all moves at once; the Student-t against scipy's."""

import numpy as np
import pytest
from scipy import stats

from svfm_ros.forecasting.field_step import KEPT, fresh_filter, predict, student_log_density, update
from svfm_ros.forecasting.walk_model import StepNumbers

NUMBERS = StepNumbers(
    sensor_var=1e-4,
    pace_var=0.04,
    side_var=0.01,
    keep_along=0.6,
    keep_across=0.3,
    nu=1e7,  # a Student-t that is a Gaussian
    prior_walks=2.0,
    prior_var_along=0.05,
    prior_var_across=0.02,
    nu_per_walk=0.0,
)


def spread(expected_m: float, steady: float, support: float, variance: float, prior_var: float) -> float:
    """R of the module's docstring."""
    walks = NUMBERS.prior_walks + support
    pooled = (NUMBERS.prior_walks * prior_var + support * variance) / walks * (1.0 + 1.0 / walks)
    return (pooled + NUMBERS.sensor_var / expected_m**2) * steady**2


def test_the_filter_gives_the_conditionals_of_one_joint_gaussian() -> None:
    rng = np.random.default_rng(0)
    count = 6
    expected, steady = rng.uniform(0.2, 0.5, count), np.append([0.5, 0.8], np.ones(count - 2))
    support, var_v, var_u = rng.uniform(0.0, 9.0, count), rng.uniform(0.01, 0.1, count), rng.uniform(0.01, 0.1, count)
    moves = 0.2 * rng.standard_normal((count, 2))
    packed = NUMBERS.packed
    state = np.empty(KEPT)
    fresh_filter(state, packed)
    lag = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    for axis, (keep, shared, prior_var, variance) in enumerate(
        [
            (NUMBERS.keep_along, NUMBERS.pace_var, NUMBERS.prior_var_along, var_v),
            (NUMBERS.keep_across, NUMBERS.side_var, NUMBERS.prior_var_across, var_u),
        ]
    ):
        fresh_filter(state, packed)
        s = np.sqrt([spread(*x, prior_var) for x in zip(expected, steady, support, variance, strict=True)])
        joint = shared + np.outer(s, s) * keep**lag
        for i in range(count):
            found = predict(state, packed, expected[i], steady[i], support[i], var_v[i], var_u[i], 0.0)
            gain = np.linalg.solve(joint[:i, :i], joint[:i, i]) if i else np.zeros(0)
            assert found[axis] == pytest.approx(float(gain @ moves[:i, axis]), abs=1e-6)
            assert found[2 + axis] ** 2 == pytest.approx(joint[i, i] - float(gain @ joint[:i, i]), rel=1e-5)
            update(state, packed, moves[i, 0], moves[i, 1], found, False)


def test_standing_says_nothing_about_the_pace() -> None:
    packed, state = NUMBERS.packed, np.empty(KEPT)
    fresh_filter(state, packed)
    before = state[:4].copy()
    update(state, packed, -1.0, 0.0, predict(state, packed, 0.4, 1.0, 5.0, 0.02, 0.02, 0.0), True)
    assert state[:4] == pytest.approx(before)


def test_a_wild_move_counts_less_than_under_a_gaussian() -> None:
    """With few degrees of freedom a move ten standard deviations away hardly changes the pace."""
    paces = []
    for nu in (3.0, 1e7):
        packed, state = NUMBERS.packed, np.empty(KEPT)
        packed[5] = nu
        fresh_filter(state, packed)
        update(state, packed, 3.0, 0.0, predict(state, packed, 0.4, 1.0, 5.0, 0.02, 0.02, 0.0), False)
        paces.append(state[1] / state[0])
    assert 0.0 < paces[0] < 0.3 * paces[1]


@pytest.mark.parametrize("nu", [2.2, 5.0, 80.0])
def test_the_density_is_a_student_t(nu: float) -> None:
    for z in (-8.0, -0.5, 0.0, 2.0):
        assert student_log_density(z, nu) == pytest.approx(stats.t.logpdf(z, nu))


def test_uncertain_positions_and_few_walks_widen_a_step() -> None:
    packed, state = NUMBERS.packed, np.empty(KEPT)
    fresh_filter(state, packed)

    def scales(support: float, position_var: float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return np.array(predict(state, packed, 0.4, 1.0, support, 0.05, 0.02, position_var)[2:4])

    assert (scales(10.0, 0.01) > scales(10.0, 0.0)).all()
    assert (scales(0.0, 0.0) > scales(10.0, 0.0)).all()
