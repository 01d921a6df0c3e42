"""The numbers that hold everywhere: rates of leaving habits at home, in open scenes, and towards new destinations."""

from dataclasses import replace

import numpy as np
import pytest
from two_destinations import model_file, walks

from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.fit.number_fit import LeftOutWalk, fit_switches, parting_rate
from svfm_ros.forecasting.fit.walk_steps import walk_rows
from svfm_ros.forecasting.free_walker import FREE_ANY, FREE_COLUMNS, FREE_GOING, FREE_STOPS
from svfm_ros.forecasting.posterior import start_probabilities
from svfm_ros.walks.windows import make_windows

MOVES, FOLLOWED = 20, 8


@pytest.fixture(scope="module")
def leaving() -> list[LeftOutWalk]:
    """Walks that follow the only field for eight moves and leave it then."""
    log_move = np.where(np.arange(MOVES) < FOLLOWED, 2.0, -8.0)[:, None]
    free = np.full((MOVES, FREE_COLUMNS), -20.0)
    free[:, [FREE_GOING, FREE_ANY]], free[:, FREE_STOPS] = 0.0, 0.01
    walk = LeftOutWalk(
        log_move=log_move,
        log_still=np.full(MOVES, -20.0),
        free=free,
        set_off=0.1,
        hazards=np.full((MOVES, 1, 4), 1e-3),
        stood=np.zeros(MOVES, dtype=np.bool_),
        gate=np.full((MOVES, 1), 0.9),
        prior=np.array([0.9]),
        ended=False,
    )
    return [walk] * 20


def test_people_in_a_scene_leave_a_habit_as_often_as_they_are_seen_to(leaving: list[LeftOutWalk]) -> None:
    """One of the nine moves under the field is a last one or the leaving itself."""
    assert fit_switches(leaving, 1e-3, 1e-3, passers_by=True).switches.leave == pytest.approx(0.1, abs=0.04)


def test_residents_hardly_ever_leave_a_habit(leaving: list[LeftOutWalk]) -> None:
    assert fit_switches(leaving, 1e-3, 1e-3).switches.leave < 0.001


def test_a_walk_parts_from_known_ways_as_often_as_it_leads_to_a_new_destination() -> None:
    rows = walk_rows(make_windows(walks(8), WindowsConfig()))
    moves = sum(len(xy) - 1 for xy in rows.xy) / len(rows)
    assert 1.0 - (1.0 - parting_rate(rows)) ** moves == pytest.approx(0.5 / 8.5, rel=0.05)


def test_new_destinations_are_left_for_on_the_way_and_not_at_the_start() -> None:
    model = model_file().model
    rows = walk_rows(make_windows(walks(), WindowsConfig()))
    assert model.switches.leave > parting_rate(rows)
    everyone = replace(model.habits, free=0.0 * model.habits.free, base_free=0.0)
    here = rows.xy[0][0] + model.origin
    begin, at_least = (start_probabilities(m, here, 10.0, 20000)[0] for m in (model, replace(model, habits=everyone)))
    assert begin - at_least < 0.5 / 16.5
