"""The first lines of the report: what the walks show, in sentences that need no knowledge of statistics."""

import math
from collections.abc import Sequence
from datetime import date
from statistics import median

from svfm_ros.report.calibration import Calibration
from svfm_ros.report.over_time import Estimate, OverTime, Period
from svfm_ros.wording import counted, percent

__all__ = ["calibration_words", "day_text", "sentences"]

_WELL_CALIBRATED, _ROUGHLY_CALIBRATED = 0.05, 0.1  # of probability, at the 50 % and the 90 % region
_SLOW_TREND, _LEAST_TREND = (
    0.01,
    0.01,
)  # m/s: below it a month, a trend is given by the year; below it a year, not at all
_FEW_WALKS = 10  # are too few for a verdict
_LEAST_SHARE = 0.005  # less is said to be nothing


def sentences(shown: OverTime, walks: int, names: Sequence[str], calibration: Calibration | None) -> list[str]:
    """One sentence on each subject, the most important first."""
    now = _latest(shown.periods)
    days = sum(p.days for p in shown.periods)
    a_day = f"{walks / days:.1f} a day{_against(now, shown.baseline, 'walks_per_day')}"
    found = [f"{counted(walks, 'walk')} on {counted(days, 'day')}, {a_day}."]
    nights = sum(p.night_walks.value * p.days for p in shown.periods) / days
    at_night = f"{nights:.1f} a night" if nights > 0.0 else "none"
    found.append(f"Night walks (22:00 to 06:00): {at_night}{_against(now, shown.baseline, 'night_walks')}.")
    found += [_speed(shown), _predictability(shown, len(names)), _changes(shown, names)]
    if now.unfamiliar is not None and now.unfamiliar.value >= _LEAST_SHARE:
        found.append(
            f"{percent(now.unfamiliar.value)} of the latest walking follows no habit that was recorded before."
        )
    found.append(_calibration(calibration))
    return [text for text in found if text]


def _latest(periods: Sequence[Period]) -> Period:
    """The last period that is no mere rest, such as the first day of a week: half as many walks as usual, or more."""
    usual = median(p.walks for p in periods)
    return next(p for p in reversed(periods) if p.walks >= 0.5 * usual)


def day_text(iso: str) -> str:
    """``2 November 2026`` from ``2026-11-02``."""
    day = date.fromisoformat(iso)
    return f"{day.day} {day:%B %Y}"


def _against(now: Period, baseline: Period | None, name: str) -> str:
    """Whether the latest period differs from the person's own baseline by more than chance."""
    if baseline is None or baseline.first == now.first:
        return ""
    usual, latest = getattr(baseline, name), getattr(now, name)
    if name not in now.unusual:
        return ", about as at first"
    way = "more" if latest.value > usual.value else "fewer"
    return f", of late {way} than at first ({latest.value:.1f}, at first {usual.value:.1f})"


def _speed(shown: OverTime) -> str:
    speeds = [(p.speed_m_s.value, p.walks) for p in shown.periods if p.speed_m_s is not None]
    if not speeds:
        return ""
    mean = sum(v * n for v, n in speeds) / sum(n for _, n in speeds)
    text, trend = f"Walking speed: {mean:.2f} m/s", shown.speed_trend
    if trend is None:
        return text + "."
    change, span = (
        (trend.per_month, "month") if abs(trend.per_month) >= _SLOW_TREND else (12.0 * trend.per_month, "year")
    )
    if trend.low <= 0.0 <= trend.high or abs(change) < _LEAST_TREND:
        return text + ", without a clear trend."
    way = "rising" if trend.per_month > 0 else "falling"
    return f"{text}, {way} by {abs(change):.2f} m/s a {span}."


def _predictability(shown: OverTime, places: int) -> str:
    if places < 2:
        return "There is only one place people walk to, so there is no wandering index."
    known = [p for p in shown.periods if p.index is not None]
    if not known:
        return "There are too few walks for a wandering index."
    latest = _latest(known)
    assert latest.index is not None
    text = f"Wandering index {latest.index.value:.2f}: walks are as hard to foresee as a choice between "
    text += _choices(latest.index, places)
    usual = shown.baseline.index if shown.baseline is not None else None
    if usual is None:
        return text + "."
    return text + (f" (at first {_choices(usual, places)})." if "index" in latest.unusual else ", about as at first.")


def _choices(index: Estimate, places: int) -> str:
    count = min(math.exp(index.value), places + 1.0)  # elsewhere counts as one
    return f"{count:.1f} equally likely places"


def _changes(shown: OverTime, names: Sequence[str]) -> str:
    if shown.described:
        return f"Habits changed: {'; '.join(change.text(names) for change in shown.described)}."
    days = sum(p.days for p in shown.periods)
    return "No change of habits was found." if days >= 10 else ""


def _calibration(found: Calibration | None) -> str:
    if found is None:
        return ""
    held = dict(zip(found.regions, found.held, strict=True))
    return calibration_words(held[0.5], held[0.9], found.walks)


def calibration_words(held_50: float, held_90: float, walks: int) -> str:
    """Whether forecasts can be relied on, in one sentence, by how often their 50 % and 90 % regions held the truth."""
    if walks < _FEW_WALKS:
        return f"{counted(walks, 'walk')} to check the forecasts on: too few to tell whether they can be relied on."
    happened = (
        f"what they called 90 % likely happened in {percent(held_90)} of the cases, what they called 50 % likely in "
        f"{percent(held_50)}"
    )
    off = max(held_50 - 0.5, held_90 - 0.9, key=abs)
    way = "too sure" if off < 0.0 else "more careful than they need to be"
    if abs(off) <= _WELL_CALIBRATED:
        return f"The forecasts can be relied on: {happened}."
    if abs(off) <= _ROUGHLY_CALIBRATED:
        return f"The forecasts can roughly be relied on, but are somewhat {way}: {happened}."
    return f"The forecasts are {way}: {happened}."
