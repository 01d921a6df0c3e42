"""The work on one home, in stages from files to files: align, statistics, model, evaluate.

    align        recordings to a store of aligned walks: SLAM of the new ones alone
    statistics   what the home says about the population, from a model learnt with the prior that ships
    model        the model of all residents, learnt with the prior it is given
    evaluate     figures and report of each resident

Each stage is done once for what goes into it (``home_results.py``). Only ``pipeline/`` and ``report/`` know how.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.atomic_files import write_whole
from svfm_ros.config.fleet_config import FleetConfig, HomeConfig
from svfm_ros.errors import DataError
from svfm_ros.fleet.home_figures import HomeFigures, resident_figures
from svfm_ros.fleet.home_results import HomeResults
from svfm_ros.fleet.homes import Home, HomeFiles, digest
from svfm_ros.installed_files import version

if TYPE_CHECKING:
    from svfm_ros.forecasting.free_walker import FreeWalkerPrior
    from svfm_ros.pipeline.learn import LearnConfig
    from svfm_ros.pipeline.population import HomeStatistics
    from svfm_ros.pipeline.walk_input import WalkInput
    from svfm_ros.types import Walk

__all__ = ["FirstRound", "SecondRound", "first_round", "second_round"]

_STATISTICS, _MODEL, _FIGURES = "statistics.safetensors", "model.pt", "figures.json"
_STORE = "store/walks.sqlite"


@dataclass(frozen=True, slots=True)
class FirstRound:
    """What a home gives to the population prior."""

    statistics: "HomeStatistics"
    did: tuple[str, ...]  # stages that were not done yet


@dataclass(frozen=True, slots=True)
class SecondRound:
    """What is known of a home once it is done."""

    figures: tuple[HomeFigures, ...]  # one for each resident
    did: tuple[str, ...]  # stages that were not done yet


def first_round(home: Home, out: str, config: FleetConfig) -> FirstRound:
    """Align the walks of a home's new recordings and make its statistics for the population prior."""
    with _work(home, out, config) as work:
        return FirstRound(work.statistics(), tuple(work.did))


def second_round(home: Home, out: str, config: FleetConfig, prior: bytes | None) -> SecondRound:
    """Learn, evaluate and report a home with the population prior; None is the one that ships."""
    with _work(home, out, config) as work:
        return SecondRound(work.figures(prior), tuple(work.did))


@contextmanager
def _work(home: Home, out: str, config: FleetConfig) -> "Iterator[_HomeWork]":
    with tempfile.TemporaryDirectory(prefix="svfm-home-") as scratch:
        files = HomeFiles(home, Path(scratch) / "data")
        results = HomeResults(f"{out.rstrip('/')}/homes/{home.name}", Path(scratch) / "results")
        yield _HomeWork(files, results, config, Path(scratch))


