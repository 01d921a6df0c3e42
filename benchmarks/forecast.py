"""Forecasts on simulated walks: ours and all comparators, from ground truth and through bag, SLAM and alignment.

Every forecaster learns the same N walks from the couch and is asked about the same walks it never saw, from their
starts; sampled paths are scored alike. *NLL/step* is that of whole walks under a forecaster's own density, *NLL ahead*
that of positions under a kernel density of the sampled ones. The paper's models are trained as in the paper, with as
much processor time as ours took. Then, for ours alone: what the walk so far is worth, day and night, walls, and
learning more walks later. A walk that has ended stays where it ended. Bars are those of the design; what misses one is
printed as a miss.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from svfm_ros.checks import Check, at_least, at_most, within
from svfm_ros.commands.output import add_json_argument, print_table, report
from svfm_ros.commands.recorded_walks import place_recordings
from svfm_ros.config.forecast import ForecastConfig, PathTrainConfig
from svfm_ros.config.sim import HabitConfig, LidarConfig, SimConfig
from svfm_ros.config.walks import WindowsConfig
from svfm_ros.datatypes import Pose2, Walk, WalkWindows
from svfm_ros.experiments.comparators import Bootstrap, ConstantVelocity, PathLikelihood, flattened, kernel_density
from svfm_ros.experiments.comparators import Forecaster as AnyForecaster
from svfm_ros.experiments.forecast_scores import Asked, Scores, ask_from_start, score
from svfm_ros.experiments.paper_forecasters import paper_forecasters
from svfm_ros.experiments.step_density import own_nll
from svfm_ros.sim.floorplan import floor_plan
from svfm_ros.sim.habits import is_night
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.recording import Recorder
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.walker import ANCHOR, LabelledWalk, route_book, simulate_habit, simulate_protocol
from svfm_ros.svfm.forecast import Forecaster
from svfm_ros.svfm.metrics import destination_log_loss, energy_distance, total_variation
from svfm_ros.svfm.modelfile import Footprints, WalkModelFile
from svfm_ros.svfm.pathtrain import as_batch, held_out_nll, train_paths
from svfm_ros.svfm.walls import Walls
from svfm_ros.walks.recorder import record_walks
from svfm_ros.walks.windows import make_windows

Array = NDArray[np.float64]

_SEED = 8100  # of everything here; no test and no tuning uses it
_TICKS = 40  # 16 s: longer than any walk takes
_SEEN = (0.0, 0.2, 0.4, 0.6, 0.8)
_HABITS = HabitConfig()
_OURS = "SVFM by path likelihood (ours)"


@dataclass(frozen=True, slots=True)
class Home:
    """The house, the ways through it and the walks that nobody learns from."""

    house: House
    book: RouteBook
    walks: tuple[LabelledWalk, ...]
    held_out: WalkWindows
    destinations: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 walks only, short trainings, nothing through SLAM")
    parser.add_argument("--seed", type=int, default=_SEED, help=f"of the walks ({_SEED})")
    parser.add_argument("--walks", type=int, nargs="+", help="numbers of training walks (10 40 160)")
    parser.add_argument("--no-slam", action="store_true", help="from ground truth alone")
    parser.add_argument("--night-seeds", type=int, default=3, help="trainings for day and night (3)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    counts = args.walks or ([40] if args.quick else [10, 40, 160])
    config = PathTrainConfig(steps=100) if args.quick else PathTrainConfig()
    home = _home(args.seed, 20 if args.quick else 40)
    checks: list[Check] = []
    payload: dict[str, Any] = {"seed": args.seed}
    for count in counts:
        _say(f"{count} walks")
        walks = _training(home, args.seed + 1, count)
        _compare(f"{count} walks, ground truth", home, _windows(walks), config, count, checks, payload, args.json)
    if not (args.quick or args.no_slam):
        _through_slam(home, args.seed + 1, counts, config, checks, payload, args.json)
    _unfolding(home, args.seed + 1, min(counts, key=lambda c: abs(c - 40)), config, checks, payload)
    _day_and_night(home, args.seed + 2, 160, 1 if args.quick else args.night_seeds, config, checks, payload)
    _going_on(home, args.seed + 3, config, checks, payload)
    return report("forecasts against their bars", checks, payload, args.json)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _home(seed: int, repeats: int) -> Home:
    house = load_house()
    book = route_book(house)
    walks = simulate_protocol(house, seed=seed, repeats=repeats, habits=_HABITS, book=book)
    return Home(house, book, tuple(walks), _windows(walks), tuple(w.destination for w in walks))


def _training(home: Home, seed: int, count: int) -> list[LabelledWalk]:
    """Equally many to each target, as in the paper; where that does not work out, a few targets get one more."""
    walks = simulate_protocol(home.house, seed=seed, repeats=-(-count // 4), habits=_HABITS, book=home.book)
    return walks[:count]


def _windows(walks: Sequence[LabelledWalk] | Sequence[Walk]) -> WalkWindows:
    plain = [w.walk if isinstance(w, LabelledWalk) else w for w in walks]
    return make_windows(plain, WindowsConfig(time_zone=_HABITS.time_zone))


def _compare(
    title: str,
    home: Home,
    train: WalkWindows,
    config: PathTrainConfig,
    count: int,
    checks: list[Check],
    payload: dict[str, Any],
    quiet: bool,
) -> None:
    """All forecasters on the same walks, and ours against the bars."""
    asked = ask_from_start(home.held_out, _TICKS)
    ours = PathLikelihood(config=config)
    began = time.process_time()
    ours.fit(train)
    fit_s = time.process_time() - began
    rows = [_with_own(ours, train, home, score(ours, asked, fit_s, home.house.places))]
    for other in (ConstantVelocity(), kernel_density(), Bootstrap(), *paper_forecasters(_TICKS, fit_s)):
        began = time.process_time()
        other.fit(train)
        rows.append(_with_own(other, train, home, score(other, asked, time.process_time() - began, home.house.places)))
    floors = _floors(home, train)
    payload[title] = {"scores": [asdict(r) for r in rows], **floors}
    if not quiet:
        _print(title, rows, floors)
    checks += _bars(title, count, rows, floors)


def _with_own(forecaster: AnyForecaster, train: WalkWindows, home: Home, scores: Scores) -> Scores:
    return replace(scores, own_nll=own_nll(forecaster, train, home.held_out))


def _floors(home: Home, train: WalkWindows) -> dict[str, float]:
    """Energy distance of the training walks themselves (the bar), and of two independent held-out sets (the floor)."""
    held_out = flattened(home.held_out, _TICKS)
    return {
        "replay_energy_m": energy_distance(flattened(train, _TICKS), held_out, replay=True),
        "floor_energy_m": energy_distance(held_out[::2], held_out[1::2]),
    }


_COLUMNS = (
    "energy_m",
    "own_nll",
    "nll",
    "share_tv",
    "coverage_50",
    "coverage_90",
    "min_ade20_m",
    "min_fde20_m",
    "fit_s",
    "ask_ms",
)


def _print(title: str, rows: Sequence[Scores], floors: dict[str, float]) -> None:
    table = [(r.name, *(round(getattr(r, c), 3) for c in _COLUMNS)) for r in rows]
    table.append(("(the training walks themselves)", round(floors["replay_energy_m"], 3), *[""] * (len(_COLUMNS) - 1)))
    table.append(("(two held-out sets)", round(floors["floor_energy_m"], 3), *[""] * (len(_COLUMNS) - 1)))
    names = (
        "energy m",
        "NLL/step",
        "NLL ahead",
        "share TV",
        "cov 50",
        "cov 90",
        "minADE20",
        "minFDE20",
        "train s",
        "ask ms",
    )
    print_table(title, ("forecaster", *names), table)


def _bars(title: str, count: int, rows: Sequence[Scores], floors: dict[str, float]) -> list[Check]:
    ours, others = rows[0], rows[1:]
    checks = [
        at_most(f"{title}: NLL per step, ours minus the best comparator's", ours.own_nll - _best(others), 0.0),
    ]
    if count < 40:
        return checks  # the bars below are set for 40 walks and more
    checks += [
        at_most(f"{title}: energy distance, m (bar: replay)", ours.energy_m, round(floors["replay_energy_m"], 4)),
        within(f"{title}: coverage of the 50 % region", ours.coverage_50, 0.5, 0.05),
        within(f"{title}: coverage of the 90 % region", ours.coverage_90, 0.9, 0.05),
    ]
    if count >= 160:
        checks.append(at_most(f"{title}: endpoint shares, total variation", ours.share_tv, 0.05))
    return checks


def _best(others: Sequence[Scores]) -> float:
    return min(o.own_nll for o in others if not np.isnan(o.own_nll))


def _through_slam(
    home: Home,
    seed: int,
    counts: Sequence[int],
    config: PathTrainConfig,
    checks: list[Check],
    payload: dict[str, Any],
    quiet: bool,
) -> None:
    """The same walks as bags, through SLAM and alignment; judged by true walks.

    The recorder begins and ends a walk a little later and earlier than the simulation does: where the wearer has left
    their place and come to rest. So the true walks, too, are cut by the recorder here.
    """
    _say(f"SLAM on {max(counts)} recordings")
    walks = _training(home, seed, max(counts))
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(home.house, SimConfig(habits=_HABITS))
        bags = []
        for recording in recorder.one_per_walk(walks, seed):
            bags.append(Path(folder) / recording.name)
            recorder.write(recording, bags[-1])
        found = place_recordings(bags)
    cut = replace(home, held_out=_windows(_cut(recorder, home.walks, seed + 7)))
    true = _cut(recorder, walks, seed)
    placed, off_m = _onto_truth(found.placed, walks)
    checks.append(at_least("through SLAM: share of the walks placed", len(placed) / len(walks), 0.99))
    payload["slam"] = {
        "walks": len(walks),
        "placed": len(placed),
        "off_m": off_m,
        "cpu_s": time.process_time() - began,
        "refused": [asdict(r) for r in found.refused],
    }
    for count in counts:
        wanted = {int(w.walk.stamps_ns[0]) for w in _training(home, seed, count)}
        some = [w for w, start in placed if start in wanted]
        same = [w for w, whole in zip(true, walks, strict=True) if int(whole.walk.stamps_ns[0]) in wanted]
        title = f"{count} walks, through SLAM"
        _compare_ours(title, cut, _windows(some), _windows(same), config, count, checks, payload, quiet)


def _cut(recorder: Recorder, walks: Sequence[LabelledWalk], seed: int) -> list[Walk]:
    """The true walks as the recorder cuts them, one each."""
    found = []
    for recording in recorder.one_per_walk(walks, seed):
        truth = recorder.truth(recording)
        found += record_walks("resident", truth.stamps_ns, truth.poses)[:1]
    return found


def _onto_truth(placed: Sequence[Walk], truth: Sequence[LabelledWalk]) -> tuple[list[tuple[Walk, int]], float]:
    """The house's frame laid onto the true one, by all walks at once; each walk with its true start, and the error."""
    starts = np.array([w.walk.stamps_ns[0] for w in truth])
    pairs = [(walk, truth[int(np.argmin(np.abs(starts - walk.stamps_ns[0])))].walk) for walk in placed]
    mine = np.concatenate([a.xy for a, _ in pairs])
    real = np.concatenate([_at(b, a.stamps_ns) for a, b in pairs])
    T = _rigid(mine, real)
    off = np.linalg.norm(T.apply(mine) - real, axis=1)
    return [(a.placed(T), int(b.stamps_ns[0])) for a, b in pairs], float(np.sqrt(np.mean(off**2)))


