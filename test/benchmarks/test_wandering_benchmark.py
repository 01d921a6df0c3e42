"""Residents who wander in part, and scores without a forecast."""

from dataclasses import replace

import numpy as np
import pytest
from benchlib.visits import live
from wandering import Week, _auc, _counted_entropy, _wandering

from svfm_ros.sim.house import load_house
from svfm_ros.sim.resident import random_resident
from svfm_ros.sim.walker import route_book


def test_who_wanders_goes_anywhere_more_often() -> None:
    house = load_house()
    book = route_book(house)
    resident = random_resident(house, 3, book=book)
    other = _wandering(resident)
    before, after = (r.routines[0].weekday for r in (resident, other))
    np.testing.assert_allclose(after.sum(-1), 1.0)
    np.testing.assert_allclose(np.diagonal(after, axis1=1, axis2=2), 0.0)
    assert (after.max(-1) <= before.max(-1) + 1e-9).all()
    assert 0.0 < _counted_entropy(resident, live(resident, 2.0, 1)) <= np.log(len(house.places) - 1) + 1e-9


def test_area_under_the_curve_of_scores() -> None:
    week = Week(False, 0, 9, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    people = [replace(week, wanders=i >= 10, index=float(i), counted=float(i % 10)) for i in range(20)]
    assert _auc(people, "index").mean == 1.0
    assert _auc(people, "counted").mean == pytest.approx(0.5)
    gap = _auc(people, "index", "counted")
    assert gap.mean == pytest.approx(0.5)
    assert 0.05 < gap.error < 0.25
