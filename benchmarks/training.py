"""Training of the walk model beside the paper's training, to the same held-out likelihood.

Both learn the same simulated walks from the couch, with four fields of the same size. What differs:

- Method. The walk model's fields are tables smoothed from coarse to fine; only a few numbers are optimised, by the
  density of walks left out. The paper's training is FLoss with MDLoss on paths solved from the start, by gradient
  descent, here through torchdiffeq's dopri5 and through Runge-Kutta 4.
- Model. The walk model chooses fields by a hidden Markov chain and a table of habits, the paper's by a network.
- Initialisation. The walk model groups the walks by where they end. The paper's fields start at random or, to compare
  like with like, from clusters of the walks' mean velocities.

Score for all: 400 paths are sampled from held-out starts, and every held-out position has its density under a kernel
(0.2 m) estimate from the samples at its time. Of each of the paper's trainings the best score within the budget and the
time to reach it count. The walk model is trained once, as ``svfm train`` does it, the choice of its numbers on walks
left out included. Compilation is not timed: each training runs once before. Time is processor time of one thread.

Then training of the walk model as ``svfm train`` does it from more and more walks, each in a process of its own: its
processor time, and the largest memory of the process, walks included.
"""

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torchdiffeq
from benchlib.forecasts.product import as_walks
from torch import Tensor

import svfm_ros.svfm.moments as moments_module
from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.pipeline.learn import learn
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.svfm.losses import mixture_density_loss, observed_cov
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.objectives import Normaliser
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.solver.rk4 import Rollout, rk4
from svfm_ros.svfm.training import seeded
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.types import WalkWindows
from svfm_ros.walks.windows import make_windows

_KERNEL_M = 0.2
_SAMPLES = 400
_HELD_OUT = 200  # walks
_FIRST_SPREAD = 0.4  # wide noise before training, with which the paper's training gives better shares of the places
_SCORES = 10  # of each of the paper's trainings, not timed
_SIZES = (40, 1000, 10_000)
_SIZE_TARGETS_S = {40: 8.0, 1000: 30.0, 10_000: 120.0}
_MEMORY_TARGETS_GB = {50_000: 2.0}


@dataclass(frozen=True, slots=True)
class Reached:
    """Score of one training after some time."""

    training: str
    steps: int
    seconds: float
    nll: float


@dataclass(frozen=True, slots=True)
class SizeCost:
    """What training on so many walks costs."""

    walks: int
    seconds: float  # processor time
    peak_gb: float  # of the whole process, the walks included


Solver = Callable[..., Rollout]


@dataclass(frozen=True, slots=True)
class PaperTraining:
    """One variant of the paper's training."""

    name: str
    from_clusters: bool  # initial fields
    solver: Solver
    target: float  # times that the walk model is faster


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for each of the paper's trainings (90)")
    parser.add_argument("--walks", type=int, default=40, help="training walks (40)")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of dopri5 in training (1e-3; tighter is slower)")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=_SIZES, help=f"numbers of walks to time training on {_SIZES}"
    )
    parser.add_argument("--only-sizes", action="store_true", help="nothing of the paper's training")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    sizes = [_in_own_process(count) for count in args.sizes]
    checks = _size_checks(sizes)
    payload: dict[str, object] = {"sizes": [asdict(cost) for cost in sizes]}
    if not args.json:
        print_table(
            "training on more walks", ("walks", "seconds", "peak GB"), [tuple(asdict(c).values()) for c in sizes]
        )
    if args.only_sizes:
        return report("training on more walks", checks, payload, args.json)
    train, held_out = _walks(args.walks // 4, 1), _walks(_HELD_OUT // 4, 999)
    dopri5 = _dopri5(args.tolerance)
    variants = (
        PaperTraining("FLoss, dopri5, random initial fields", False, dopri5, 20.0),
        PaperTraining("FLoss, dopri5, initial fields from clusters", True, dopri5, 20.0),
        PaperTraining("FLoss, Runge-Kutta 4, initial fields from clusters", True, rk4, 5.0),
    )
    paper = {v.name: _paper_training(v, train, held_out, args.budget) for v in variants}
    best = {name: min(runs, key=lambda run: run.nll) for name, runs in paper.items()}
    ours = _our_training(train, held_out)
    checks += [
        at_least(
            f"times faster than {v.name} ({best[v.name].nll:.3f} nats)", _times_faster(best[v.name], ours), v.target
        )
        for v in variants
    ]
    runs = [*(run for some in paper.values() for run in some), *ours]
    if not args.json:
        rows = [tuple(asdict(r).values()) for r in runs]
        print_table("held-out NLL over training time", ("training", "steps", "seconds", "NLL per position"), rows)
    payload |= {"runs": [asdict(r) for r in runs], "best": {name: asdict(run) for name, run in best.items()}}
    return report("training to the same held-out NLL", checks, payload, args.json)


def _in_own_process(count: int) -> SizeCost:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_cost, count).result()


