"""The public names: light to import, documented, and good for a whole session from walks to forecasts."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from simbag import scans_and_truth

import svfm_ros as svfm
from svfm_ros.errors import ConfigError, DataError, UsageError
from svfm_ros.types import Place, Places

COUCH = (2.3, 1.55)
HEAVY = {"numpy", "torch", "numba", "scipy", "matplotlib", "open3d", "rclpy", "sklearn", "rich", "yaml"}


def loaded_after(code: str) -> set[str]:
    """The heavy libraries that a fresh Python has loaded after some code."""
    listing = f"import sys\n{code}\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    answer = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    return set(answer.stdout.splitlines()[-1].split()) & HEAVY


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import svfm_ros; dir(svfm_ros); svfm_ros.__version__") == set()


def test_the_help_of_the_command_loads_nothing_heavy() -> None:
    code = "from svfm_ros.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert loaded_after(code) == set()


def test_reading_walks_does_not_load_torch() -> None:
    assert "torch" not in loaded_after("import svfm_ros; svfm_ros.read_walks, svfm_ros.WalkStore, svfm_ros.Walk")


def test_every_public_name_is_there_and_documented() -> None:
    assert 12 <= len(svfm.__all__) <= 20
    for name in svfm.__all__:
        value = getattr(svfm, name)
        assert value.__doc__, name
        assert name in svfm.__doc__, f"{name} is missing in the overview"
    assert set(svfm.__all__) <= set(dir(svfm))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'walks_of_life'"):
        svfm.walks_of_life  # noqa: B018


@pytest.fixture(scope="module")
def places() -> Places:
    return Places(
        (
            Place("front_door", 5.5, 0.75, 0.6, "#7b3fa0"),
            Place("kitchen", 4.1, 6.1, 1.45, "#1f6fd0"),
            Place("landing", 8.2, 3.7, 0.65, "#808080"),
            Place("study", 7.55, 1.6, 0.65, "#d03030"),
        )
    )


@pytest.fixture(scope="module")
def model(places: Places) -> svfm.Model:
    return svfm.train(svfm.simulate(walks=60), places=places, time_zone="Europe/London")


def test_a_trained_model_forecasts_the_habits_of_the_hour(model: svfm.Model) -> None:
    by_day = model.forecast(COUCH, at="2026-11-16T14:00")
    by_night = model.forecast(COUCH, at="2026-11-16T14:00", what_if_hour="02:00")
    assert sum(by_day.shares.values()) == pytest.approx(1.0)
    assert by_night.shares["landing"] > by_day.shares["landing"] + 0.2
    assert model.time_zone == "Europe/London"
    assert {"kitchen", "landing"} <= set(model.places.names)


def test_a_model_is_scored_on_walks_it_was_not_trained_on(model: svfm.Model) -> None:
    learnt = svfm.simulate(walks=60)
    later = svfm.simulate(walks=75)[60:]  # walks have names: the first 60 are those it was trained on
    found = svfm.evaluate(model, [*learnt, *later], samples=40)
    assert (found.walks + found.walks_with_gaps, found.relearnt) == (15, False)
    assert found.min_ade20_m < 0.5  # metres; the places are 3 m and more apart
    assert 0.5 < found.coverage_90 <= 1.0


def test_a_model_trained_on_all_walks_is_scored_without_a_fifth_of_them(model: svfm.Model) -> None:
    found = svfm.evaluate(model, svfm.simulate(walks=60), samples=20)
    assert found.relearnt
    with pytest.raises(UsageError, match="at least 20 samples"):
        svfm.evaluate(model, [], samples=10)
    assert 5 <= found.walks + found.walks_with_gaps <= 20  # about a fifth of 60, chosen by their names


def test_a_time_may_be_text_a_datetime_or_nanoseconds(model: svfm.Model) -> None:
    when = datetime(2026, 11, 16, 14, tzinfo=UTC)
    stamps = [model.forecast(COUCH, at=at).stamp_ns for at in ("2026-11-16T14:00", when, int(when.timestamp()) * 10**9)]
    assert len(set(stamps)) == 1
    with pytest.raises(ConfigError, match="expected an hour such as"):
        model.forecast(COUCH, at=when, what_if_hour="25:00")


def test_a_saved_model_comes_back_with_its_places(model: svfm.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "deep" / "model.pt")
    back = svfm.load_model(tmp_path / "deep" / "model.pt")
    assert back.model_id == model.model_id
    assert back.places == model.places
    again = back.forecast(COUCH, at="2026-11-16T14:00").shares
    assert again == pytest.approx(dict(model.forecast(COUCH, at="2026-11-16T14:00").shares), abs=0.05)
    back.save(tmp_path / "copy.pt")
    assert svfm.load_model(tmp_path / "copy.pt").model_id == model.model_id


def test_other_places_may_be_named_when_a_model_is_loaded(model: svfm.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model.pt")
    (tmp_path / "places.yaml").write_text("places: [{name: table, x: 4.1, y: 6.1, radius: 1.45}]")
    shares = svfm.load_model(tmp_path / "model.pt", places=tmp_path / "places.yaml").forecast(COUCH, at=0).shares
    assert set(shares) == {"table", "elsewhere"}


def test_walks_survive_a_file(tmp_path: Path) -> None:
    walks = svfm.simulate(days=0.2, profile="routine", seed=3)
    assert svfm.write_walks(walks, tmp_path / "walks.csv") == len(walks)
    back = svfm.read_walks(tmp_path / "walks.csv")
    assert [w.walk_id for w in back] == [w.walk_id for w in walks]
    np.testing.assert_allclose(back[0].xy, walks[0].xy, atol=1e-3)


def test_the_seed_decides_what_is_simulated() -> None:
    first, again, other = (svfm.simulate(walks=3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[0].xy, again[0].xy)
    assert len(first[0].xy) != len(other[0].xy) or not np.allclose(first[0].xy, other[0].xy)


def test_pictures_and_report_are_written(model: svfm.Model, tmp_path: Path) -> None:
    svfm.draw_forecast(tmp_path / "f.png", model.forecast(COUCH, at="2026-11-16T14:00"), model)
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    svfm.write_report(tmp_path / "r.html", model, svfm.simulate(walks=8, seed=5))
    assert "<!doctype html>" in (tmp_path / "r.html").read_text()


def test_scans_become_a_map_and_a_trajectory() -> None:
    scans, truth = scans_and_truth()
    found = svfm.run_slam(iter(scans))
    assert len(found.trajectory) == len(scans)
    error_m = np.hypot(*(found.trajectory.poses - truth)[:, :2].T)
    assert error_m.max() < 0.1
    assert np.nanmax(found.map.prob) > 0.9
    assert np.nanmin(found.map.prob) < 0.1


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: svfm.read_walks("nowhere.csv"), UsageError, "got nothing at nowhere.csv"),
        (lambda: svfm.load_model("nowhere.pt"), UsageError, "got no file at nowhere.pt"),
        (lambda: svfm.simulate(walks=0), UsageError, "at least one walk"),
        (lambda: svfm.simulate(walks=3, days=1), UsageError, "got both"),
        (lambda: svfm.train([]), DataError, "two or more walks"),
        (lambda: svfm.train(svfm.simulate(walks=1)), DataError, "two or more walks"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(call, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()
