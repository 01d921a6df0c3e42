"""What the nodes say about themselves, in plain words: for the live page and for ``svfm run``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from svfm_ros.wording import counted, unknown, with_share

__all__ = ["NodeReport", "first_model_words", "forecast_words", "how_sure", "node_words", "replay_words", "walks_words"]

OK, WARN, ERROR = 0, 1, 2
_SHOWN_PLACES, _LEAST_SHARE = 3, 0.05
_UNFAMILIAR = 0.5
_SURE = ((1.3, "very sure"), (2.2, "fairly sure"), (3.2, "not sure"))  # below so many equally likely places


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The latest diagnostics of one node."""

    node: str
    level: int = OK
    message: str = ""
    figures: Mapping[str, str] = field(default_factory=dict)
    heard_s: float = 0.0  # monotonic

    def number(self, key: str) -> float:
        """A figure; NaN where it is missing."""
        try:
            return float(self.figures.get(key, "nan"))
        except ValueError:
            return math.nan


def how_sure(entropy: float | None) -> str:
    """Words for the entropy of the shares of places in nats; empty where it is not known."""
    if entropy is None or not math.isfinite(entropy):
        return ""
    return next((words for most, words in _SURE if math.exp(entropy) < most), "wide open")


def forecast_words(summary: Mapping[str, Any]) -> str:
    """``kitchen 72 %, landing 20 % (fairly sure)`` from the summary of a forecast."""
    if not summary.get("known", True):
        return unknown(str(summary.get("reason") or ""))
    if not summary.get("positions", True):
        return "no places are known yet: they are found where several walks have ended"
    shares = sorted(summary["shares"].items(), key=lambda row: -row[1])
    likely = [with_share(name, share) for name, share in shares[:_SHOWN_PLACES] if share >= _LEAST_SHARE]
    sure = how_sure(summary.get("entropy"))
    text = ", ".join(likely) + (f" ({sure})" if sure else "")
    if summary.get("unfamiliar", 0.0) >= _UNFAMILIAR:
        text += ", but this walk follows no recorded habit"
    return text


def first_model_words(walks: int, needed: int) -> str:
    """How many walks there are and how many the first model needs."""
    if walks >= needed:
        return f"{counted(walks, 'walk')} stored."
    return f"{counted(walks, 'walk')} stored; the first model needs {needed}."


def walks_words(trainer: NodeReport) -> str:
    """Walks stored, walks that are being learnt, and walks that the model in use has learnt."""
    if not math.isfinite(trainer.number("walks")):
        return "waiting for the nodes"
    text = first_model_words(int(trainer.number("walks")), int(_or(trainer.number("walks_needed"), 0)))
    if trainer.figures.get("state") == "training":
        text += f" Learning from {_or(trainer.number('walks_in_training'), trainer.number('walks')):.0f} of them …"
    if trainer.figures.get("model", "none") != "none":
        text += f" The model in use has learnt from {trainer.number('walks_learned'):.0f}."
    return text


def node_words(report: NodeReport, silent_s: float) -> str:
    """One sentence about a node; ``silent_s``: how long nothing was heard from it."""
    if silent_s > 0.0:
        return f"not heard from for {silent_s:.0f} s"
    if report.level != OK:
        return report.message
    return {"slam_node": _slam, "trainer_node": _training, "forecast_node": _forecasts}.get(report.node, _plain)(report)


def replay_words(report: NodeReport) -> str:
    """Where a replay or a simulation is."""
    text = f"{_minutes(report.number('position_s'))} of {_minutes(report.number('length_s'))}"
    return f"{text}, paused" if report.figures.get("paused") == "True" else text


def _slam(report: NodeReport) -> str:
    doing = "locating on the given map" if report.figures.get("mode") == "localisation" else "mapping"
    rate, delay_ms = report.number("scan_rate_hz"), report.number("scan_to_pose_median_ms")
    text = f"{doing}, {rate:.0f} scans a second" if math.isfinite(rate) else doing
    text += f", each with its pose within {_duration(delay_ms)}" if math.isfinite(delay_ms) else ""
    lost = report.number("scans_dropped")
    return text + (f", {lost:.0f} lost" if lost > 0 else "")


def _training(report: NodeReport) -> str:
    walks, learned, needed = (int(_or(report.number(k), 0)) for k in ("walks", "walks_learned", "walks_needed"))
    if report.figures.get("state") == "training":
        step = report.figures.get("step", "")
        walks = int(_or(report.number("walks_in_training"), walks))
        return f"learning from {counted(walks, 'walk')}" + (
            f", step {step}" if step and not step.endswith(" 0") else ""
        )
    if report.figures.get("model", "none") == "none":
        return f"waiting for walks: {walks} of {needed} for the first model"
    new = walks - learned
    return f"model learnt from {counted(learned, 'walk')}" + (f", {counted(new, 'new walk')} since" if new > 0 else "")


def _forecasts(report: NodeReport) -> str:
    delay_ms = report.number("pose_to_markers_median_ms")
    late = f", {_duration(delay_ms)} after the pose" if math.isfinite(delay_ms) else ""
    return f"forecasting{late}"


def _plain(report: NodeReport) -> str:
    return report.message or "running"


def _or(value: float, otherwise: float) -> float:
    return value if math.isfinite(value) else otherwise


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000.0 else f"{1e-3 * milliseconds:.1f} s"


def _minutes(seconds: float) -> str:
    whole = int(_or(seconds, 0.0))
    return (
        f"{whole // 60}:{whole % 60:02d}"
        if whole < 3600
        else f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    )
