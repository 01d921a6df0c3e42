"""Two ways to train a forecaster, to the same held-out likelihood: step by step, or through torchdiffeq's dopri5.

Both learn the same simulated walks from the couch, with as many fields of the same size. The second is the paper's way:
FLoss with MDLoss on the moments of the frozen noise, the gradient taken through dopri5 (adaptive steps), Adam. The
judge is the same for both: 400 paths are sampled from held-out starts, and every held-out position is scored under a
kernel density (0.2 m) of the samples at its time. The best that the paper's way comes to within its budget is the mark,
and the time it took to get there is its time. The path likelihood is trained anew with more and more steps until it
passes the mark; its time is that of the first training that does, sorting the walks, starting the fields and fitting
the gate included. Time is processor time of one thread.
"""

import argparse
import os
import time
from dataclasses import asdict, dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torchdiffeq
from torch import Tensor

import svfm_ros.svfm.moments as moments_room
from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.forecast_config import PathTrainConfig
from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.fit import as_batch, train_paths
from svfm_ros.forecasting.sampler import PathSampler
from svfm_ros.forecasting.tabulate import tabulate
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.svfm.losses import mixture_density_loss, observed_cov
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.normaliser import Normaliser
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.solver.rk4 import Rollout
from svfm_ros.targets import at_least
from svfm_ros.types import WalkWindows
from svfm_ros.walks.windows import make_windows

_KERNEL_M = 0.2
_SAMPLES = 400
_JUDGED = 200  # held-out walks
_LOOKS = 20  # at the paper's way, off the clock
_STEPS = (5, 10, 20, 40, 80, 160)  # of the path likelihood, one training each


@dataclass(frozen=True, slots=True)
class Reached:
    """One training and what it came to."""

    way: str
    steps: int
    seconds: float
    nll: float


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=240.0, help="seconds that the paper's way gets (240)")
    parser.add_argument("--walks", type=int, default=40, help="training walks (40)")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of dopri5 in training (1e-3; tighter is slower)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    train, held_out = _walks(args.walks // 4, 1), _walks(_JUDGED // 4, 999)
    paper = _paper_way(train, held_out, args.budget, args.tolerance)
    mark = min(paper, key=lambda run: run.nll)
    ours = _our_way(train, held_out, mark.nll)
    passed = ours[-1].nll <= mark.nll
    ratio = mark.seconds / ours[-1].seconds if passed else 0.0
    checks = [at_least("times faster to the same held-out NLL", ratio, 20.0)]
    runs = [*paper, *ours]
    if not args.json:
        rows = [tuple(asdict(r).values()) for r in runs]
        print_table("training to the same held-out NLL", ("way", "steps", "seconds", "NLL per position"), rows)
        print(f"the mark: {mark.nll:.3f}, reached by the paper's way in {mark.seconds:.1f} s")
    return report("training", checks, {"runs": [asdict(r) for r in runs], "mark": asdict(mark)}, args.json)


def _walks(repeats: int, seed: int) -> WalkWindows:
    walks = simulate_protocol(load_house(), seed=seed, repeats=repeats)
    return make_windows([w.walk for w in walks], WindowsConfig())


def judge(paths: np.ndarray, held_out: WalkWindows) -> float:
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


def _our_way(train: WalkWindows, held_out: WalkWindows, mark: float) -> list[Reached]:
    """The path likelihood with more and more steps, until the mark is passed."""
    runs: list[Reached] = []
    for steps in _STEPS:
        runs.append(_path_likelihood(train, held_out, steps))
        if runs[-1].nll <= mark:
            break
    return runs


def _path_likelihood(train: WalkWindows, held_out: WalkWindows, steps: int) -> Reached:
    began = time.process_time()
    trained = train_paths(as_batch(train), train.dt_s, config=PathTrainConfig(steps=steps))
    seconds = time.process_time() - began
    sampler, rng = PathSampler(tabulate(trained.model)), np.random.default_rng(0)
    starts, hour = _starts(held_out), float(train.start_hour.mean())
    hidden = sampler.draw_start(starts, hour, rng)
    paths = sampler.sample(starts, hidden, hour, held_out.xy.shape[1] - 1, rng).xy
    return Reached("path likelihood", steps, seconds, judge(paths, held_out))


def _paper_way(train: WalkWindows, held_out: WalkWindows, budget_s: float, tolerance: float) -> list[Reached]:
    """FLoss with MDLoss, through dopri5, until the budget is spent."""
    moments_room.rk4 = _dopri5(tolerance)  # the one place where moments are walked
    xy, valid = torch.as_tensor(train.xy, dtype=torch.float32), torch.as_tensor(train.valid)
    normaliser = Normaliser.fit(xy[valid])
    x = normaliser.encode(xy)
    model = MixtureModel(ModelConfig(components=4, hidden_units=32, activation="tanh", max_speed=2.0, gate="linear"))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    times = torch.arange(x.shape[1]) * train.dt_s
    runs: list[Reached] = []
    clock, step = 0.0, 0
    while clock < budget_s:
        began = time.process_time()
        optimiser.zero_grad()
        _masked_forecast_loss(model, x, valid, times).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimiser.step()
        clock, step = clock + time.process_time() - began, step + 1
        if clock >= budget_s * (len(runs) + 1) / _LOOKS:
            nll = _judge_paper(model, normaliser, held_out)
            runs.append(Reached("FLoss + MDLoss through dopri5", step, clock, nll))
    return runs


def _masked_forecast_loss(model: MixtureModel, x: Tensor, valid: Tensor, times: Tensor) -> Tensor:
    """FLoss (eq. 11) over the positions that are there: walks differ in length."""
    out = propagate(model, x[:, 0], times)
    targets, there = x[:, 1:].transpose(0, 1), valid[:, 1:].T  # (T, N, 2), (T, N)
    cov = observed_cov(out.cov[1:], model.floor())
    return mixture_density_loss(targets, out.mean[1:], cov, out.log_weight[1:])[there].mean()


def _judge_paper(model: MixtureModel, normaliser: Normaliser, held_out: WalkWindows) -> float:
    starts = normaliser.encode(torch.as_tensor(_starts(held_out), dtype=torch.float32))
    times = torch.arange(held_out.xy.shape[1]) * held_out.dt_s
    states = sample_paths(model, starts, times, model.draw(0, _SAMPLES)).states  # (T, S, 2)
    return judge(normaliser.decode(states).transpose(0, 1).double().numpy(), held_out)


def _dopri5(tolerance: float):
    def walk(field, h: Tensor, times: Tensor, substeps: int = 1) -> Rollout:  # noqa: ARG001
        states = torchdiffeq.odeint(field, h, times, rtol=tolerance, atol=tolerance, method="dopri5")
        slopes = torch.stack([field(t, s) for t, s in zip(times, states, strict=True)])
        return Rollout(states, slopes)

    return walk


if __name__ == "__main__":
    raise SystemExit(main())
