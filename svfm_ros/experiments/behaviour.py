"""Where people go from the couch: 200 paths on the floor plan (fig. 10a), and the same had it been night (fig. 10b).

By day the walks go anywhere, at night to the landing (0.9) or the kitchen (0.1). A person with habits walks differently
at night, one who wanders does not: the entropy of where they go says which.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from svfm_ros.config.sim_config import HabitConfig
from svfm_ros.experiments.behaviour_figure import draw_behaviour, draw_counterfactual
from svfm_ros.experiments.experiment import ExperimentResult, Tick, run_all
from svfm_ros.experiments.single_fields import SingleField, SingleTask, learn_single
from svfm_ros.figures.home_example import HomeTask, Learnt, learn_home, targets
from svfm_ros.figures.house_figure import readable
from svfm_ros.forecasting.scores import entropy, total_variation
from svfm_ros.sim.house import House, load_house
from svfm_ros.targets import Check, at_least, at_most, within
from svfm_ros.types import Places

__all__ = ["run_behaviour", "run_counterfactual"]

Shares = Mapping[str, float]

_SEEDS = 3
_ELSEWHERE = "elsewhere"
_BAR = 0.05
_WALKS, _QUICK_WALKS = 40, 12  # of the paper's protocol
_HABIT_WALKS, _QUICK_HABIT_WALKS = 320, 32  # over day and night
_STEPS, _QUICK_STEPS = 300, 30
_SINGLE_STEPS, _QUICK_SINGLE_STEPS = 250, 20
_AUGMENT = 2
_PROTOCOL_HOUR = 10.0 + 20.0 / 60.0  # the middle of the recordings
_DAY_HOUR, _NIGHT_HOUR = 14.0, 2.0  # the middle of each
_DAY_HOURS, _NIGHT_HOURS = tuple(np.arange(7.0, 22.0, 2.0).tolist()), (23.0, 1.0, 3.0, 5.0)  # all over each


def run_behaviour(quick: bool, tick: Tick) -> ExperimentResult:
    """Train on the paper's protocol, 4 x 10 walks; do the forecasts end where the walks did?"""
    house, seeds = load_house(), range(1 if quick else _SEEDS)
    walks, steps = (_QUICK_WALKS, _QUICK_STEPS) if quick else (_WALKS, _STEPS)
    tasks = [HomeTask("protocol", walks, seed, steps, _PROTOCOL_HOUR) for seed in seeds]
    learnt = run_all(learn_home, tasks, tick, "learning walks:")
    names = [p.name for p in targets(house)]
    return ExperimentResult(
        "behaviour",
        f"where paths from the couch end, {walks} walks to learn from, {len(tasks)} seeds",
        ("place", "share of the walks", "share of the paths", "spread over seeds", "worst seed off by"),
        tuple(_place_row(name, learnt) for name in [*names, _ELSEWHERE]),
        tuple(_behaviour_checks(names, learnt)),
        lambda: draw_behaviour(house, learnt),
    )


def _place_row(name: str, learnt: Sequence[Learnt]) -> tuple[str, float, float, float, float]:
    data = np.array([k.data.get(name, 0.0) for k in learnt])
    found = np.array([k.answers[0].shares[name] for k in learnt])
    off = np.abs(found - data).max()
    return readable(name), float(data.mean()), float(found.mean()), float(found.std()), float(off)


def _behaviour_checks(names: Sequence[str], learnt: Sequence[Learnt]) -> list[Check]:
    answers = [k.answers[0] for k in learnt]
    off = [abs(a.shares[name] - k.data[name]) for a, k in zip(answers, learnt, strict=True) for name in names]
    apart = [total_variation(a.shares, k.data) for a, k in zip(answers, learnt, strict=True)]
    reached = [sum(a.shares[name] > _BAR for name in names) for a in answers]
    return [
        at_least("places with a bundle of paths, worst seed", min(reached), len(names)),
        at_most("share of any place, off the walks', worst seed", max(off), _BAR),
        at_most("all shares, total variation to the walks', worst seed", max(apart), _BAR),
        at_most("paths that end in no place, share, worst seed", max(a.shares[_ELSEWHERE] for a in answers), _BAR),
    ]


def run_counterfactual(quick: bool, tick: Tick) -> ExperimentResult:
    """Train on walks over day and night; ask by day, and what if it had been night. VF and A-VF beside it."""
    house, seeds = load_house(), range(1 if quick else _SEEDS)
    walks, steps = (_QUICK_HABIT_WALKS, _QUICK_STEPS) if quick else (_HABIT_WALKS, _STEPS)
    every = 4 if quick else 1
    what_ifs = (_NIGHT_HOUR, *_DAY_HOURS[::every], *_NIGHT_HOURS[::every])
    homes = [HomeTask("day and night", walks, seed, steps, _DAY_HOUR, what_ifs) for seed in seeds]
    single_steps = _QUICK_SINGLE_STEPS if quick else _SINGLE_STEPS
    asked = [HomeTask("day and night", walks, seed, steps, _DAY_HOUR, (_NIGHT_HOUR,)) for seed in seeds]
    singles = [SingleTask(home, augment, single_steps) for augment in (0, _AUGMENT) for home in asked]
    tasks: list[HomeTask | SingleTask] = [*homes, *singles]
    found = run_all(_learn, tasks, tick, "learning walks:")
    learnt = [k for k in found if isinstance(k, Learnt)]
    fields = [k for k in found if isinstance(k, SingleField)]
    return ExperimentResult(
        "counterfactual",
        f"where paths from the couch end by the hour, {walks} walks to learn from, means of {len(homes)} seeds",
        ("asked", *(readable(p.name).split()[-1] for p in targets(house)), "none", "nats", "off", "±"),
        tuple(_counterfactual_rows(house, learnt, fields)),
        tuple(_counterfactual_checks(house, learnt, fields)),
        lambda: draw_counterfactual(house, learnt[0], [f for f in fields if f.task.home.seed == 0]),
        (
            "none: in no place; nats: entropy; ±: largest standard deviation of a share over seeds",
            "off: total variation to the habits, of which the walks learnt from are a sample",
            "an hour rests on the few walks around it; day and night alone are means over all their hours",
        ),
    )


