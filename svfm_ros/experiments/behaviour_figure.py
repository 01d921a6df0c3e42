"""The pictures of ``behaviour`` and ``counterfactual``: the house from above, with where people would go."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from svfm_ros.experiments.single_fields import SingleField
from svfm_ros.figures.home_example import SHOWN, Answer, Learnt, targets
from svfm_ros.figures.house_figure import draw_house, draw_paths, label_shares, readable
from svfm_ros.sim.house import House
from svfm_ros.sim.walker import ANCHOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_behaviour", "draw_counterfactual"]


def draw_behaviour(house: House, learnt: Sequence[Learnt]) -> "Figure":
    """Paths of the first seed on the floor plan; beside it the shares of all seeds against the walks'."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3.2, 1))
    answer = learnt[0].answers[0]
    _draw_answer(left, house, answer)
    left.set_title(f"{SHOWN} paths from the couch, entropy {answer.entropy:.2f} nats", fontsize=12)
    _draw_shares(right, house, learnt)
    return figure


def draw_counterfactual(house: House, learnt: Learnt, fields: Sequence[SingleField]) -> "Figure":
    """By day, had it been night, and what VF and A-VF make of both."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 12), layout="constrained")
    (day_axis, night_axis), single_axes = figure.subplots(2, 2)
    day, night = learnt.answers[:2]
    for axis, answer, when in ((day_axis, day, "SVFM by day"), (night_axis, night, "SVFM, had it been night")):
        _draw_answer(axis, house, answer)
        axis.set_title(f"{when}, {_clock(answer.hour)}: entropy {answer.entropy:.2f} nats", fontsize=12)
    for axis, field in zip(single_axes, fields, strict=True):
        _draw_single(axis, house, field)
    return figure


def _clock(hour: float) -> str:
    return f"{int(hour):02d}:{round(60 * (hour % 1)):02d}"


def _draw_answer(axis: "Axes", house: House, answer: Answer) -> None:
    draw_house(axis, house)
    draw_paths(axis, answer.paths, house.places)
    label_shares(axis, house.place(ANCHOR), targets(house), answer.shares)


def _draw_single(axis: "Axes", house: House, field: SingleField) -> None:
    """All paths of one hour lie on one line, so a line each is drawn for day and for night."""
    draw_house(axis, house)
    label_shares(axis, house.place(ANCHOR), targets(house), None)
    for hour, paths, aside in zip(field.hours, field.paths, (-0.4, 0.4), strict=True):
        draw_paths(axis, paths[:1], house.places, width=2.4, alpha=1.0)
        x, y = paths[0, paths.shape[1] // 6]
        axis.text(x, y + aside, _clock(hour), ha="center", va="center", fontsize=10, zorder=6)
    axis.set_title(f"{field.task.name}: {SHOWN} times the same path at each hour", fontsize=12)


def _draw_shares(axis: "Axes", house: House, learnt: Sequence[Learnt]) -> None:
    places = targets(house)
    rows = np.arange(len(places))[::-1]
    found = np.array([[k.answers[0].shares[p.name] for p in places] for k in learnt])  # (seeds, P)
    data = np.mean([[k.data[p.name] for p in places] for k in learnt], axis=0)
    axis.barh(rows, found.mean(0), height=0.5, color=[p.colour for p in places], alpha=0.75)
    axis.errorbar(found.mean(0), rows, xerr=found.std(0), fmt="none", ecolor="black", elinewidth=1, capsize=4)
    axis.plot(data, rows, "D", color="black", markerfacecolor="white", markersize=8, label="the walks learnt from")
    axis.set_yticks(rows, [readable(p.name) for p in places])
    axis.set_xlim(0, 1.4 * max(float(data.max()), float(found.max())))
    axis.set_xlabel("share of the endpoints")
    axis.set_title(f"mean and spread of {len(learnt)} seed{'s' if len(learnt) > 1 else ''}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.45, -0.12), frameon=False)
    axis.set_box_aspect(1.5)
