"""The oracle of destinations: as open as the prior until ways part, certain from then on."""

import numpy as np
import pytest
from benchlib.forecasts.destination_oracle import DestinationOracle

from svfm_ros.types import WalkWindows

STEPS, WALKS = 21, 400


def walks_that_part_half_way(seed: int) -> tuple[WalkWindows, list[str]]:
    """Walks of 0.5 m a step to the east; half of them turn north after 5 m, the others south."""
    rng = np.random.default_rng(seed)
    x = 0.5 * np.arange(STEPS)
    beyond = np.maximum(x - 5.0, 0.0)
    north = np.arange(WALKS) % 2 == 0
    xy = np.stack([np.column_stack([x - beyond, beyond if up else -beyond]) for up in north])
    xy += 0.02 * rng.standard_normal(xy.shape)
    ids = tuple(f"w{i}" for i in range(WALKS))
    valid = np.ones((WALKS, STEPS), dtype=bool)
    walks = WalkWindows(xy, valid, 0.4, np.arange(WALKS), np.full(WALKS, 9.0), ids, ids)
    return walks, ["north" if up else "south" for up in north]


def test_destinations_are_open_until_ways_part_and_known_from_then_on() -> None:
    oracle = DestinationOracle.learn(*walks_that_part_half_way(0), seed=0)
    walks, names = walks_that_part_half_way(1)
    northwards = walks.select(np.array(names) == "north")
    before, after = (oracle.probability(northwards, "north", share).mean() for share in (0.4, 0.7))
    assert before == pytest.approx(0.5, abs=0.05)
    assert after > 0.98
