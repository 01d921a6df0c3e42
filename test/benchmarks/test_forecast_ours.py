"""The corridor of known walks, on walks with known answers."""

from dataclasses import replace

import numpy as np
from benchlib.forecasts.forecast_ours import left_corridor

from svfm_ros.types import WalkWindows

STEPS = 21


def eastwards(sides_m: list[float], turns_at: float = np.inf) -> WalkWindows:
    """Walks of 0.5 m a step beside the x axis; from ``turns_at`` metres on they go north."""
    x = 0.5 * np.arange(STEPS)
    beyond = np.maximum(x - turns_at, 0.0)
    xy = np.stack([np.column_stack([x - beyond, side + beyond]) for side in sides_m])
    ids = tuple(f"w{i}" for i in range(len(xy)))
    valid = np.ones(xy.shape[:2], dtype=bool)
    return WalkWindows(xy, valid, 0.4, np.arange(len(xy)), np.full(len(xy), 9.0), ids, ids)


def test_walks_that_turn_off_have_left_the_corridor_once_they_did() -> None:
    train, usual = eastwards([-0.2, 0.0, 0.2]), eastwards([-0.3, -0.1, 0.1, 0.3])
    late = eastwards([0.0, 0.1], turns_at=7.0)  # of 10 m
    assert not left_corridor(train, late, usual, 0.5).any()
    assert left_corridor(train, late, usual, 0.95).all()
    assert left_corridor(train, eastwards([0.0, 0.1], turns_at=2.0), usual, 0.5).all()


def test_the_corridor_lies_between_ticks_too() -> None:
    train, between = eastwards([0.0]), eastwards([0.0])
    shifted = replace(between, xy=np.add(between.xy, [0.25, 0.0]))
    assert not left_corridor(train, shifted, eastwards([-0.1, 0.1]), 0.5).any()
