"""Walks to new destinations: how often people leave their habits on the way."""

from dataclasses import replace

import numpy as np
import pytest
from two_destinations import model_file, walks

from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.fit.number_fit import fit_switches, free_shares, parting_rate
from svfm_ros.forecasting.fit.walk_steps import walk_rows
from svfm_ros.forecasting.posterior import start_probabilities
from svfm_ros.walks.windows import make_windows


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


def test_passers_by_with_a_new_destination_walk_freely_from_the_start() -> None:
    at_home = walk_rows(make_windows(walks(8), WindowsConfig()))
    passing, nobody = replace(at_home, passers_by=True), np.zeros(0, dtype=np.int64)
    shares = [free_shares(rows, nobody, nobody.astype(bool), np.zeros(0)) for rows in (at_home, passing)]
    assert [s.tolist() for s in shares] == [[0.0] * 8, pytest.approx([0.5 / 8.5] * 8)]
    assert parting_rate(passing) == 0.0


def test_passers_by_leave_the_ways_of_others_sooner_than_residents_their_habits() -> None:
    """Without walks to learn from, the rates are the usual ones: once in 55 moves, once in 3,600."""
    at_home, in_scene = (fit_switches([], 0.01, 0.1, passers_by=scene).switches for scene in (False, True))
    assert at_home.leave == pytest.approx(1.0 / 3600.0, rel=0.1)
    assert in_scene.leave == pytest.approx(1.0 / 55.0, rel=0.1)
    assert in_scene.join == pytest.approx(at_home.join, rel=0.1)