def _cost(count: int) -> SizeCost:
    """Train on so many walks; the peak is that of this process."""
    torch.set_num_threads(1)
    learn(as_walks(_walks(10, 1)))  # compiles
    walks = as_walks(_walks(count // 4, 2))
    began = time.process_time()
    learn(walks)
    seconds = time.process_time() - began
    return SizeCost(len(walks), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)


def _size_checks(sizes: list[SizeCost]) -> list[Check]:
    checks = []
    for cost in sizes:
        if cost.walks in _SIZE_TARGETS_S:
            name = f"training on {cost.walks} walks: processor time, s"
            checks.append(at_most(name, cost.seconds, _SIZE_TARGETS_S[cost.walks]))
        if cost.walks in _MEMORY_TARGETS_GB:
            name = f"training on {cost.walks} walks: largest memory of the process, GB"
            checks.append(at_most(name, cost.peak_gb, _MEMORY_TARGETS_GB[cost.walks]))
    return checks


def _times_faster(paper: Reached, ours: list[Reached]) -> float:
    """Time of the paper's training over that of our shortest training that scores as well; 0 if none does."""
    return max((paper.seconds / run.seconds for run in ours if run.nll <= paper.nll), default=0.0)


def _walks(repeats: int, seed: int) -> WalkWindows:
    walks = simulate_protocol(load_house(), seed=seed, repeats=repeats)
    return make_windows([w.walk for w in walks], WindowsConfig())


def score(paths: np.ndarray, held_out: WalkWindows) -> float:
    """NLL per position of held-out walks under a kernel density of sampled paths (S, T, 2) at the same ticks."""
    times = min(paths.shape[1], held_out.xy.shape[1])
    total, count = 0.0, 0
    for t in range(1, times):
        real = held_out.xy[:, t][held_out.valid[:, t]]
        squared = ((real[:, None] - paths[None, :, t]) ** 2).sum(-1) / _KERNEL_M**2
        density = np.exp(-0.5 * squared).mean(1) / (2.0 * np.pi * _KERNEL_M**2)
        total -= np.log(density + 1e-6).sum()  # a floor, so that one stray walk does not decide
        count += len(real)
    return float(total / count)


def _starts(held_out: WalkWindows) -> np.ndarray:
    return np.resize(held_out.xy[:, 0], (_SAMPLES, 2))


def _our_training(train: WalkWindows, held_out: WalkWindows) -> list[Reached]:
    """The walk model, trained as ``svfm train`` does it."""
    walks = as_walks(train)
    learn(walks)  # compiles
    began = time.process_time()
    file = learn(walks).file
    seconds = time.process_time() - began
    forecaster, paths = Forecaster(file), []
    horizon_s, stamp_ns = (held_out.xy.shape[1] - 1) * train.dt_s, int(train.start_ns[0])
    for n, start in enumerate(held_out.xy[:, 0]):
        each = -(-_SAMPLES // len(held_out))
        paths.append(forecaster.forecast(start, stamp_ns, horizon_s=horizon_s, samples=each, seed=n).samples_xy)
    return [Reached("walk model", 1, seconds, score(np.concatenate(paths), held_out))]


def _paper_training(
    variant: PaperTraining, train: WalkWindows, held_out: WalkWindows, budget_s: float
) -> list[Reached]:
    """FLoss with MDLoss until the budget is spent, with a score from time to time."""
    xy, valid = torch.as_tensor(train.xy, dtype=torch.float32), torch.as_tensor(train.valid)
    normaliser = Normaliser.fit(xy[valid])
    x, times = normaliser.encode(xy), torch.arange(xy.shape[1]) * train.dt_s
    config = ModelConfig(components=4, hidden_units=32, activation="tanh", max_speed=2.0, gate="linear")
    model = MixtureModel(replace(config, first_log_spread=_FIRST_SPREAD))
    if variant.from_clusters:
        seeded(model, (x[:, -1] - x[:, 0]) / (train.dt_s * float(train.lengths.mean())), 0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    moments_module.rk4 = variant.solver  # the one place where sigma points are solved
    _masked_forecast_loss(model, x, valid, times).backward()  # compiles
    runs: list[Reached] = []
    clock, step = 0.0, 0
    while clock < budget_s:
        began = time.process_time()
        optimiser.zero_grad()
        _masked_forecast_loss(model, x, valid, times).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimiser.step()
        clock, step = clock + time.process_time() - began, step + 1
        if clock >= budget_s * (len(runs) + 1) / _SCORES:
            runs.append(Reached(variant.name, step, clock, _score_paper(model, normaliser, held_out)))
    return runs


def _masked_forecast_loss(model: MixtureModel, x: Tensor, valid: Tensor, times: Tensor) -> Tensor:
    """FLoss (eq. 11) over the positions that are there: walks differ in length."""
    out = propagate(model, x[:, 0], times)
    targets, there = x[:, 1:].transpose(0, 1), valid[:, 1:].T  # (T, N, 2), (T, N)
    cov = observed_cov(out.cov[1:], model.floor())
    return mixture_density_loss(targets, out.mean[1:], cov, out.log_weight[1:])[there].mean()


def _score_paper(model: MixtureModel, normaliser: Normaliser, held_out: WalkWindows) -> float:
    starts = normaliser.encode(torch.as_tensor(_starts(held_out), dtype=torch.float32))
    times = torch.arange(held_out.xy.shape[1]) * held_out.dt_s
    states = sample_paths(model, starts, times, model.draw(0, _SAMPLES)).states  # (T, S, 2)
    return score(normaliser.decode(states).transpose(0, 1).double().numpy(), held_out)


def _dopri5(tolerance: float) -> Solver:
    def solve(field, h: Tensor, times: Tensor) -> Rollout:
        states = torchdiffeq.odeint(field, h, times, rtol=tolerance, atol=tolerance, method="dopri5")
        slopes = torch.stack([field(t, s) for t, s in zip(times, states, strict=True)])
        return Rollout(states, slopes)

    return solve


if __name__ == "__main__":
    raise SystemExit(main())