def _learn(task: HomeTask | SingleTask) -> Learnt | SingleField:
    return learn_home(task) if isinstance(task, HomeTask) else learn_single(task)


def _truth(house: House, night: bool) -> dict[str, float]:
    """The habits the walks were drawn from."""
    share = HabitConfig().night_landing
    if night:
        return {"landing": share, "kitchen": 1.0 - share}
    return {p.name: 1.0 / len(targets(house)) for p in targets(house)}


def _counterfactual_rows(
    house: House, learnt: Sequence[Learnt], fields: Sequence[SingleField]
) -> list[tuple[str | float, ...]]:
    day, night = _truth(house, night=False), _truth(house, night=True)
    at = lambda *hours: [_mean_shares(k, hours) for k in learnt]  # noqa: E731
    rows = [
        _row(house, "truth day", [day], day),
        _row(house, "SVFM 14:00", at(_DAY_HOUR), day),
        _row(house, "SVFM day", at(*_DAY_HOURS), day),
        _row(house, "truth night", [night], night),
        _row(house, "SVFM 02:00", at(_NIGHT_HOUR), night),
        _row(house, "SVFM night", at(*_NIGHT_HOURS), night),
    ]
    for name in ("VF", "A-VF"):
        own = [f for f in fields if f.task.name == name]
        for i, (hour, truth) in enumerate((("14:00", day), ("02:00", night))):
            rows.append(_row(house, f"{name} {hour}", [_ends(f, i, house.places) for f in own], truth))
    return rows


def _mean_shares(learnt: Learnt, hours: Sequence[float]) -> dict[str, float]:
    chosen = [a.shares for a in learnt.answers if a.hour in hours]
    return {name: float(np.mean([s[name] for s in chosen])) for name in chosen[0]}


def _ends(field: SingleField, asked: int, places: Places) -> dict[str, float]:
    """Shares of the paths of a single field, as of any other forecast."""
    index = places.assign(field.paths[asked][:, -1])
    shares = {name: float((index == i).mean()) for i, name in enumerate(places.names)}
    return {**shares, _ELSEWHERE: float((index < 0).mean())}


def _row(house: House, asked: str, shares: Sequence[Shares], truth: Shares) -> tuple[str | float, ...]:
    """Means over seeds; last the largest standard deviation of a share over seeds."""
    names = [*(p.name for p in targets(house)), _ELSEWHERE]
    table = np.array([[s.get(name, 0.0) for name in names] for s in shares])  # (seeds, places)
    off = float(np.mean([total_variation(s, truth) for s in shares]))
    figures = (float(np.mean([entropy(s) for s in shares])), off, float(table.std(0).max()))
    return asked, *(round(share, 3) for share in table.mean(0).tolist()), *(round(value, 2) for value in figures)


def _counterfactual_checks(house: House, learnt: Sequence[Learnt], fields: Sequence[SingleField]) -> list[Check]:
    day = [_mean_shares(k, (_DAY_HOUR,)) for k in learnt]
    night = [_mean_shares(k, (_NIGHT_HOUR,)) for k in learnt]
    all_night = [_mean_shares(k, _NIGHT_HOURS) for k in learnt]
    checks = []
    for name, truth in _truth(house, night=True).items():
        mean = float(np.mean([n[name] for n in night]))
        worst = max((n[name] for n in all_night), key=lambda share: abs(share - truth))
        checks.append(within(f"had it been 02:00: {name}, mean over seeds", mean, truth, _BAR))
        checks.append(within(f"had it been night, all its hours: {name}, worst seed", worst, truth, _BAR))
    falls = [entropy(d) - entropy(n) for d, n in zip(day, night, strict=True)]
    checks.append(at_least("entropy falls from day to night, nats, worst seed", min(falls), 0.5))
    for name in ("VF", "A-VF"):
        checks += _single_checks(house, name, [f for f in fields if f.task.name == name])
    return checks


def _single_checks(house: House, name: str, fields: Sequence[SingleField]) -> list[Check]:
    """That one deterministic field cannot do it: one path whatever the seed, so by day at most one place of four."""
    apart = max(float(np.abs(paths - paths[0]).max()) for f in fields for paths in f.paths)
    truth = _truth(house, night=False)
    off = min(total_variation(_ends(f, 0, house.places), truth) for f in fields)
    return [
        at_most(f"{name}: distance between any two of its paths, m", apart, 1e-6),
        at_least(f"{name} by day: total variation to the truth, best seed (it fails)", off, 0.5),
    ]
