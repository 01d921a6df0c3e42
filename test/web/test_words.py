"""Sentences about nodes and forecasts."""

import pytest

from svfm_ros.web.words import (
    NodeReport,
    first_model_words,
    forecast_words,
    how_sure,
    node_words,
    replay_words,
    walks_words,
)


def test_a_forecast_in_one_line() -> None:
    summary = {"known": True, "shares": {"kitchen": 0.72, "front_door": 0.2, "bed": 0.01}, "entropy": 0.7}
    assert forecast_words(summary) == "kitchen 72 %, front door 20 % (fairly sure)"
    assert forecast_words({**summary, "unfamiliar": 0.9}).endswith("but this walk follows no recorded habit")
    assert forecast_words({**summary, "positions": {}}).startswith("no places are known yet")
    assert forecast_words({"known": False, "reason": "the map is new"}) == "unknown: the map is new"


@pytest.mark.parametrize(
    ("entropy", "said"), [(0.0, "very sure"), (0.7, "fairly sure"), (1.1, "not sure"), (2.0, "wide open")]
)
def test_how_sure(entropy: float, said: str) -> None:
    assert how_sure(entropy) == said
    assert how_sure(None) == how_sure(float("nan")) == ""


def test_how_many_walks_the_first_model_needs() -> None:
    assert first_model_words(1, 8) == "1 walk stored; the first model needs 8."
    assert first_model_words(8, 8) == "8 walks stored."


def test_nodes_in_words() -> None:
    waiting = NodeReport("trainer_node", figures={"walks": "3", "walks_needed": "8", "model": "none", "state": "idle"})
    assert node_words(waiting, 0.0) == "waiting for walks: 3 of 8 for the first model"
    learning = NodeReport("trainer_node", figures={"walks": "9", "state": "training", "step": "3 of 10"})
    assert node_words(learning, 0.0) == "learning from 9 walks, step 3 of 10"
    figures = {"walks": "9", "walks_in_training": "8", "state": "training", "step": "0 of 0"}
    assert node_words(NodeReport("trainer_node", figures=figures), 0.0) == "learning from 8 walks"
    assert node_words(NodeReport("slam_node", 1, "no scan for 5 s"), 0.0) == "no scan for 5 s"
    assert node_words(NodeReport("slam_node"), 4.2) == "not heard from for 4 s"
    assert (
        node_words(NodeReport("slam_node", figures={"scan_rate_hz": "9.9", "mode": "mapping"}), 0.0)
        == "mapping, 10 scans a second"
    )
    slow = {"scan_rate_hz": "9.9", "mode": "mapping", "scan_to_pose_median_ms": "1240"}
    assert node_words(NodeReport("slam_node", figures=slow), 0.0).endswith("each with its pose within 1.2 s")


def test_walks_in_words() -> None:
    figures = {"walks": "9", "walks_needed": "8", "model": "none", "state": "training", "walks_in_training": "8"}
    assert walks_words(NodeReport("trainer_node", figures=figures)) == "9 walks stored. Learning from 8 of them …"
    figures |= {"model": "abc", "walks_learned": "8", "state": "idle"}
    expected = "9 walks stored. The model in use has learnt from 8."
    assert walks_words(NodeReport("trainer_node", figures=figures)) == expected
    assert walks_words(NodeReport("trainer_node")) == "waiting for the nodes"


def test_a_replay_in_words() -> None:
    figures = {"position_s": "65", "length_s": "3725", "rate": "2.0", "paused": "False"}
    assert replay_words(NodeReport("player", figures=figures)) == "1:05 of 1:02:05"
    assert replay_words(NodeReport("player", figures={**figures, "paused": "True"})).endswith("paused")
