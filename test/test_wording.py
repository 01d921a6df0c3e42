"""Names, probabilities and unknown forecasts in words."""

import pytest

from svfm_ros.wording import counted, percent, readable, unknown, with_share


@pytest.mark.parametrize(("share", "text"), [(0.0, "0 %"), (0.254, "25 %"), (0.996, "100 %"), (1.0, "100 %")])
def test_a_probability_in_percent(share, text):
    assert percent(share) == text


def test_one_and_several():
    assert (counted(1, "walk"), counted(0, "walk"), counted(12, "walk")) == ("1 walk", "0 walks", "12 walks")


def test_a_name_as_a_person_writes_it():
    assert readable("front_door") == "front door"


def test_a_number_in_a_name_is_told_from_the_probability():
    assert with_share("front_door", 0.254) == "front door 25 %"
    assert with_share("place 3", 0.34) == "place 3: 34 %"


def test_an_unknown_forecast_says_why():
    assert unknown("the map was started anew") == "unknown: the map was started anew"
    assert unknown("") == "unknown: no recorded walk came near here at about this hour"
