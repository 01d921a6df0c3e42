"""What the whole training finds in walks that are known exactly."""

from dataclasses import replace

import pytest
from two_destinations import walk_along

from svfm_ros.forecasting.free_walker import FreeWalkerPrior
from svfm_ros.pipeline.learn import learn


def test_how_soon_people_set_off_again_is_learnt_from_how_long_they_stayed() -> None:
    there = [walk_along("kitchen", 0, 2 * n) for n in range(8)]
    back = [
        replace(w, walk_id=f"back {n}", stamps_ns=w.stamps_ns + 300 * 10**9, poses=w.poses[::-1].copy())
        for n, w in enumerate(there)
    ]
    of_people = replace(FreeWalkerPrior.load(), numbers={})  # without what other homes say
    model = learn([walk for pair in zip(there, back, strict=True) for walk in pair], prior=of_people).file.model
    in_the_kitchen_s, at_the_start_s = 300.0 - 5.0, 1200.0 - 305.0  # a walk takes about 5 s
    usual_s = (8 * in_the_kitchen_s + 7 * at_the_start_s) / 15  # counts for one more stay
    expected = [0.4 * 8 / (7 * at_the_start_s + usual_s), 0.4 * 9 / (8 * in_the_kitchen_s + usual_s)]
    assert sorted(model.set_off) == pytest.approx(expected, rel=0.02)