def _at(walk: Walk, stamps_ns: NDArray[np.int64]) -> Array:
    return np.stack([np.interp(stamps_ns, walk.stamps_ns, walk.xy[:, i]) for i in (0, 1)], axis=1)


def _rigid(a: Array, b: Array) -> Pose2:
    """The rigid motion that takes points a (N, 2) to b, least squares."""
    u, v = a - a.mean(0), b - b.mean(0)
    angle = float(np.arctan2((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).sum(), (u * v).sum()))
    turn = Pose2(0.0, 0.0, angle)
    shift = b.mean(0) - turn.apply(a.mean(0)[None])[0]
    return Pose2(float(shift[0]), float(shift[1]), angle)


def _compare_ours(
    title: str,
    home: Home,
    train: WalkWindows,
    true: WalkWindows,
    config: PathTrainConfig,
    count: int,
    checks: list[Check],
    payload: dict[str, Any],
    quiet: bool,
) -> None:
    """Ours and some others on walks that went through SLAM, and ours on the same walks without it."""
    asked: Asked = ask_from_start(home.held_out, _TICKS)
    rows = []
    for forecaster in (PathLikelihood(config=config), ConstantVelocity(), kernel_density(), Bootstrap()):
        began = time.process_time()
        forecaster.fit(train)
        found = score(forecaster, asked, time.process_time() - began, home.house.places)
        rows.append(_with_own(forecaster, train, home, found))
    without = PathLikelihood("(ours, the same walks without SLAM)", config=config)
    without.fit(true)
    reference = _with_own(without, true, home, score(without, asked, 0.0, home.house.places))
    floors = _floors(home, train)
    cost = {
        f"cost_{c}": getattr(rows[0], c) - getattr(reference, c) for c in ("energy_m", "own_nll", "nll", "share_tv")
    }
    payload[title] = {"scores": [asdict(r) for r in (*rows, reference)], **floors, **cost}
    if not quiet:
        costs = ", ".join(f"{name[5:]} {value:+.3f}" for name, value in cost.items())
        _print(f"{title}; what SLAM costs: {costs}", [*rows, reference], floors)
    checks += _bars(title, count, rows, floors)


