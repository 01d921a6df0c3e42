"""The product behind the door of the benchmarks."""

import numpy as np
from benchlib.forecasts.product import Product, as_walks, home_options
from benchlib.forecasts.questions import Question

from svfm_ros.types import WalkWindows


def lines(count: int) -> WalkWindows:
    rng = np.random.default_rng(0)
    xy = np.arange(12)[:, None] * [0.5, 0.0] + 0.02 * rng.standard_normal((count, 12, 2))
    names = tuple(f"w{i // 2}" for i in range(count))  # two rows of each walk
    valid = np.ones((count, 12), dtype=np.bool_)
    return WalkWindows(xy, valid, 0.4, 60_000_000_000 * np.arange(count), np.full(count, 9.0), names, names)


def test_the_product_learns_and_answers() -> None:
    walks = lines(8)
    ours = Product(options=home_options())
    ours.fit(walks)
    paths = ours.sample(Question(walks.xy[0, :4], 9.0, 5, samples=60, stamp_ns=1_200_000_000))
    assert paths.shape == (60, 6, 2)
    assert np.median(paths[:, -1, 0]) > walks.xy[0, 3, 0] + 1.0  # eastwards
    assert ours.step_nll(walks).shape == (8,)


def test_rows_become_walks() -> None:
    walks = as_walks(lines(4))
    assert [w.walk_id for w in walks] == ["w0", "w0, part 2", "w1", "w1, part 2"]
    assert walks[1].stamps_ns[1] - walks[1].stamps_ns[0] == 400_000_000
