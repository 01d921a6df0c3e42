"""Residents of one home: habits, pace and spread stay apart; who is unknown gets the home's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from two_destinations import MONDAY_NS, PLACES, walk_along

from svfm_ros.forecasting.fit.resident_fit import _paces, share_habits
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import WalkModelFile, load_walk_model, save_walk_model
from svfm_ros.pipeline.learn import learn
from svfm_ros.types import Walk


def slower(walk: Walk, name: str, factor: float) -> Walk:
    """The same way by another person, who takes ``factor`` times as long."""
    first = walk.stamps_ns[0]
    stamps = first + ((walk.stamps_ns - first) * factor).astype(np.int64)
    return replace(walk, walk_id=f"{walk.walk_id}-{name}", resident=name, stamps_ns=stamps)


@pytest.fixture(scope="module")
def home() -> WalkModelFile:
    """Ada, who is slow, goes to the kitchen four times in five; Ben to the study."""
    ada = [slower(walk_along("study" if i % 5 == 0 else "kitchen", 1, 2 * i), "ada", 1.4) for i in range(30)]
    ben = [slower(walk_along("kitchen" if i % 5 == 0 else "study", 2, 2 * i + 1), "ben", 1.0) for i in range(30)]
    return learn([*ada, *ben], places=PLACES).file


AFTERNOON_NS = MONDAY_NS + 5 * 3600 * 10**9


def kitchen_share(file: WalkModelFile, resident: str | None) -> float:
    found = Forecaster(file, PLACES, resident=resident).forecast((0.0, 0.0), AFTERNOON_NS, samples=400)
    return found.shares["kitchen"]


def test_habits_of_residents_stay_apart(home: WalkModelFile) -> None:
    assert home.residents.names == ("ada", "ben")
    assert kitchen_share(home, "ada") > kitchen_share(home, None) + 0.15
    assert kitchen_share(home, "ben") < kitchen_share(home, None) - 0.15


def test_who_is_unknown_gets_the_habits_of_the_home_and_it_says_so(home: WalkModelFile) -> None:
    forecaster = Forecaster(home, PLACES, resident="zoe")
    assert forecaster.forecast((0.0, 0.0), MONDAY_NS).resident is None
    assert kitchen_share(home, "zoe") == kitchen_share(home, None)
    assert Forecaster(home, PLACES, resident="ada").forecast((0.0, 0.0), MONDAY_NS).resident == "ada"


def test_residents_come_back_from_the_file(home: WalkModelFile, tmp_path: Path) -> None:
    save_walk_model(tmp_path / "home.pt", home)
    back = load_walk_model(tmp_path / "home.pt")
    assert back.residents.names == home.residents.names
    assert back.residents.pace == pytest.approx(home.residents.pace)
    assert kitchen_share(back, "ada") == pytest.approx(kitchen_share(home, "ada"), abs=0.02)
    went_on = learn([], go_on_from=back).file
    assert went_on.residents.names == ("ada", "ben")


def test_a_slow_resident_has_a_slow_model(home: WalkModelFile) -> None:
    speed = {n: np.hypot(*np.moveaxis(home.of_resident(n).model.tables[..., :2], -1, 0)).mean() for n in ("ada", "ben")}
    assert speed["ada"] < speed["ben"]


def test_a_resident_asked_for_again_stays_the_same(home: WalkModelFile) -> None:
    once = home.of_resident("ada")
    again, other = once.of_resident("ada"), once.of_resident("ben")
    np.testing.assert_allclose(again.model.tables, once.model.tables, rtol=1e-6)
    assert again.model.steps.pace_var == pytest.approx(once.model.steps.pace_var)
    np.testing.assert_allclose(other.model.tables, home.of_resident("ben").model.tables, rtol=1e-5)
    np.testing.assert_allclose(other.model.habits.shares, home.of_resident("ben").model.habits.shares)


def test_paces_are_drawn_to_the_home_by_how_few_walks_there_are() -> None:
    rng = np.random.default_rng(0)
    log_pace = np.concatenate([-0.2 + 0.05 * rng.standard_normal(50), 0.2 + 0.05 * rng.standard_normal(50), [0.2]])
    person = np.repeat([0, 1, 2], [50, 50, 1])
    mean, ratio = _paces(log_pace, person, 3)
    assert mean[1] - mean[0] == pytest.approx(0.4, abs=0.03)
    assert 0.0 < mean[2] < mean[1]
    assert (ratio < 0.5).all()  # each walks at their own pace; the home's spread is that between them


def choices(rng: np.random.Generator, *residents: tuple[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Choices and persons of residents with (walks, shares) each."""
    drawn = [np.eye(len(shares))[rng.choice(len(shares), size=walks, p=shares)] for walks, shares in residents]
    return np.concatenate(drawn), np.repeat(np.arange(len(residents)), [walks for walks, _ in residents])


def test_a_newcomer_among_people_who_live_alike_is_taken_to_live_as_they_do() -> None:
    even = np.full(5, 0.2)
    found = []
    for seed in range(20):
        choice, person = choices(np.random.default_rng(seed), (40, even), (40, even), (5, even))
        found.append(share_habits(np.zeros(len(person), dtype=np.int64), choice, person))
    assert np.mean(found, axis=0).min() > 0.8
    assert np.mean(found, axis=0)[2] > 0.8


def test_people_who_differ_have_habits_of_their_own() -> None:
    first, second = np.array([0.7, 0.2, 0.05, 0.05]), np.array([0.05, 0.1, 0.25, 0.6])
    choice, person = choices(np.random.default_rng(0), (40, first), (40, second), (5, second))
    alike = share_habits(np.zeros(len(person), dtype=np.int64), choice, person)
    assert alike.max() < 0.3
    same_place_other_hours = np.where(np.arange(len(person)) % 2, 0, 1)
    assert share_habits(same_place_other_hours, choice, person).max() < 0.3


def test_a_carer_beside_a_couple_has_habits_of_their_own() -> None:
    couple, carer = np.array([0.5, 0.3, 0.1, 0.1]), np.array([0.02, 0.02, 0.06, 0.9])
    choice, person = choices(np.random.default_rng(1), (120, couple), (120, couple), (60, carer))
    alike = share_habits(np.zeros(len(person), dtype=np.int64), choice, person)
    assert alike[2] < 0.01


def test_a_resident_with_two_walks_has_nearly_the_forecast_of_a_home_that_lives_alike() -> None:
    def of(name: str, count: int, first: int) -> list[Walk]:
        which = ("kitchen", "study")
        return [slower(walk_along(which[i % 2], 7, 3 * i + first), name, 1.0) for i in range(count)]

    def only_kitchen(name: str, count: int, first: int) -> list[Walk]:
        return [slower(walk_along("kitchen", 9, 3 * i + first), name, 1.0) for i in range(count)]

    file = learn([*of("ada", 30, 0), *of("ben", 30, 1), *only_kitchen("new", 2, 2)], places=PLACES).file
    assert kitchen_share(file, "new") == pytest.approx(kitchen_share(file, None), abs=0.1)
