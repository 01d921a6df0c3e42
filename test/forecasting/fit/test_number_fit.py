"""The numbers that hold everywhere: rates of leaving habits at home and in open scenes."""

import numpy as np
import pytest

from svfm_ros.forecasting.fit.number_fit import LeftOutWalk, fit_switches
from svfm_ros.forecasting.free_walker import FREE_ANY, FREE_COLUMNS, FREE_GOING, FREE_STOPS

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