def _forecaster(home: Home, train: WalkWindows, config: PathTrainConfig, walls: bool = False) -> Forecaster:
    trained = train_paths(as_batch(train), train.dt_s, config=config)
    file = WalkModelFile(trained.model, Footprints.of(train), train.frame, train.time_zone)
    grid = floor_plan(home.house, LidarConfig().height_m) if walls else None
    return Forecaster(file, home.house.places, ForecastConfig(), grid)


def _unfolding(
    home: Home, seed: int, count: int, config: PathTrainConfig, checks: list[Check], payload: dict[str, Any]
) -> None:
    """Log loss of the destination as the walk unfolds, and how often sampled paths and real walks touch walls."""
    _say("what the walk so far is worth, and walls")
    train = _windows(_training(home, seed, count))
    forecaster = _forecaster(home, train, config)
    losses = [_loss_at(home, forecaster, share) for share in _SEEN]
    prior = float(np.log(len(set(home.destinations))))
    payload["destination_log_loss"] = dict(zip(map(str, _SEEN), losses, strict=True))
    falls = float(max(np.diff(losses)))
    checks.append(at_most(f"{count} walks: destination log loss, largest rise along the walk, nats", falls, 0.05))
    after = f"{count} walks: destination log loss after 60 % (past the junction), nats (prior {prior:.2f})"
    checks.append(at_most(after, losses[3], round(prior / 2, 2)))
    walls = Walls.of(floor_plan(home.house, LidarConfig().height_m))
    real = float(walls.crossed_by(flattened(home.held_out, _TICKS)).mean())
    forecaster.set_walls(floor_plan(home.house, LidarConfig().height_m))
    start = home.held_out.xy[::4, 0]
    paths = np.concatenate(
        [forecaster.forecast(xy, int(home.held_out.start_ns[0]), horizon_s=16.0, samples=50).samples_xy for xy in start]
    )
    sampled = float(walls.crossed_by(paths).mean())
    payload["walls"] = {"real": real, "sampled": sampled}
    checks.append(
        at_most(f"{count} walks: share of paths through walls (real walks: {real:.3f})", sampled, real + 0.01)
    )


