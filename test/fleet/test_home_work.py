"""One home, stage by stage: what is done is not done again, what has changed or is half done is done anew."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_homes
import two_destinations

from svfm_ros.cli.main import main
from svfm_ros.config.fleet_config import FleetConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.fleet.home_work import first_round, second_round
from svfm_ros.fleet.homes import Home, HomeFiles, absolute_url, find_homes
from svfm_ros.forecasting.free_walker import FreeWalkerPrior
from svfm_ros.forecasting.model_file import load_walk_model
from svfm_ros.pipeline.learn import learn, nll_per_step, scored_on_unseen
from svfm_ros.pipeline.population import HomeStatistics, home_statistics, population_prior
from svfm_ros.walks.walk_csv import read_walks_csv, write_walks_csv

CONFIG = FleetConfig(reports=False)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    small_homes.write_home(tmp_path / "homes" / "ada" / "walks.csv", 0)
    return Home("ada", str(tmp_path / "homes" / "ada"))


def test_what_is_done_is_not_done_again(home: Home, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    results = Path(out) / "homes" / "ada"
    first = second_round(home, out, CONFIG, None)
    assert first.did == ("model", "evaluate")
    again = second_round(home, out, CONFIG, None)
    assert again.did == ()
    assert again.figures == first.figures

    (results / "figures.json").unlink()  # half done
    assert second_round(home, out, CONFIG, None).did == ("evaluate",)
    (results / "model.pt").write_bytes(b"half a model")
    assert second_round(home, out, CONFIG, None).did == ("model",)  # the same model: it was evaluated already
    (results / "done.json").write_text("{")
    assert second_round(home, out, CONFIG, None).did == ("model", "evaluate")

    small_homes.write_home(Path(home.url) / "walks.csv", 0, count=12)
    changed = second_round(home, out, CONFIG, None)
    assert changed.did == ("model", "evaluate")
    assert (first.figures[0].walks, changed.figures[0].walks) == (10, 12)
    (Path(home.url) / "home.yaml").write_text("time_zone: Asia/Tokyo\n")
    assert second_round(home, out, CONFIG, None).did == ("model", "evaluate")


def test_its_score_is_that_of_the_pipeline(home: Home, tmp_path: Path) -> None:
    (found,) = second_round(home, str(tmp_path / "out"), CONFIG, None).figures
    walks = read_walks_csv(Path(home.url) / "walks.csv")
    scored = scored_on_unseen(learn(walks).file, walks)
    assert found.held_out_nll == pytest.approx(nll_per_step(scored.file, scored.unseen))
    assert (found.walks, found.days, found.held_out_walks) == (10, 1, len(scored.unseen))
    assert "only 10 walks" in found.warnings


def test_each_resident_of_a_home_has_figures_and_a_report(tmp_path: Path) -> None:
    """One model for the home; who has too few walks to be scored is named, and the others are scored."""
    walks = [
        replace(walk, walk_id=f"{name}-{walk.walk_id}", resident=name)
        for seed, (name, count) in enumerate([("ada", 10), ("b/n", 9), ("new", 2)])
        for walk in two_destinations.walks(count, seed)
    ]
    folder = tmp_path / "homes" / "pair"
    folder.mkdir(parents=True)
    write_walks_csv(walks, folder / "walks.csv")
    home, out = Home("pair", str(folder)), str(tmp_path / "out")
    found = second_round(home, out, FleetConfig(), None)
    assert [(f.resident, f.walks, f.report) for f in found.figures] == [
        ("ada", 10, "report-ada.html"),
        ("b/n", 9, "report-b%2Fn.html"),
        ("new", 2, "report-new.html"),
    ]
    results = tmp_path / "out" / "homes" / "pair"
    assert load_walk_model(results / "model.pt").residents.names == ("ada", "b/n", "new")
    assert {f.model_id for f in found.figures} == {load_walk_model(results / "model.pt").model_id}
    assert [f.held_out_nll is None for f in found.figures] == [False, False, True]
    assert any(warning.startswith("not scored") for warning in found.figures[2].warnings)
    assert "ada" in (results / "report-ada.html").read_text()
    (results / "report-new.html").unlink()
    assert second_round(home, out, FleetConfig(), None).did == ("evaluate",)
    (folder / "home.yaml").write_text("resident: ada\n")
    (alone,) = second_round(home, out, FleetConfig(), None).figures
    assert (alone.resident, alone.report) == ("ada", "report.html")


def test_another_name_is_no_other_home(tmp_path: Path) -> None:
    """The results of a home that was renamed together with its data are still good."""
    for name in ("ada", "bea"):
        small_homes.write_home(tmp_path / f"{name}.csv", 0, count=4)
    hashes = {HomeFiles(Home(name, str(tmp_path / f"{name}.csv")), tmp_path).walks_hash for name in ("ada", "bea")}
    assert len(hashes) == 1
    small_homes.write_home(tmp_path / "bea.csv", 1, count=4)
    assert HomeFiles(Home("bea", str(tmp_path / "bea.csv")), tmp_path).walks_hash not in hashes


def test_homes_and_results_by_url(tmp_path: Path) -> None:
    """The same figures from a path, a file:// URL, and a file system that only fsspec can read."""
    import fsspec

    small_homes.write_home(tmp_path / "homes" / "ada" / "walks.csv", 0, count=6)
    (tmp_path / "homes" / "ada" / "home.yaml").write_text("time_zone: Asia/Tokyo\n")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "homes"), "/study/homes", recursive=True)
    found = {}
    for homes, out in (
        (str(tmp_path / "homes"), str(tmp_path / "plain")),
        ((tmp_path / "homes").as_uri(), (tmp_path / "by_url").as_uri()),
        ("memory://study/homes", "memory://study/results"),
    ):
        (home,) = find_homes(homes)
        found[out] = second_round(home, absolute_url(out), CONFIG, None)
        assert found[out].did == ("model", "evaluate")
        assert second_round(home, absolute_url(out), CONFIG, None).did == ()
    assert len({result.figures for result in found.values()}) == 1
    assert (tmp_path / "by_url" / "homes" / "ada" / "model.pt").is_file()
    assert memory.exists("/study/results/homes/ada/model.pt")
    memory.pipe_file("/study/results/homes/ada/figures.json", b"half")
    assert second_round(home, absolute_url(out), CONFIG, None).did == ("evaluate",)


