"""The search for options over homes: a known best is found, and bad combinations are stopped after few homes."""

from pathlib import Path

import pytest
import small_homes

from svfm_ros.errors import DataError
from svfm_ros.fleet.homes import find_homes
from svfm_ros.fleet.tuning import OURS, tune_homes, walk_model_score
from svfm_ros.pipeline.learn import learn, nll_per_step, split_walks
from svfm_ros.walks.walk_csv import read_walks_csv


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    for seed in range(4):
        small_homes.write_home(tmp_path / "homes" / f"home{seed}.csv", seed)
    return tmp_path / "homes"


def test_the_score_of_the_defaults_is_that_of_the_pipeline(homes: Path) -> None:
    walks = read_walks_csv(homes / "home0.csv")
    some, rest = split_walks(walks, 0.2)
    assert walk_model_score(walks, {}) == pytest.approx(nll_per_step(learn(some).file, rest))
    assert set(OURS) == {"group_m", "near_m", "ramp_steps", "free_strength"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_known_best_is_found_and_the_worst_are_stopped(homes: Path) -> None:
    pytest.importorskip("ray", reason="no Ray here: pip install '.[fleet]'")
    from svfm_ros.fleet.ray_tasks import ray_session

    def score(walks, options):
        return (options["a"] - 2.0) ** 2 + options["b"] + 1e-3 * len(walks)

    (homes / "broken.csv").write_text("nonsense\n")
    with ray_session(workers=2):
        tried = tune_homes(find_homes(str(homes)), score, {"a": (0.0, 1.0, 2.0, 3.0), "b": (0.0, 0.5)})
        with pytest.raises(DataError, match="got none"):
            tune_homes([h for h in find_homes(str(homes)) if h.name == "broken"], score, {"a": (0.0, 1.0)})
    assert len(tried) == 8
    assert (tried[0].options, tried[0].homes) == ({"a": 2.0, "b": 0.0}, 4)  # all but the broken one
    assert tried[0].score == pytest.approx(0.01)
    assert tried[-1].homes < 4
