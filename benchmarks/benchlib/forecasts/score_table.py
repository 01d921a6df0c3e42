"""Means with standard errors, paired differences to ours, and the targets that follow from them.

A difference within two of its standard errors is called a tie. Where one person gives several questions the errors
are clustered by person.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchlib.forecasts.forecast_scores import QuestionScores, place_shares
from svfm_ros.cli.output import print_table
from svfm_ros.targets import Check, within
from svfm_ros.types import Places

__all__ = [
    "Estimate",
    "ahead_or_tied",
    "calibrated",
    "difference",
    "estimate",
    "of_field",
    "print_scores",
    "records",
    "share_gap",
]

Array = NDArray[np.float64]

TIE = 2.0
"""Standard errors within which a difference is a tie."""

COMPARED = {
    "energy_m": "energy score, m",
    "log_path": "log score along the path, nats",
    "log_end": "log score at the end, nats",
}
"""Scores in which forecasters are compared; lower is better."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error."""

    mean: float
    error: float

    @property
    def is_tie(self) -> bool:
        """Whether a difference is within two standard errors."""
        return not abs(self.mean) > TIE * self.error

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"

    def as_difference(self) -> str:
        """With a sign, and the word *tie* within two standard errors."""
        return f"{self.mean:+.3f} ± {self.error:.3f}{' tie' if self.is_tie else ''}"


def estimate(values: Array, people: Sequence[str], training: Sequence[str] = ()) -> Estimate:
    """Mean of values ``(N,)`` and its standard error, clustered by person and, added to that, by training set."""
    mean = float(np.mean(values))
    variance = sum(_clustered_variance(values - mean, groups) for groups in (people, training) if len(groups))
    return Estimate(mean, float(np.sqrt(variance)))


def _clustered_variance(residuals: Array, groups: Sequence[str]) -> float:
    """Variance of a mean whose residuals ``(N,)`` go together within groups."""
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(group, weights=residuals)
    count = len(sums)
    return float((sums**2).sum() * count / (count - 1.0) / len(residuals) ** 2) if count > 1 else float("inf")


def of_field(scores: QuestionScores, field: str) -> Estimate:
    """Mean and standard error of one score."""
    return estimate(getattr(scores, field), scores.people, scores.training)


def difference(first: QuestionScores, second: QuestionScores, field: str) -> Estimate:
    """Mean of first minus second over the same questions."""
    return estimate(getattr(first, field) - getattr(second, field), first.people, first.training)


def share_gap(scores: QuestionScores, places: Places) -> float:
    """Total variation between where sampled paths and where real walks end."""
    return float(0.5 * np.abs(place_shares(scores.ends_xy, places) - place_shares(scores.true_ends_xy, places)).sum())


def records(rows: Sequence[QuestionScores], places: Places | None = None) -> list[dict[str, Any]]:
    """One flat record per forecaster, ours (the first row) first: means, errors, differences to ours."""
    found = []
    for row in rows:
        record: dict[str, Any] = {"forecaster": row.name, "questions": len(row.people)}
        for field in COMPARED:
            own = of_field(row, field)
            record |= {field: own.mean, f"{field}_error": own.error}
            if row is not rows[0]:
                gap = difference(row, rows[0], field)
                record |= {f"{field}_minus_ours": gap.mean, f"{field}_minus_ours_error": gap.error}
        for field in ("inside_50", "inside_90", "joint_50", "joint_90", "min_ade20_m", "min_fde20_m"):
            own = of_field(row, field)
            record |= {field: own.mean, f"{field}_error": own.error}
        if places is not None:
            record["share_tv"] = share_gap(row, places)
        if row.step_nll is not None:
            own = of_field(row, "step_nll")
            record |= {"step_nll": own.mean, "step_nll_error": own.error}
        found.append(record | {"fit_s": row.fit_s, "ask_ms": row.ask_ms})
    return found


def print_scores(title: str, rows: Sequence[QuestionScores], places: Places | None = None) -> None:
    """Two tables: the scores with differences to ours, and the rest."""
    columns = ["forecaster", *(name for c in COMPARED.values() for name in (c, "minus ours"))]
    table = [[row.name, *(cell for field in COMPARED for cell in _cells(row, rows[0], field))] for row in rows]
    print_table(f"{title}; {len(rows[0].people)} questions; mean ± standard error", columns, table)
    names = ["forecaster", "inside 50 %", "inside 90 %", "joint 50 %", "joint 90 %", "minADE20 m", "minFDE20 m"]
    names += ["one step, nats"] + (["end shares TV"] if places is not None else []) + ["learn s", "answer ms"]
    print_table(f"{title}: coverage and the rest", names, [_rest(row, places) for row in rows])


def _cells(row: QuestionScores, ours: QuestionScores, field: str) -> tuple[str, str]:
    own = str(of_field(row, field))
    return own, "" if row is ours else difference(row, ours, field).as_difference()


def _rest(row: QuestionScores, places: Places | None) -> list[str]:
    shares = [f"{of_field(row, f).mean:.2f}" for f in ("inside_50", "inside_90")]
    shares += [f"{float(np.mean(getattr(row, f))):.2f}" for f in ("joint_50", "joint_90")]
    best = [f"{float(np.mean(getattr(row, f))):.2f}" for f in ("min_ade20_m", "min_fde20_m")]
    step = [str(of_field(row, "step_nll")) if row.step_nll is not None else ""]
    gap = [f"{share_gap(row, places):.3f}"] if places is not None else []
    return [row.name, *shares, *best, *step, *gap, f"{row.fit_s:.1f}", f"{row.ask_ms:.1f}"]


def ahead_or_tied(
    title: str, rows: Sequence[QuestionScores], fields: Sequence[str] = ("energy_m", "log_path")
) -> list[Check]:
    """One check per score: ours, the first row, is better than every comparator or tied with it.

    The comparator that is farthest ahead, in standard errors, is named with its difference.
    """
    checks = []
    for field in fields:
        gaps = [(difference(rows[0], other, field), other.name) for other in rows[1:]]
        worst, name = max(gaps, key=lambda g: g[0].mean / max(g[0].error, 1e-12))
        target = f"<= {TIE * worst.error:.3g}, two standard errors"
        label = f"{title}: {COMPARED[field]}, ours minus {name}"
        checks.append(Check(label, worst.mean, target, not worst.mean > TIE * worst.error, worst.error))
    return checks


def calibrated(title: str, scores: QuestionScores) -> list[Check]:
    """Coverage of the 50 and 90 % regions, per moment, within five points."""
    checks = []
    for level in (50, 90):
        found = of_field(scores, f"inside_{level}")
        name = f"{title}: coverage of the {level} % region"
        checks.append(within(name, found.mean, level / 100.0, 0.05, found.error))
    return checks