def test_a_home_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "homes" / "empty").mkdir(parents=True)
    with pytest.raises(DataError, match=r"expected walks\.csv, store/ or recordings/"):
        second_round(Home("empty", str(tmp_path / "homes" / "empty")), str(tmp_path / "out"), CONFIG, None)
    with pytest.raises(UsageError, match="expected a folder of homes"):
        find_homes(str(tmp_path / "nothing"))
    (tmp_path / "homes" / "empty.csv").write_text("")
    with pytest.raises(UsageError, match="expected one home 'empty'"):
        find_homes(str(tmp_path / "homes"))


def test_new_recordings_alone_go_through_slam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recordings of one day, then one more: it is added to the store, in the same frame."""
    assert main(["simulate", "--out", str(tmp_path / "bags"), "--repeats", "1", "--seed", "31"]) == 0
    bags = sorted(path for path in (tmp_path / "bags").iterdir() if path.is_dir())
    recordings, out = tmp_path / "homes" / "ada" / "recordings", str(tmp_path / "out")
    recordings.mkdir(parents=True)
    home = Home("ada", str(recordings.parent))
    for bag in bags[:-1]:
        bag.rename(recordings / bag.name)
    store = Path(out) / "homes" / "ada" / "store"
    assert first_round(home, out, CONFIG).did == ("align", "statistics")
    before = (store / "walks.sqlite").read_bytes()
    assert first_round(home, out, CONFIG).did == ()
    assert (store / "walks.sqlite").read_bytes() == before
    bags[-1].rename(recordings / bags[-1].name)
    mapped = []
    from svfm_ros.slam import offline

    slam = offline.run_slam
    monkeypatch.setattr(offline, "run_slam", lambda source, **about: mapped.append(source) or slam(source, **about))
    assert first_round(home, out, CONFIG).did == ("align", "statistics")
    assert len(mapped) == 1
    done = json.loads((store.parent / "done.json").read_text())
    assert sorted(done["align"]["recordings"]) == [bag.name for bag in bags]
    (recordings / "damaged.mcap").write_bytes(b"not a bag")
    assert first_round(home, out, CONFIG).did == ("align",)  # the same walks
    assert "damaged.mcap" in json.loads((store.parent / "done.json").read_text())["align"]["refused"][0]


def test_statistics_add_up_to_a_prior_between_the_homes(tmp_path: Path) -> None:
    base = FreeWalkerPrior.load()
    files = [learn(two_destinations.walks(30, seed)).file for seed in (0, 1)]
    one, other = (home_statistics(file) for file in files)
    one.save(tmp_path / "one.safetensors")
    read = HomeStatistics.load(tmp_path / "one.safetensors")
    total = read + other
    assert (total.homes, total.walker.moves) == (2, one.walker.moves + other.walker.moves)
    pooled = population_prior(total, base)
    swapped = population_prior(other + one, base)
    for name in ("w1", "b2", "w3"):
        parts = [getattr(walker, name) for walker in (base.free, files[0].model.free, files[1].model.free)]
        found = getattr(pooled.free, name)
        np.testing.assert_allclose(found, getattr(swapped.free, name), rtol=1e-6)
        slack = 1e-5
        assert (found >= np.min(parts, axis=0) - slack).all()
        assert (found <= np.max(parts, axis=0) + slack).all()
        assert not np.allclose(found, getattr(base.free, name), atol=1e-5)
    pooled.save(tmp_path / "prior.safetensors")
    again = learn(two_destinations.walks(30, 2), prior=FreeWalkerPrior.load(tmp_path / "prior.safetensors"))
    assert np.isfinite(again.left_out_nll)


def test_damaged_statistics_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="expected the statistics of a home"):
        HomeStatistics.load(tmp_path / "x.safetensors")
