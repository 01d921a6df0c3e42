"""The figures and the report of each resident of a home: scores on walks left out, wandering index, warnings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from svfm_ros.atomic_files import write_whole
from svfm_ros.clock import NS_PER_S, zone
from svfm_ros.errors import DataError

if TYPE_CHECKING:
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.free_walker import FreeWalkerPrior
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.pipeline.evaluation import Evaluation
    from svfm_ros.types import OccupancyGrid, Walk

__all__ = ["HomeFigures", "resident_figures"]

_FEW_WALKS = 20
_WELL_CALIBRATED = 0.15  # of probability, at the 90 % region
_MOST_SCORED = 400  # walks for the wandering index: the latest
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class HomeFigures:
    """A row in the table of all homes: one resident of one home."""

    resident: str
    walks: int
    days: int  # with walks
    first_day: str  # ISO
    last_day: str
    places: int
    held_out_walks: int  # that a model was learnt without; without any, the next five are None
    held_out_nll: float | None  # nats per step, of those walks
    share_tv: float | None
    energy_distance_m: float | None
    coverage_50: float | None
    coverage_90: float | None
    wandering: float | None  # nats
    wandering_low: float | None
    wandering_high: float | None
    warnings: tuple[str, ...]
    model_id: str
    report: str  # file in the home's folder; empty where there is none

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "HomeFigures":
        """The reverse of ``asdict``, through JSON."""
        return cls(**{**data, "warnings": tuple(data["warnings"])})


def resident_figures(
    file: "WalkModelFile",
    walks: "Sequence[Walk]",
    prior: "FreeWalkerPrior | None",
    drawing: Path | None,
    warnings: Sequence[str],
    reports: Path | None,
) -> "Iterator[HomeFigures]":
    """Figures of each resident who has walks; their report is written to the folder ``reports`` if there is one.

    ``drawing`` is the home's map, ``warnings`` are those about its data.
    """
    people = sorted({walk.resident for walk in walks})
    for name in people:
        report = None if reports is None else reports / _report_name(name, alone=len(people) == 1)
        yield _figures(file, walks, name, prior, drawing, warnings, report)


def _report_name(resident: str, alone: bool) -> str:
    return "report.html" if alone else f"report-{quote(resident, safe='')}.html"


def _figures(
    file: "WalkModelFile",
    walks: "Sequence[Walk]",
    resident: str,
    prior: "FreeWalkerPrior | None",
    drawing: Path | None,
    warnings: Sequence[str],
    report: Path | None,
) -> HomeFigures:
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.mapio import load_map
    from svfm_ros.pipeline.model_input import forecaster_of
    from svfm_ros.report import gather, render

    own = [walk for walk in walks if walk.resident == resident]
    others = [walk for walk in walks if walk.resident != resident]
    grid = None if drawing is None else load_map(drawing)
    forecaster = forecaster_of(file, ForecastConfig(), grid=grid, resident=resident)
    found, why_not = _evaluated(forecaster, own, prior, others, grid)
    levels = () if found is None else found.levels
    if report is not None:
        write_whole(report, render(gather(forecaster, own, grid, levels=levels, others=others)).encode())
    days = sorted({_day(walk, file.time_zone) for walk in own})
    mean, low, high = _wandering(forecaster, own)
    return HomeFigures(
        resident=resident,
        walks=len(own),
        days=len(days),
        first_day=days[0].isoformat(),
        last_day=days[-1].isoformat(),
        places=len(forecaster.places),
        held_out_walks=0 if found is None else found.walks,
        held_out_nll=None if found is None else found.nll_per_step,
        share_tv=None if found is None else found.share_tv,
        energy_distance_m=None if found is None else found.energy_distance_m,
        coverage_50=None if found is None else found.coverage_50,
        coverage_90=None if found is None else found.coverage_90,
        wandering=mean,
        wandering_low=low,
        wandering_high=high,
        warnings=(*warnings, *why_not, *_warnings(file, len(own), found)),
        model_id=file.model_id,
        report="" if report is None else report.name,
    )


def _evaluated(
    forecaster: "Forecaster",
    own: "Sequence[Walk]",
    prior: "FreeWalkerPrior | None",
    others: "Sequence[Walk]",
    grid: "OccupancyGrid | None",
) -> "tuple[Evaluation | None, tuple[str, ...]]":
    """How the model forecasts walks it never saw, or None and why not."""
    from svfm_ros.pipeline.evaluation import evaluate_forecasts
    from svfm_ros.pipeline.learn import scored_on_unseen
    from svfm_ros.pipeline.model_input import forecaster_of

    try:
        scored = scored_on_unseen(forecaster.file, own, prior, others)
        return evaluate_forecasts(forecaster_of(scored.file, forecaster.config, grid=grid), scored), ()
    except DataError as error:  # too few walks, or all with gaps: the model is none the worse for it
        return None, (f"not scored: {error}",)


def _warnings(file: "WalkModelFile", walks: int, found: "Evaluation | None") -> Iterator[str]:
    from svfm_ros.pipeline.learn import change_date

    if walks < _FEW_WALKS:
        yield f"only {walks} walks"
    if found is not None and abs(found.coverage_90 - 0.9) > _WELL_CALIBRATED:
        way = "too sure" if found.coverage_90 < 0.9 else "too careful"
        yield f"forecasts are {way}: the 90 % regions held {found.coverage_90:.0%} of {found.walks} walks"
    if (changed := change_date(file.metrics)) is not None:
        yield f"habits changed about {changed}"


def _day(walk: "Walk", time_zone: str) -> date:
    return datetime.fromtimestamp(int(walk.stamps_ns[0]) / NS_PER_S, zone(time_zone)).date()


def _wandering(
    forecaster: "Forecaster", walks: "Sequence[Walk]"
) -> tuple[float, float, float] | tuple[None, None, None]:
    """The wandering index with its 95 % interval, as in the report; None where there are too few places for one."""
    from svfm_ros.forecasting.wandering import NextWalks, entropy_draws
    from svfm_ros.report.walk_table import walk_table

    places = forecaster.places
    if len(places) < 2:
        return None, None, None
    latest = sorted(walks, key=lambda walk: int(walk.stamps_ns[0]))[-_MOST_SCORED:]
    table = walk_table(latest, places, forecaster.config.place_reach_m, forecaster.file.time_zone)
    asked = NextWalks(table.origin, table.end, table.hour, table.day - _EPOCH, len(places))
    return entropy_draws(asked).interval(0.95)