class _HomeWork:
    """One home; its walks are read when a stage needs them, once."""

    def __init__(self, files: HomeFiles, results: HomeResults, config: FleetConfig, scratch: Path) -> None:
        self._files, self._results, self._config, self._scratch = files, results, config, scratch
        self._own: HomeConfig = files.fetch_settings()
        self._recordings = files.recordings()
        self._input: WalkInput | None = None
        self._aligned = ""  # hash of the walks to learn from, once they are aligned
        self.did: list[str] = []

    def statistics(self) -> "HomeStatistics":
        from svfm_ros.pipeline.learn import learn
        from svfm_ros.pipeline.population import HomeStatistics, home_statistics

        path = self._results.folder / _STATISTICS

        def make() -> None:
            learned = learn(self._walks(), self._learn_config(), places=self._places(), frame=self._frame())
            home_statistics(learned.file).save(path)

        self._stage("statistics", (), (_STATISTICS,), make)
        return HomeStatistics.load(path)

    def figures(self, prior: bytes | None) -> tuple[HomeFigures, ...]:
        from svfm_ros.forecasting.model_file import load_walk_model, save_walk_model
        from svfm_ros.pipeline.learn import learn

        given = self._prior(prior)
        folder = self._results.folder

        def learn_it() -> None:
            learned = learn(
                self._walks(), self._learn_config(), places=self._places(), frame=self._frame(), prior=given
            )
            save_walk_model(folder / _MODEL, learned.file)

        def evaluate() -> list[str]:
            reports = folder if self._config.reports else None
            drawing, warnings = self._files.settings("map.yaml"), self._data_warnings()
            model = load_walk_model(folder / _MODEL)
            found = list(resident_figures(model, self._walks(), given, drawing, warnings, reports))
            write_whole(folder / _FIGURES, json.dumps([asdict(f) for f in found], indent=1).encode())
            return [f.report for f in found if f.report]

        about_prior = "" if prior is None else digest(prior.hex())
        self._stage("model", (about_prior,), (_MODEL,), learn_it)
        wanted = "reports" if self._config.reports else "no reports"
        self._stage("evaluate", (about_prior, self._results.hash_of(_MODEL), wanted), (_FIGURES,), evaluate)
        return tuple(HomeFigures.from_data(row) for row in json.loads((folder / _FIGURES).read_text()))

    def _stage(self, name: str, inputs: Sequence[str], outputs: Sequence[str], make: Any) -> None:
        """A stage that depends on the home's walks and settings, and on ``inputs``."""
        zone_name = self._own.time_zone or self._config.time_zone
        self._aligned = self._aligned or self._align()
        all_inputs = (self._aligned, self._files.settings_hash, zone_name, *inputs)
        if self._results.stage(name, all_inputs, outputs, make):
            self.did.append(name)

    def _align(self) -> str:
        """A hash of the walks to learn from, after the new recordings are in the store."""
        given = self._files.walks_hash
        if not self._recordings:
            return given
        key = digest(version(), given, self._files.settings_hash, *(f"{n}={h}" for n, h in self._recordings.items()))
        if not self._results.is_done("align", key, (_STORE,)):
            refused = self._add_recordings(given)
            self._results.keep("align", key, (_STORE,), given=given, recordings=self._recordings, refused=refused)
            self.did.append("align")
        return self._results.hash_of(_STORE)

    def _add_recordings(self, given: str) -> list[str]:
        """Make the store anew, or add to it what is new; it gets its name when it is whole."""
        from svfm_ros.pipeline.walk_input import keep_recordings
        from svfm_ros.walks.walk_store import WalkStore, frame_of_store

        before = self._results.about("align")
        known: dict[str, str] = before.get("recordings", {})
        store, part = self._results.folder / "store", self._results.folder / "store.part"
        shutil.rmtree(part, ignore_errors=True)
        goes_on = (
            before.get("given") == given
            and known.items() <= self._recordings.items()
            and self._results.is_done("align", before["key"], (_STORE,))
        )
        first = store if goes_on else self._files.fetch_walks()
        if first is not None and not first.is_dir():
            raise DataError("expected a store beside recordings, got a CSV file, which holds no walls to align to")
        if goes_on:
            shutil.copytree(store, part)
        elif first is not None:
            WalkStore.create(part, frame_of_store(first)).import_store(first)
        new = self._files.fetch_recordings(set(self._recordings) - set(known if goes_on else ()))
        try:
            found = keep_recordings(new, part, self._own.resident or None, self._files.settings("map.yaml")).refused
            refused = [f"{Path(r.name).name}: {r.reason}" for r in found]
        except DataError as error:  # no walk in any of them: the home still has those of its store
            if first is None:
                raise
            refused = [str(error)]
        shutil.rmtree(store, ignore_errors=True)
        os.replace(part, store)
        return (before["refused"] if goes_on else []) + refused

    def _read(self) -> "WalkInput":
        from svfm_ros.pipeline.walk_input import read_walks

        if self._input is None:
            path = self._results.folder / "store" if self._recordings else self._files.fetch_walks()
            assert path is not None
            self._input = read_walks(path, self._own.resident or None, several=True)
        return self._input

    def _walks(self) -> "list[Walk]":
        return self._read().walks

    def _frame(self) -> str:
        return self._read().frame or "map"

    def _learn_config(self) -> "LearnConfig":
        from svfm_ros.config.walk_config import WindowsConfig
        from svfm_ros.pipeline.learn import LearnConfig

        return LearnConfig(windows=WindowsConfig(time_zone=self._own.time_zone or self._config.time_zone))

    def _places(self) -> Any:
        from svfm_ros.walks.places import load_places

        path = self._files.settings("places.yaml")
        return None if path is None else load_places(path)

    def _prior(self, prior: bytes | None) -> "FreeWalkerPrior | None":
        from svfm_ros.forecasting.free_walker import FreeWalkerPrior

        if prior is None:
            return None
        path = self._scratch / "prior.safetensors"
        path.write_bytes(prior)
        return FreeWalkerPrior.load(path)

    def _data_warnings(self) -> list[str]:
        refused: list[str] = self._results.about("align").get("refused", []) if self._recordings else []
        texts = []
        if refused:
            texts.append(f"{len(refused)} recordings or walks were refused, for example {refused[0]}")
        if self._read().not_aligned:
            texts.append(f"{self._read().not_aligned} walks are not aligned with the house")
        return texts
