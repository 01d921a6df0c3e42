"""The content of a report as plain numbers and sentences; the page only draws it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.pipeline.evaluation import walk_levels
from svfm_ros.pipeline.learn import scored_on_unseen
from svfm_ros.report.calibration import Calibration, calibrate
from svfm_ros.report.drawn_plan import DrawnPlan, drawn_plan
from svfm_ros.report.forecasts_by_hour import POINTS, Start, forecasts_by_hour
from svfm_ros.report.over_time import OverTime, over_time
from svfm_ros.report.summary import day_text, sentences
from svfm_ros.report.walk_table import walk_table
from svfm_ros.types import OccupancyGrid, Walk

__all__ = ["ReportContent", "gather"]

Array = NDArray[np.float64]
Tick = Callable[[str], None]

_MOST_SCORED = 1500  # walks whose unfamiliarity is computed, spread over the whole record
_MOST_CALIBRATED = 400  # walks for training and scoring the model of the calibration
_NAMELESS = ("unknown", "resident", "")


@dataclass(frozen=True, slots=True)
class ReportContent:
    """All that the page shows."""

    title: str
    subtitle: str
    summary: list[str]
    facts: dict[str, str]
    plan: DrawnPlan
    points: int  # positions of each drawn path
    elsewhere: str
    starts: list[Start]
    over_time: OverTime
    calibration: Calibration | None


def gather(
    forecaster: Forecaster,
    walks: Sequence[Walk],
    grid: OccupancyGrid | None = None,
    tick: Tick = lambda _doing: None,
    levels: Sequence[Array] | None = None,
    others: Sequence[Walk] = (),
) -> ReportContent:
    """The report on one person's walks, which are in the model's frame.

    ``levels`` are those of an ``Evaluation`` of the model, if there is one at hand, for the calibration; ``others`` are
    walks of other residents that the model was learnt from.
    """
    if not walks:
        raise DataError("expected walks for a report, got none")
    zone_name, places = forecaster.file.time_zone, forecaster.places
    ordered = sorted(walks, key=lambda walk: int(walk.stamps_ns[0]))
    table = walk_table(ordered, places, forecaster.config.place_reach_m, zone_name)
    starts = forecasts_by_hour(forecaster, ordered, grid, tick)
    tick("habits over time")
    shown = over_time(table, len(places), _unfamiliar(forecaster, ordered))
    tick("calibration")
    calibration = calibrate(_levels(forecaster, ordered, others) if levels is None else levels)
    first, last = (date.fromordinal(int(day)).isoformat() for day in (table.day[0], table.day[-1]))
    person = ordered[0].resident
    plan = drawn_plan(ordered, places, grid, zone_name)
    return ReportContent(
        title="Walking report" if person in _NAMELESS else f"Walking report: {person}",
        subtitle=f"{day_text(first)} to {day_text(last)}" if first != last else day_text(first),
        summary=sentences(shown, len(ordered), places.names, calibration),
        facts={
            "walks": f"{len(ordered)}, the latest {len(plan.walks)} are drawn",
            "days with walks": str(len(table.days)),
            "time zone": zone_name,
            "model": forecaster.model_id,
            "report made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        },
        plan=plan,
        points=POINTS,
        elsewhere=forecaster.config.elsewhere,
        starts=starts,
        over_time=shown,
        calibration=calibration,
    )


def _levels(forecaster: Forecaster, walks: Sequence[Walk], others: Sequence[Walk]) -> Sequence[Array]:
    """Levels of walks that a model did not learn from; empty where there are too few walks.

    Where the model learned from all of them, another one is trained in the same way without a fifth of the latest.
    """
    try:
        scored = scored_on_unseen(forecaster.file, walks[-_MOST_CALIBRATED:], others=others)
        again = Forecaster(scored.file, forecaster.places, forecaster.config, resident=forecaster.resident)
        return walk_levels(again, scored)
    except DataError:
        return ()


def _unfamiliar(forecaster: Forecaster, walks: Sequence[Walk]) -> NDArray[np.float64]:
    """Probability ``(N,)`` that each whole walk followed no recorded habit; NaN for those that are not scored."""
    found = np.full(len(walks), np.nan)
    for n in np.unique(np.linspace(0, len(walks) - 1, min(len(walks), _MOST_SCORED)).round().astype(int)).tolist():
        posterior = forecaster.posterior(walks[n])
        found[n] = np.nan if posterior is None else posterior.unfamiliar
    return found if np.nanmax(found, initial=0.0) > 0.0 else np.full(len(walks), np.nan)
