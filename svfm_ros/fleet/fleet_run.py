"""A run over many homes: statistics of each, the population prior over all, then every home with that prior.

DIR/homes/NAME/          model.pt, figures.json, a report of each resident, and store/ where there were recordings
DIR/prior.safetensors    the population prior; kept once it is learnt, unless a new one is asked for
DIR/homes.parquet        one row per resident
DIR/fleet.html           the same as a page
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from svfm_ros.atomic_files import make_folder, write_whole
from svfm_ros.config.fleet_config import FleetConfig
from svfm_ros.fleet.fleet_page import render_fleet
from svfm_ros.fleet.fleet_table import FleetTable
from svfm_ros.fleet.home_work import FirstRound, first_round, second_round
from svfm_ros.fleet.homes import Home, absolute_url, filesystem_of, is_local
from svfm_ros.fleet.ray_tasks import HomeOutcome, each_home

if TYPE_CHECKING:
    from svfm_ros.pipeline.population import HomeStatistics

__all__ = ["FleetOutcome", "run_fleet"]

_PRIOR, _TABLE, _PAGE = "prior.safetensors", "homes.parquet", "fleet.html"

Tick = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """What a run did."""

    homes: int
    worked_on: int  # homes of which a stage was not done yet
    prior: str  # which prior the models have: learnt from how many homes, kept from an earlier run, or the shipped one
    prior_homes: int  # homes that this run learnt the prior from
    failed: dict[str, str] = field(default_factory=dict)  # reason by home


def run_fleet(
    homes: Sequence[Home],
    out: str,
    config: FleetConfig | None = None,
    renew_prior: bool = False,
    tick: Tick = lambda _what, _home: None,
) -> FleetOutcome:
    """Both rounds on the Ray that this process is connected to; writes all results to the path or URL ``out``."""
    config = config or FleetConfig()
    out = absolute_url(out)
    worked_on: set[str] = set()
    failed: dict[str, str] = {}
    prior = None if renew_prior else _read(out, _PRIOR)
    which, prior_homes = ("the one that ships" if prior is None else "kept from an earlier run"), 0
    if prior is None and len(homes) >= config.least_homes:
        total = _summed(homes, out, config, worked_on, failed, tick)
        if total is not None and total.homes >= config.least_homes:
            prior, prior_homes = _prior_bytes(total), total.homes
            which = f"learnt from {prior_homes} homes"
            _write(out, _PRIOR, prior)
    table = FleetTable()
    left = [home for home in homes if home.name not in failed]
    for name, reason in failed.items():
        table.add_failed(Home(name, ""), reason)
    for outcome in each_home("home", second_round, left, config, out, config, prior):
        tick("home", outcome.home.name)
        if outcome.result is None:
            failed[outcome.home.name] = outcome.reason
            table.add_failed(outcome.home, outcome.reason)
        else:
            for figures in outcome.result.figures:
                table.add(outcome.home, figures)
            worked_on |= {outcome.home.name} if outcome.result.did else set()
    found = table.table()
    _write(out, _TABLE, FleetTable.parquet(found))
    _write(out, _PAGE, render_fleet(found).encode())
    return FleetOutcome(len(homes), len(worked_on), which, prior_homes, failed)


def _summed(
    homes: Sequence[Home],
    out: str,
    config: FleetConfig,
    worked_on: set[str],
    failed: dict[str, str],
    tick: Tick,
) -> "HomeStatistics | None":
    """The sum of all homes' statistics; one home's are in memory at a time."""
    total: HomeStatistics | None = None
    outcome: HomeOutcome[FirstRound]
    for outcome in each_home("statistics", first_round, homes, config, out, config):
        tick("statistics", outcome.home.name)
        if outcome.result is None:
            failed[outcome.home.name] = outcome.reason
            continue
        worked_on |= {outcome.home.name} if outcome.result.did else set()
        total = outcome.result.statistics if total is None else total + outcome.result.statistics
    return total


def _prior_bytes(total: "HomeStatistics") -> bytes:
    from svfm_ros.pipeline.population import population_prior

    with TemporaryDirectory() as folder:
        path = Path(folder) / _PRIOR
        population_prior(total).save(path)
        return path.read_bytes()


def _read(out: str, name: str) -> bytes | None:
    fs, root = filesystem_of(out)
    path = f"{root.rstrip('/')}/{name}"
    return bytes(fs.cat_file(path)) if fs.exists(path) else None


def _write(out: str, name: str, data: bytes) -> None:
    """One file of the run, whole or not at all."""
    fs, root = filesystem_of(out)
    if is_local(fs):
        make_folder(Path(root))
        write_whole(Path(root) / name, data)
    else:
        fs.makedirs(root, exist_ok=True)
        fs.pipe_file(f"{root.rstrip('/')}/{name}", data)
