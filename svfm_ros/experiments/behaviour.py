"""Where people go from the couch: 200 paths on the floor plan (fig. 10a), and the same had it been night (fig. 10b).

By day the walks go to all four places alike, at night to the landing (0.9) or the kitchen (0.1). Two trainings are
compared: the paper's (SVFM with FLoss, MDLoss and the time tuple; VF and A-VF with the squared error), and that of the
walk model behind ``svfm train``. Both learn from the same simulated walks, and the ends of walks and of sampled paths
are counted by the same rule: where they are after the longest walk has ended, within the radius of a place.

The walk model lets habits change at every quarter of an hour. In a recording session of 40 minutes the walks to one
place may gather in one quarter by chance; the shares at that time then differ from those of all walks.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from svfm_ros.config.sim_config import HabitConfig
from svfm_ros.experiments.experiment import ExperimentResult, Tick, run_all
from svfm_ros.experiments.paper_walks import MODELS, PaperPaths, PaperTask, learn_paper_model
from svfm_ros.figures.home_example import ELSEWHERE, SHOWN, HomeTask, Learnt, PathsAtHour, learn_home, targets
from svfm_ros.figures.house_figure import draw_house, draw_paths, label_shares
from svfm_ros.forecasting.scores import entropy, total_variation
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.walker import ANCHOR
from svfm_ros.targets import Check, at_least, at_most, within
from svfm_ros.wording import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_behaviour", "draw_counterfactual", "run_behaviour", "run_counterfactual"]

Shares = Mapping[str, float]

_SEEDS = 3
_TOLERANCE = 0.05  # of a share
_WALKS, _QUICK_WALKS = 40, 12  # of the paper's protocol
_HABIT_WALKS, _QUICK_HABIT_WALKS = 320, 32  # over day and night
_PAPER_STEPS, _QUICK_PAPER_STEPS = 300, 15  # of the paper's models
_PROTOCOL_HOUR = 10.0 + 20.0 / 60.0  # the middle of the recordings
_DAY_HOUR, _NIGHT_HOUR = 14.0, 2.0  # the middle of each
_DAY_HOURS, _NIGHT_HOURS = tuple(np.arange(7.0, 22.0, 2.0).tolist()), (23.0, 1.0, 3.0, 5.0)  # all over each
_SINGLE = ("VF", "A-VF")


def run_behaviour(quick: bool, tick: Tick) -> ExperimentResult:
    """Train on the paper's protocol, 4 x 10 walks, and compare where sampled paths end with where the walks did."""
    house, seeds = load_house(), range(1 if quick else _SEEDS)
    walks, paper_steps = (_QUICK_WALKS, _QUICK_PAPER_STEPS) if quick else (_WALKS, _PAPER_STEPS)
    homes = [HomeTask("protocol", walks, seed, _PROTOCOL_HOUR) for seed in seeds]
    learnt, paper = _learn_all(homes, [PaperTask(h, "SVFM", paper_steps) for h in homes], tick)
    names = [p.name for p in targets(house)]
    return ExperimentResult(
        "behaviour",
        f"where paths from the couch end, {walks} walks to learn from, {len(homes)} seeds",
        ("place", "walks", "paper's SVFM", "±", "worst off by", "walk model", "± ", "worst off by "),
        tuple(_place_row(name, learnt, paper) for name in [*names, ELSEWHERE]),
        tuple(_behaviour_checks(names, learnt, paper)),
        lambda: draw_behaviour(house, learnt, paper),
        ("shares of the ends, means over seeds; ±: standard deviation over seeds; worst: the seed that is off most",),
    )


def _learn_all(
    homes: Sequence[HomeTask], papers: Sequence[PaperTask], tick: Tick
) -> tuple[list[Learnt], list[PaperPaths]]:
    """Both trainings, in parallel."""
    tasks: list[HomeTask | PaperTask] = [*papers, *homes]
    found = run_all(_learn, tasks, tick, "learning walks:")
    return [k for k in found if isinstance(k, Learnt)], [k for k in found if isinstance(k, PaperPaths)]


