"""The figures of ``behaviour`` and ``counterfactual``: sampled paths on the floor plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from svfm_ros.experiments.paper_walks import PaperAnswer, PaperPaths
from svfm_ros.figures.home_example import SHOWN, Answer, Learnt, targets
from svfm_ros.figures.house_figure import draw_house, draw_paths, label_shares, readable
from svfm_ros.forecasting.scores import entropy
from svfm_ros.sim.house import House
from svfm_ros.sim.walker import ANCHOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_behaviour", "draw_counterfactual"]


def draw_behaviour(house: House, learnt: Sequence[Learnt], paper: Sequence[PaperPaths]) -> "Figure":
    """Paths of the first seed by the paper's training and by the walk model, and the shares of all seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 6.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(3.2, 3.2, 1.2))
    _draw_answer(left, house, paper[0].answers[0], f"SVFM, the paper's training: {SHOWN} paths")
    _draw_answer(middle, house, learnt[0].answers[0], f"walk model: {SHOWN} paths")
    _draw_shares(right, house, learnt, paper)
    return figure


def draw_counterfactual(house: House, learnt: Learnt, paper: Sequence[PaperPaths]) -> "Figure":
    """By day and had it been night: SVFM by the paper's training, the walk model, and VF and A-VF."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 18), layout="constrained")
    mixture, *single = paper
    *pairs, single_axes = figure.subplots(3, 2)
    runs: tuple[tuple[str, Learnt | PaperPaths], ...] = (("SVFM", mixture), ("walk model", learnt))
    for axes, (name, run) in zip(pairs, runs, strict=True):
        answers: list[Answer | PaperAnswer] = [*run.answers[:2]]
        for axis, answer, when in zip(axes, answers, ("by day", "had it been night"), strict=True):
            _draw_answer(axis, house, answer, f"{name}, {when}, {_clock(answer.hour)}")
    for axis, field in zip(single_axes, single, strict=True):
        _draw_single(axis, house, field)
    return figure


def _clock(hour: float) -> str:
    return f"{int(hour):02d}:{round(60 * (hour % 1)):02d}"


def _draw_answer(axis: "Axes", house: House, answer: Answer | PaperAnswer, title: str) -> None:
    draw_house(axis, house)
    draw_paths(axis, answer.paths, house.places)
    label_shares(axis, house.place(ANCHOR), targets(house), answer.shares)
    axis.set_title(f"{title}, entropy {entropy(answer.shares):.2f} nats", fontsize=12)


def _draw_single(axis: "Axes", house: House, run: PaperPaths) -> None:
    """All paths of one hour are the same, so one is drawn for day and one for night."""
    draw_house(axis, house)
    label_shares(axis, house.place(ANCHOR), targets(house), None)
    for answer, aside in zip(run.answers[:2], (-0.4, 0.4), strict=True):
        draw_paths(axis, answer.paths[:1], house.places, width=2.4, alpha=1.0)
        x, y = answer.paths[0, answer.paths.shape[1] // 6]
        axis.text(x, y + aside, _clock(answer.hour), ha="center", va="center", fontsize=10, zorder=6)
    axis.set_title(f"{run.task.model}: {SHOWN} times the same path at each hour", fontsize=12)


def _draw_shares(axis: "Axes", house: House, learnt: Sequence[Learnt], paper: Sequence[PaperPaths]) -> None:
    """Mean shares of all seeds with their standard deviations: paper's training above, walk model below."""
    places = targets(house)
    rows = np.arange(len(places))[::-1]
    data = np.mean([[k.data[p.name] for p in places] for k in learnt], axis=0)
    kinds: tuple[tuple[str, Sequence[Learnt] | Sequence[PaperPaths], float, float], ...] = (
        ("SVFM (pale)", paper, 0.19, 0.4),
        ("walk model", learnt, -0.19, 0.85),
    )
    for _, runs, aside, alpha in kinds:
        found = np.array([[run.answers[0].shares[p.name] for p in places] for run in runs])  # (seeds, P)
        axis.barh(rows + aside, found.mean(0), height=0.36, color=[p.colour for p in places], alpha=alpha)
        axis.errorbar(found.mean(0), rows + aside, xerr=found.std(0), fmt="none", ecolor="black", capsize=3)
    axis.plot(data, rows, "D", color="black", markerfacecolor="white", markersize=8, label="the walks learnt from")
    axis.set_yticks(rows, [readable(p.name) for p in places])
    axis.set_xlabel("share of the ends")
    axis.set_title(f"{kinds[0][0]}, {kinds[1][0]}: {len(learnt)} seed{'s' if len(learnt) > 1 else ''}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.45, -0.12), frameon=False)
    axis.set_box_aspect(1.5)
