"""What ours alone is asked: the walk so far, walls, day and night, more walks later."""

import time
from typing import Any

import numpy as np

from benchlib.comparators import flattened
from benchlib.forecast_home import HABITS, TICKS, Home, say, training, windows
from svfm_ros.config.forecast_config import ForecastConfig, PathTrainConfig
from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.forecasting.fit import as_batch, held_out_nll, train_paths
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import Footprints, WalkModelFile
from svfm_ros.forecasting.scores import destination_log_loss, total_variation
from svfm_ros.forecasting.walls import Walls
from svfm_ros.sim.floor_plan import floor_plan
from svfm_ros.sim.resident_habits import is_night
from svfm_ros.sim.walker import ANCHOR, simulate_habit
from svfm_ros.targets import Check, at_most
from svfm_ros.types import Walk, WalkWindows

_SEEN = (0.0, 0.2, 0.4, 0.6, 0.8)


def _forecaster(home: Home, train: WalkWindows, config: PathTrainConfig) -> Forecaster:
    trained = train_paths(as_batch(train), train.dt_s, config=config)
    file = WalkModelFile(trained.model, Footprints.of(train), train.frame, train.time_zone)
    return Forecaster(file, home.house.places, ForecastConfig())


def unfolding(
    home: Home, seed: int, count: int, config: PathTrainConfig, checks: list[Check], payload: dict[str, Any]
) -> None:
    """Log loss of the destination as the walk unfolds, and how often sampled paths and real walks touch walls."""
    say("what the walk so far is worth, and walls")
    train = windows(training(home, seed, count))
    forecaster = _forecaster(home, train, config)
    losses = [_loss_at(home, forecaster, share) for share in _SEEN]
    prior = float(np.log(len(set(home.destinations))))
    payload["destination_log_loss"] = dict(zip(map(str, _SEEN), losses, strict=True))
    falls = float(max(np.diff(losses)))
    checks.append(at_most(f"{count} walks: destination log loss, largest rise along the walk, nats", falls, 0.05))
    after = f"{count} walks: destination log loss after 60 % (past the junction), nats (prior {prior:.2f})"
    checks.append(at_most(after, losses[3], round(prior / 2, 2)))
    walls = Walls.of(floor_plan(home.house, LidarConfig().height_m))
    real = float(walls.crossed_by(flattened(home.held_out, TICKS)).mean())
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


def day_and_night(
    home: Home, seed: int, count: int, seeds: int, config: PathTrainConfig, checks: list[Check], payload: dict[str, Any]
) -> None:
    """Shares had it been night, mean over the hours of the night, beside what the night walks themselves say."""
    truth = {"landing": HABITS.night_landing, "kitchen": 1.0 - HABITS.night_landing}
    off, own = [], []
    for s in range(seeds):
        say(f"day and night, training {s + 1} of {seeds}")
        walks = simulate_habit(home.house, seed=seed + 100 * s, count=count, habits=HABITS, book=home.book)
        train = windows(walks)
        forecaster = _forecaster(home, train, config)
        off.append(total_variation(_night_shares(home, forecaster), truth))
        night = [w.destination for w, h in zip(walks, train.start_hour, strict=True) if is_night(float(h), HABITS)]
        own.append(abs(night.count("landing") / len(night) - truth["landing"]))
    payload["night"] = {"tv": off, "of_the_walks_themselves": own}
    name = f"{count} walks: had it been night, total variation, mean of {seeds} (walks themselves {np.mean(own):.3f})"
    checks.append(at_most(name, float(np.mean(off)), 0.05))


def _night_shares(home: Home, forecaster: Forecaster) -> dict[str, float]:
    hours = (22.5, 23.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    couch, now = home.house.place(ANCHOR).xy, int(home.held_out.start_ns[0])
    found = [forecaster.forecast(couch, now, what_if_hour=h, samples=500).shares for h in hours]
    return {name: float(np.mean([f[name] for f in found])) for name in found[0]}


def going_on(home: Home, seed: int, config: PathTrainConfig, checks: list[Check], payload: dict[str, Any]) -> None:
    """Forty walks, then forty more: how long going on takes, and whether the old ones are forgotten."""
    say("learning more walks later")
    old, new = training(home, seed, 40), training(home, seed + 50, 40)
    renamed = [Walk(f"later-{w.walk.walk_id}", "resident", w.walk.stamps_ns, w.walk.poses) for w in new]
    first, both = windows(old), windows([*(w.walk for w in old), *renamed])
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