def _learn(task: HomeTask | PaperTask) -> Learnt | PaperPaths:
    return learn_home(task) if isinstance(task, HomeTask) else learn_paper_model(task)


def _place_row(name: str, learnt: Sequence[Learnt], paper: Sequence[PaperPaths]) -> tuple[str | float, ...]:
    data = np.array([k.data.get(name, 0.0) for k in learnt])
    row: list[str | float] = [readable(name), float(data.mean())]
    for models in (paper, learnt):
        found = np.array([m.answers[0].shares[name] for m in models])
        row += [float(found.mean()), float(found.std()), float(np.abs(found - data).max())]
    return tuple(row)


def _behaviour_checks(names: Sequence[str], learnt: Sequence[Learnt], paper: Sequence[PaperPaths]) -> list[Check]:
    data = [k.data for k in learnt]
    checks = _share_checks("paper's SVFM", names, [p.answers[0].shares for p in paper], data)
    return checks + _share_checks("walk model", names, [k.answers[0].shares for k in learnt], data)


def _share_checks(model: str, names: Sequence[str], shares: Sequence[Shares], data: Sequence[Shares]) -> list[Check]:
    off = [abs(s[name] - d[name]) for s, d in zip(shares, data, strict=True) for name in names]
    apart = [total_variation(s, d) for s, d in zip(shares, data, strict=True)]
    reached = [sum(s[name] > _TOLERANCE for name in names) for s in shares]
    return [
        at_least(f"{model}: places that paths end in, worst seed", min(reached), len(names)),
        at_most(f"{model}: share of any place, off the walks', worst seed", max(off), _TOLERANCE),
        at_most(f"{model}: all shares, total variation to the walks', worst seed", max(apart), _TOLERANCE),
        at_most(f"{model}: paths that end in no place, worst seed", max(s[ELSEWHERE] for s in shares), _TOLERANCE),
    ]


def run_counterfactual(quick: bool, tick: Tick) -> ExperimentResult:
    """Train on walks over day and night; forecasts by day, and had it been night."""
    house, seeds = load_house(), range(1 if quick else _SEEDS)
    walks, paper_steps = (_QUICK_HABIT_WALKS, _QUICK_PAPER_STEPS) if quick else (_HABIT_WALKS, _PAPER_STEPS)
    every = 4 if quick else 1
    what_ifs = (_NIGHT_HOUR, *_DAY_HOURS[::every], *_NIGHT_HOURS[::every])
    homes = [HomeTask("day and night", walks, seed, _DAY_HOUR, what_ifs) for seed in seeds]
    papers = [PaperTask(home, model, paper_steps) for model in MODELS for home in homes]
    learnt, paper = _learn_all(homes, papers, tick)
    return ExperimentResult(
        "counterfactual",
        f"where paths from the couch end by the hour, {walks} walks to learn from, means of {len(homes)} seeds",
        ("model", "hour", *(readable(p.name).split()[-1] for p in targets(house)), "none", "nats", "off", "±"),
        tuple(_counterfactual_rows(house, learnt, paper)),
        tuple(_counterfactual_checks(house, learnt, paper)),
        lambda: draw_counterfactual(house, learnt[0], [p for p in paper if p.task.home.seed == 0]),
        (
            "none: in no place; nats: entropy; ±: largest standard deviation of a share over seeds",
            "off: total variation to the habits, of which the walks learnt from are a sample",
            "SVFM, VF, A-VF: the paper's training; an hour rests on the few walks around it, day and night are means",
        ),
    )


def _truth(house: House, night: bool) -> dict[str, float]:
    """The habits the walks were drawn from."""
    share = HabitConfig().night_landing
    if night:
        return {"landing": share, "kitchen": 1.0 - share}
    return {p.name: 1.0 / len(targets(house)) for p in targets(house)}


