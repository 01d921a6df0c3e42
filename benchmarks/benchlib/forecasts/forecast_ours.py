"""What the product alone is measured by: unseen destinations, the walk so far, walls, night, more walks later."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchlib.forecasts.destination_oracle import DestinationOracle
from benchlib.forecasts.forecast_home import HABITS, TICKS, Home, say, training, windows
from benchlib.forecasts.product import Product, ProductOptions, as_walks, train_product
from benchlib.forecasts.questions import ask_along, flattened
from benchlib.forecasts.score_table import Estimate, estimate
from benchlib.forecasts.step_density import straight_step_nll
from svfm_ros.cli.output import print_table
from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.scores import total_variation
from svfm_ros.forecasting.walls import Walls
from svfm_ros.sim.house import floor_plan
from svfm_ros.sim.walker import ANCHOR, is_night, simulate_habit
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.types import Walk, WalkWindows

__all__ = ["along_the_walk", "day_and_night", "going_on", "unseen_destinations"]

Array = NDArray[np.float64]

_SEEN = (0.0, 0.2, 0.4, 0.6, 0.8)
_LEAST_SHARE = 1e-3  # a share of none counts as this
_UNSEEN_WALKS = 40
_LATE = 0.8  # of the walk: in this house the ways to two places part only after two thirds of it
_SAMPLES = 500


def unseen_destinations(
    home: Home,
    seed: int,
    oracle: DestinationOracle,
    options: ProductOptions,
    checks: list[Check],
    payload: dict[str, Any],
    quiet: bool,
) -> None:
    """Walks to a destination that training lacks, each destination in turn, and how unfamiliar they are called.

    Half way, many of these walks are still where walks to other destinations pass. What could be known by then is
    reported, too: the probability that an oracle gives to the destination, which it takes for as likely as the others.
    """
    names = np.array(home.destinations)
    rows, gaps, unseen, late, ordinary, people, others, known_by = [], [], [], [], [], [], [], []
    for left_out in sorted(set(home.destinations)):
        say(f"no walk to the {left_out} in training")
        known = [w for w in training(home, seed, 2 * _UNSEEN_WALKS) if w.destination != left_out][:_UNSEEN_WALKS]
        train = windows(known)
        ours = Product(options=options, places=home.house.places)
        ours.fit(train)
        new, usual = home.held_out.select(names == left_out), home.held_out.select(names != left_out)
        own, straight = ours.step_nll(new), straight_step_nll(train, new)
        gaps.append(own - straight)
        unseen.append(_unfamiliar(ours, new))
        late.append(_unfamiliar(ours, new, _LATE))
        ordinary.append(_unfamiliar(ours, usual))
        known_by.append([oracle.probability(new, left_out, share) for share in (0.5, _LATE)])
        people += new.walk_ids
        others += usual.walk_ids
        means = (own, straight, unseen[-1], late[-1], ordinary[-1], *known_by[-1])
        rows.append({"left_out": left_out, **dict(zip(_UNSEEN_COLUMNS, (float(m.mean()) for m in means), strict=True))})
    payload["destinations left out of training"] = rows
    kinds = ((gaps, people), (unseen, people), (late, people), (ordinary, others))
    gap, new_, late_, usual_ = (estimate(np.concatenate(v), w) for v, w in kinds)
    known_half = np.concatenate([half for half, _ in known_by]).mean()
    title = f"{_UNSEEN_WALKS} walks, destination never seen"
    half = f"{title}: unfamiliar after half the walk, mean (an oracle that knows the house: {known_half:.2f})"
    checks += [
        at_most(f"{title}: one-step density, ours minus constant velocity's, nats per step", gap.mean, 0.3, gap.error),
        at_least(half, new_.mean, 0.8, new_.error),
        at_least(f"{title}: unfamiliar after {_LATE:.0%} of the walk, mean", late_.mean, 0.8, late_.error),
        at_most(f"{_UNSEEN_WALKS} walks, ordinary walks: unfamiliar, mean", usual_.mean, 0.1, usual_.error),
    ]
    if not quiet:
        print_table("destinations left out of training", tuple(rows[0]), [tuple(r.values()) for r in rows])


_UNSEEN_COLUMNS = (
    *("ours_nats_per_step", "constant_velocity_nats_per_step"),
    *("unfamiliar_unseen", "unfamiliar_unseen_late", "unfamiliar_ordinary", "oracle_half", "oracle_late"),
)


def _unfamiliar(ours: Product, walks: WalkWindows, share: float = 0.5) -> Array:
    """``Forecast.unfamiliar`` after a share of each walk ``(N,)``."""
    return np.array([ours.ask(q).unfamiliar for q in ask_along(walks, share, 3, samples=100).questions])


def along_the_walk(
    home: Home,
    seed: int,
    count: int,
    oracle: DestinationOracle,
    options: ProductOptions,
    checks: list[Check],
    payload: dict[str, Any],
    quiet: bool,
) -> None:
    """Log loss of the destination along the walk, beside an oracle's; how often sampled and real walks touch walls."""
    say("the destination along the walk, and walls")
    ours = Product(options=options, places=home.house.places)
    ours.fit(windows(training(home, seed, count)))
    losses = [_destination_loss(home, ours, share) for share in _SEEN]
    prior = float(np.log(len(set(home.destinations))))
    least = [_oracle_loss(home, oracle, share) for share in _SEEN]
    rows = [
        {"share_walked": s, "log_loss": e.mean, "log_loss_error": e.error, "oracle": o.mean, "oracle_error": o.error}
        for s, e, o in zip(_SEEN, losses, least, strict=True)
    ]
    payload["destination log loss"] = rows
    worst = max(losses, key=lambda e: e.mean)
    name = f"{count} walks: destination log loss, the largest along the walk, nats (prior {prior:.2f})"
    checks.append(at_most(name, worst.mean, round(prior + 0.02, 3), worst.error))
    late = losses[_SEEN.index(0.6)]
    checks.append(at_most(f"{count} walks: destination log loss after 60 % of the walk", late.mean, 0.36, late.error))
    if not quiet:
        cells = [(s, str(e), str(o)) for s, e, o in zip(_SEEN, losses, least, strict=True)]
        print_table("destination log loss along the walk, nats", ("share walked", "log loss", "oracle"), cells)
    _through_walls(home, ours.forecaster, count, checks, payload)


