"""Standard errors, ties and targets with known answers."""

from dataclasses import replace

import numpy as np
import pytest
from benchlib.forecasts.forecast_scores import QuestionScores
from benchlib.forecasts.score_table import Estimate, ahead_or_tied, calibrated, difference, estimate, records

NAMES = tuple(f"p{i}" for i in range(50))


def scores(name: str, energy: np.ndarray) -> QuestionScores:
    rest = [np.full(len(energy), 0.5)] * 8
    return QuestionScores(
        name, NAMES, energy, *rest, ends_xy=np.zeros((len(energy), 1, 2)), true_ends_xy=np.zeros((len(energy), 2))
    )


def test_standard_errors() -> None:
    values = np.random.default_rng(0).standard_normal(50)
    found = estimate(values, NAMES)
    assert found.mean == pytest.approx(values.mean())
    assert found.error == pytest.approx(values.std(ddof=1) / np.sqrt(50))
    thrice = estimate(np.repeat(values, 3), np.repeat(NAMES, 3))  # asking a person thrice tells nothing new
    assert thrice.error == pytest.approx(found.error)
    assert estimate(values, ["one"] * 50).error == np.inf


def test_training_sets_add_their_own_error() -> None:
    rng = np.random.default_rng(0)
    people = rng.standard_normal(50)
    parts = [replace(scores("x", people + shift)) for shift in (-1.0, 0.0, 1.0)]
    both = QuestionScores.over_training_sets(parts)
    assert len(both.people) == 150
    found = estimate(both.energy_m, both.people, both.training)
    expected = np.hypot(people.std(ddof=1) / np.sqrt(50), 1.0 / np.sqrt(3))
    assert found.error == pytest.approx(expected)


def test_ties() -> None:
    assert "tie" in Estimate(0.019, 0.01).as_difference()
    assert "tie" not in Estimate(-0.021, 0.01).as_difference()
    rng = np.random.default_rng(1)
    base = 1.0 + rng.random(50)
    noise = 0.01 * rng.standard_normal(50)
    ours, same, ahead, behind = (
        scores(n, v)
        for n, v in (
            ("ours", base),
            ("same", base + noise - noise.mean()),
            ("ahead", base - 0.1 + noise),
            ("behind", base + 1.0),
        )
    )
    assert difference(ours, same, "energy_m").is_tie
    (check,) = ahead_or_tied("t", [ours, same, behind], ("energy_m",))
    assert check.ok
    (check,) = ahead_or_tied("t", [ours, behind, same, ahead], ("energy_m",))
    assert not check.ok
    assert "ahead" in check.name
    assert check.value == pytest.approx(0.1, abs=0.01)


def test_records_are_flat_and_compare_to_ours() -> None:
    first, second = records([scores("ours", np.ones(50)), scores("other", np.full(50, 3.0))])
    assert "energy_m_minus_ours" not in first
    assert second["energy_m_minus_ours"] == pytest.approx(2.0)
    assert all(not isinstance(v, dict | list) for v in second.values())
    assert [c.ok for c in calibrated("t", scores("ours", np.ones(50)))] == [True, False]