def _counterfactual_rows(
    house: House, learnt: Sequence[Learnt], paper: Sequence[PaperPaths]
) -> list[tuple[str | float, ...]]:
    models: dict[str, Sequence[Learnt] | Sequence[PaperPaths]] = {
        name: [p for p in paper if p.task.model == name] for name in MODELS
    }
    rows = []
    for night, hours, one in ((False, _DAY_HOURS, _DAY_HOUR), (True, _NIGHT_HOURS, _NIGHT_HOUR)):
        truth, period = _truth(house, night), "night" if night else "day"
        rows.append(_row(house, "truth", period, [truth], truth))
        for name, runs in {**models, "walk model": learnt}.items():
            for label, chosen in ((f"{one:02.0f}:00", (one,)), (period, hours)):
                if name not in _SINGLE or len(chosen) == 1:
                    rows.append(_row(house, name, label, [_mean_shares(k, chosen) for k in runs], truth))
    return rows


def _mean_shares(run: Learnt | PaperPaths, hours: Sequence[float]) -> dict[str, float]:
    chosen = [a.shares for a in run.answers if a.hour in hours]
    return {name: float(np.mean([s[name] for s in chosen])) for name in chosen[0]}


def _row(house: House, model: str, hour: str, shares: Sequence[Shares], truth: Shares) -> tuple[str | float, ...]:
    """Means over seeds; last the largest standard deviation of a share over seeds."""
    names = [*(p.name for p in targets(house)), ELSEWHERE]
    table = np.array([[s.get(name, 0.0) for name in names] for s in shares])  # (seeds, places)
    off = float(np.mean([total_variation(s, truth) for s in shares]))
    figures = (float(np.mean([entropy(s) for s in shares])), off, float(table.std(0).max()))
    return model, hour, *(round(share, 3) for share in table.mean(0).tolist()), *(round(value, 2) for value in figures)


def _counterfactual_checks(house: House, learnt: Sequence[Learnt], paper: Sequence[PaperPaths]) -> list[Check]:
    mixtures = [p for p in paper if p.task.model == "SVFM"]
    checks = _night_checks(house, "paper's SVFM", mixtures) + _night_checks(house, "walk model", learnt)
    for name in _SINGLE:
        checks += _single_checks(house, name, [p for p in paper if p.task.model == name])
    return checks


def _night_checks(house: House, model: str, runs: Sequence[Learnt] | Sequence[PaperPaths]) -> list[Check]:
    day, night = ([_mean_shares(k, (hour,)) for k in runs] for hour in (_DAY_HOUR, _NIGHT_HOUR))
    all_night = [_mean_shares(k, _NIGHT_HOURS) for k in runs]
    checks = []
    for name, truth in _truth(house, night=True).items():
        mean = float(np.mean([n[name] for n in night]))
        worst = max((n[name] for n in all_night), key=lambda share: abs(share - truth))
        checks.append(within(f"{model}, had it been 02:00: {name}, mean over seeds", mean, truth, _TOLERANCE))
        checks.append(within(f"{model}, had it been night: {name}, worst seed", worst, truth, _TOLERANCE))
    falls = [entropy(d) - entropy(n) for d, n in zip(day, night, strict=True)]
    checks.append(at_least(f"{model}: entropy falls from day to night, nats, worst seed", min(falls), 0.5))
    return checks


def _single_checks(house: House, name: str, runs: Sequence[PaperPaths]) -> list[Check]:
    """That one deterministic field cannot do it: one path whatever the seed, so by day at most one place of four."""
    apart = max(float(np.abs(a.paths - a.paths[0]).max()) for run in runs for a in run.answers)
    off = min(total_variation(_mean_shares(run, (_DAY_HOUR,)), _truth(house, night=False)) for run in runs)
    return [
        at_most(f"{name}: distance between any two of its paths, m", apart, 1e-6),
        at_least(f"{name} by day: total variation to the truth, best seed (it fails)", off, 0.5),
    ]


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
        for axis, answer, when in zip(axes, run.answers[:2], ("by day", "had it been night"), strict=True):
            _draw_answer(axis, house, answer, f"{name}, {when}, {_clock(answer.hour)}")
    for axis, field in zip(single_axes, single, strict=True):
        _draw_single(axis, house, field)
    return figure


def _clock(hour: float) -> str:
    return f"{int(hour):02d}:{round(60 * (hour % 1)):02d}"


def _draw_answer(axis: "Axes", house: House, answer: PathsAtHour, title: str) -> None:
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