def _destination_loss(home: Home, ours: Product, share: float) -> Estimate:
    asked = ask_along(home.held_out, share, 3, samples=_SAMPLES)
    shares = [ours.ask(q).shares.get(name, 0.0) for q, name in zip(asked.questions, home.destinations, strict=True)]
    return estimate(-np.log(np.maximum(shares, _LEAST_SHARE)), asked.people)


def _oracle_loss(home: Home, oracle: DestinationOracle, share: float) -> Estimate:
    names = np.array(home.destinations)
    own = np.empty(len(names))
    for name in oracle.names:
        mine = names == name
        own[mine] = oracle.probability(home.held_out.select(mine), name, share)
    return estimate(-np.log(np.maximum(own, _LEAST_SHARE)), home.held_out.walk_ids)


def _through_walls(
    home: Home, forecaster: Forecaster, count: int, checks: list[Check], payload: dict[str, Any]
) -> None:
    plan = floor_plan(home.house, LidarConfig().height_m)
    walls = Walls.of(plan)
    real = float(walls.crossed_by(flattened(home.held_out, TICKS)).mean())
    forecaster.set_walls(plan)
    now = int(home.held_out.start_ns[0])
    answers = [forecaster.forecast(xy, now, horizon_s=16.0, samples=50) for xy in home.held_out.xy[::4, 0]]
    sampled = float(walls.crossed_by(np.concatenate([a.samples_xy for a in answers])).mean())
    payload["walls"] = {"real": real, "sampled": sampled}
    name = f"{count} walks: share of paths through walls (real walks: {real:.3f})"
    checks.append(at_most(name, sampled, real + 0.01))


def day_and_night(
    home: Home, seed: int, count: int, seeds: int, options: ProductOptions, checks: list[Check], payload: dict[str, Any]
) -> None:
    """Shares at night, mean over its hours, beside what the night walks themselves give."""
    truth = {"landing": HABITS.night_landing, "kitchen": 1.0 - HABITS.night_landing}
    off, own = [], []
    for s in range(seeds):
        say(f"day and night, training {s + 1} of {seeds}")
        walks = simulate_habit(home.house, seed=seed + 100 * s, count=count, habits=HABITS, book=home.book)
        train = windows(walks)
        ours = Product(options=options, places=home.house.places)
        ours.fit(train)
        off.append(total_variation(_night_shares(home, ours.forecaster), truth))
        night = [w.destination for w, h in zip(walks, train.start_hour, strict=True) if is_night(float(h), HABITS)]
        own.append(abs(night.count("landing") / len(night) - truth["landing"]))
    payload["night"] = {"tv": off, "of_the_walks_themselves": own}
    name = f"{count} walks: shares at night, total variation, mean of {seeds} (walks themselves {np.mean(own):.3f})"
    checks.append(at_most(name, float(np.mean(off)), 0.05))


def _night_shares(home: Home, forecaster: Forecaster) -> dict[str, float]:
    hours = (22.5, 23.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    couch, now = home.house.place(ANCHOR).xy, int(home.held_out.start_ns[0])
    found = [forecaster.forecast(couch, now, what_if_hour=h, samples=500).shares for h in hours]
    return {name: float(np.mean([f[name] for f in found])) for name in found[0]}


def going_on(home: Home, seed: int, options: ProductOptions, checks: list[Check], payload: dict[str, Any]) -> None:
    """Forty walks, then forty more: processor time, and what it does to old and to unseen walks."""
    say("learning more walks later")
    old, new = training(home, seed, 40), training(home, seed + 50, 40)
    later = [Walk(f"later-{w.walk.walk_id}", "resident", w.walk.stamps_ns, w.walk.poses) for w in new]
    first, both = windows(old), windows([*(w.walk for w in old), *later])
    before, after = (Product(options=options) for _ in range(2))
    before.fit(first)
    began = time.process_time()
    after.use(train_product(as_walks(both), options.on(both), start=before.forecaster.file))
    seconds = time.process_time() - began
    figures = {
        "seconds": seconds,
        "old_walks_change": float((after.step_nll(first) - before.step_nll(first)).mean()),
        "unseen_change": float((after.step_nll(home.held_out) - before.step_nll(home.held_out)).mean()),
    }
    payload["going_on"] = figures
    title = "going on with 40 more walks"
    checks += [
        at_most(f"{title}: one-step density of the old walks, change, nats", figures["old_walks_change"], 0.1),
        at_most(f"{title}: one-step density of unseen walks, change, nats", figures["unseen_change"], 0.0),
        at_most(f"{title}: processor time, s", seconds, 10.0),
    ]