def _loss_at(home: Home, forecaster: Forecaster, share: float) -> float:
    shares = []
    held_out = home.held_out
    for n in range(len(held_out)):
        seen = max(1, round(share * int(held_out.lengths[n])))
        stamps = held_out.start_ns[n] + np.round(np.arange(seen) * held_out.dt_s * 1e9).astype(np.int64)
        poses = np.column_stack([held_out.xy[n, :seen], np.zeros(seen)])
        so_far = Walk("so far", "resident", stamps, poses) if seen > 1 else None
        found = forecaster.forecast(poses[-1, :2], int(stamps[-1]), walk_so_far=so_far, horizon_s=1.0, samples=100)
        shares.append(found.shares)
    return destination_log_loss(shares, home.destinations)


def _day_and_night(
    home: Home, seed: int, count: int, seeds: int, config: PathTrainConfig, checks: list[Check], payload: dict[str, Any]
) -> None:
    """Shares had it been night, mean over the hours of the night, beside what the night walks themselves say."""
    truth = {"landing": _HABITS.night_landing, "kitchen": 1.0 - _HABITS.night_landing}
    off, own = [], []
    for s in range(seeds):
        _say(f"day and night, training {s + 1} of {seeds}")
        walks = simulate_habit(home.house, seed=seed + 100 * s, count=count, habits=_HABITS, book=home.book)
        train = _windows(walks)
        forecaster = _forecaster(home, train, config)
        off.append(total_variation(_night_shares(home, forecaster), truth))
        night = [w.destination for w, h in zip(walks, train.start_hour, strict=True) if is_night(float(h), _HABITS)]
        own.append(abs(night.count("landing") / len(night) - truth["landing"]))
    payload["night"] = {"tv": off, "of_the_walks_themselves": own}
    name = f"{count} walks: had it been night, total variation, mean of {seeds} (walks themselves {np.mean(own):.3f})"
    checks.append(at_most(name, float(np.mean(off)), 0.05))


def _night_shares(home: Home, forecaster: Forecaster) -> dict[str, float]:
    hours = (22.5, 23.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    couch, now = home.house.place(ANCHOR).xy, int(home.held_out.start_ns[0])
    found = [forecaster.forecast(couch, now, what_if_hour=h, samples=500).shares for h in hours]
    return {name: float(np.mean([f[name] for f in found])) for name in found[0]}


def _going_on(home: Home, seed: int, config: PathTrainConfig, checks: list[Check], payload: dict[str, Any]) -> None:
    """Forty walks, then forty more: how long going on takes, and whether the old ones are forgotten."""
    _say("learning more walks later")
    old, new = _training(home, seed, 40), _training(home, seed + 50, 40)
    renamed = [Walk(f"later-{w.walk.walk_id}", "resident", w.walk.stamps_ns, w.walk.poses) for w in new]
    first, both = _windows(old), _windows([*(w.walk for w in old), *renamed])
    before = train_paths(as_batch(first), first.dt_s, config=config)
    began = time.process_time()
    after = train_paths(as_batch(both), both.dt_s, config=PathTrainConfig(steps=100), start=before.model)
    seconds = time.process_time() - began
    old_walks, unseen = as_batch(first), as_batch(home.held_out)
    figures = {
        "seconds": seconds,
        "old_walks_before": held_out_nll(before.model, old_walks),
        "old_walks_after": held_out_nll(after.model, old_walks),
        "unseen_before": held_out_nll(before.model, unseen),
        "unseen_after": held_out_nll(after.model, unseen),
    }
    payload["going_on"] = figures
    forgotten = figures["old_walks_after"] - figures["old_walks_before"]
    gained = figures["unseen_after"] - figures["unseen_before"]
    checks.append(at_most("going on with 40 more walks: NLL of the old walks, change, nats per step", forgotten, 0.1))
    checks.append(at_most("going on with 40 more walks: NLL of unseen walks, change, nats per step", gained, 0.0))
    checks.append(at_most("going on with 40 more walks: processor time, s", seconds, 10.0))


if __name__ == "__main__":
    sys.exit(main())
