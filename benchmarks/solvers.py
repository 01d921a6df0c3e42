"""Our dopri5 beside torchdiffeq and torchode: one batch of easy and hard rows, one thread.

Two comparisons with torchdiffeq: at the same tolerance, and at the same error. torchdiffeq controls the error of the
whole batch, not of each row, so for the second its tolerance is lowered until its worst row is as accurate as ours.
torchode controls the error per row, as ours does; it is run as it is and compiled (``torch.compile`` of its ``solve``;
calling ``.solve`` on a compiled solver object, as its documentation shows, runs the uncompiled method). Compilation is
not timed. Evaluations are counted alike: two to choose the first step and six for each step tried. Time is processor
time.
"""

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torchdiffeq
import torchode  # type: ignore[import-untyped]
from torch import Tensor

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.svfm_config import SolverConfig
from svfm_ros.svfm.solver.solve import solve
from svfm_ros.targets import Check, at_least, at_most

_TOLERANCE = 1e-6
_OURS, _TORCHODE, _TORCHDIFFEQ = "svfm dopri5", "torchode", "torchdiffeq"
_COMPILED, _SAME_ERROR = "torchode, compiled", "torchdiffeq, same error"


class Oscillators:
    """``x'' = -w² x`` with frequencies from 0.1 to 10; cheap to evaluate, with a known solution."""

    def __init__(self, w: Tensor) -> None:
        self.w = w
        self._minus_w2 = -w.square()

    def __call__(self, _t: Tensor, h: Tensor) -> Tensor:
        """Velocity and acceleration."""
        return torch.stack((h[:, 1], self._minus_w2 * h[:, 0]), dim=1)

    def take(self, rows: Tensor) -> "Oscillators":
        """Those rows alone."""
        return Oscillators(self.w[rows])


class Network(torch.nn.Module):
    """A tanh network of two layers; each row is scaled by a factor of its own, from 0.1 to 10."""

    def __init__(self, pace: Tensor) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        sizes = (3, 64, 64, 2)
        self.weights = torch.nn.ParameterList(
            torch.randn(m, n, generator=random, dtype=pace.dtype) * 1.5 / math.sqrt(m) for m, n in pairwise(sizes)
        )
        self.pace = pace.unsqueeze(1)

    def forward(self, t: Tensor, h: Tensor) -> Tensor:
        """Velocity."""
        first, second, last = self.weights
        hidden = torch.tanh(torch.cat((h, t.unsqueeze(1)), dim=1) @ first)
        return torch.tanh(hidden @ second) @ last * self.pace  # type: ignore[no-any-return]

    def take(self, rows: Tensor) -> "Network":
        """Those rows alone, with the same weights."""
        part = Network.__new__(Network)
        torch.nn.Module.__init__(part)
        part.weights, part.pace = self.weights, self.pace[rows]
        return part


@dataclass(frozen=True, slots=True)
class Batch:
    """A problem and its solution at the requested times."""

    name: str
    field: Any
    h0: Tensor  # (B, D)
    times: Tensor  # (T,)
    answer: Tensor  # (T, B, D)


@dataclass(frozen=True, slots=True)
class Outcome:
    """States and evaluations of one solve."""

    states: Tensor  # (T, B, D)
    nfe: Tensor  # (B,)


@dataclass(frozen=True, slots=True)
class Figures:
    """One line of the table."""

    batch: str
    solver: str
    tolerance: float
    time_ms: float
    worst_error: float
    nfe_mean: float
    nfe_max: int


def main(argv: list[str] | None = None) -> int:
    """Print the tables; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=512, help="rows in the batch (512)")
    parser.add_argument("--runs", type=int, default=5, help="each time is the best of so many (5)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    checks: list[Check] = []
    lines: list[Figures] = []
    for batch in (_oscillators(args.rows, 2), _oscillators(args.rows, 101), _network(args.rows)):
        found = _measure(batch, args.runs)
        lines += found.values()
        checks += _checks(batch.name, found)
    gradients = _measure_gradients(_network(args.rows), args.runs)
    payload = {"lines": [asdict(f) for f in lines], "gradient_ms": gradients}
    if not args.json:
        _print(lines, gradients)
    return report("dopri5, one thread, one batch of easy and hard rows", checks, payload, args.json)


def _oscillators(rows: int, n_times: int) -> Batch:
    w = torch.logspace(-1, 1, rows, dtype=torch.float64)
    h0 = torch.stack((torch.ones_like(w), torch.zeros_like(w)), dim=1)
    times = torch.linspace(0.0, 10.0, n_times, dtype=torch.float64)
    angle = w * times.unsqueeze(1)
    answer = torch.stack((torch.cos(angle), -w * torch.sin(angle)), dim=2)
    return Batch(f"oscillators, {n_times} times", Oscillators(w), h0, times, answer)


def _network(rows: int) -> Batch:
    pace = torch.logspace(-1, 1, rows, dtype=torch.float64)
    h0 = torch.randn(rows, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    times = torch.tensor([0.0, 2.0], dtype=torch.float64)
    field = Network(pace)
    with torch.no_grad():
        answer = torchdiffeq.odeint(
            lambda t, h: field(t.expand(rows), h), h0, times, rtol=1e-12, atol=1e-12, method="dopri8"
        )
    return Batch("network", field, h0, times, answer)


def _ours(batch: Batch, tolerance: float) -> Outcome:
    solution = solve(batch.field, batch.h0, batch.times, config=SolverConfig(rtol=tolerance, atol=tolerance))
    return Outcome(solution.states, solution.nfe)


def _torchdiffeq(batch: Batch, tolerance: float) -> Outcome:
    n = len(batch.h0)
    calls = [0]

    def field(t: Tensor, h: Tensor) -> Tensor:
        calls[0] += 1
        return batch.field(t.expand(n), h)  # type: ignore[no-any-return]

    states = torchdiffeq.odeint(field, batch.h0, batch.times, rtol=tolerance, atol=tolerance, method="dopri5")
    return Outcome(states, torch.full((n,), calls[0]))


def _torchode(batch: Batch, tolerance: float, compiled: bool = False) -> Callable[[], Outcome]:
    """A function that solves the batch, with the solver object made (and compiled) once."""
    term = torchode.ODETerm(batch.field, with_stats=False)
    controller = torchode.IntegralController(atol=tolerance, rtol=tolerance, term=term)
    solver = torchode.AutoDiffAdjoint(torchode.Dopri5(term=term), controller).to(batch.h0.dtype)
    solve_problem = torch.compile(solver.solve) if compiled else solver.solve
    asked = batch.times.expand(len(batch.h0), -1).contiguous()
    start, end = asked[:, 0].contiguous(), asked[:, -1].contiguous()
    t_eval = asked if asked.shape[1] > 2 else None  # faster when only the end is wanted

    def run() -> Outcome:
        solution = solve_problem(torchode.InitialValueProblem(batch.h0, start, end, t_eval))
        states = solution.ys.transpose(0, 1)
        if t_eval is None:
            states = torch.cat((batch.h0.unsqueeze(0), states))
        return Outcome(states, 2 + 6 * solution.stats["n_steps"])

    return run


def _measure(batch: Batch, runs: int) -> dict[str, Figures]:
    """All solvers in turn, so that other load on the machine affects them alike."""
    with torch.no_grad():
        same_error = _tolerance_for(batch, _error(batch, _ours(batch, _TOLERANCE)))
        entries: dict[str, Callable[[], Outcome]] = {
            _OURS: partial(_ours, batch, _TOLERANCE),
            _TORCHODE: _torchode(batch, _TOLERANCE),
            _COMPILED: _torchode(batch, _TOLERANCE, compiled=True),
            _TORCHDIFFEQ: partial(_torchdiffeq, batch, _TOLERANCE),
            _SAME_ERROR: partial(_torchdiffeq, batch, same_error),
        }
        times_ms = _race(entries, runs)
        tolerances = {**dict.fromkeys(entries, _TOLERANCE), _SAME_ERROR: same_error}
        return {n: _figures(batch, n, run(), tolerances[n], times_ms[n]) for n, run in entries.items()}


def _figures(batch: Batch, name: str, outcome: Outcome, tolerance: float, time_ms: float) -> Figures:
    nfe = outcome.nfe
    return Figures(
        batch.name, name, tolerance, time_ms, _error(batch, outcome), float(nfe.double().mean()), int(nfe.max())
    )


def _error(batch: Batch, outcome: Outcome) -> float:
    return float((outcome.states - batch.answer).abs().max())


def _tolerance_for(batch: Batch, error: float) -> float:
    """The loosest tolerance, in steps of a factor of two, at which torchdiffeq's worst row is no worse than that."""
    tolerance = _TOLERANCE
    while _error(batch, _torchdiffeq(batch, tolerance)) > error and tolerance > 1e-10:
        tolerance /= 2
    return tolerance


def _race(entries: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Best time of each in milliseconds."""
    best = dict.fromkeys(entries, math.inf)
    for run in range(runs + 1):
        for name, entry in entries.items():
            start = time.process_time()
            entry()
            if run > 0:  # the first round warms up and compiles
                best[name] = min(best[name], 1e3 * (time.process_time() - start))
    return best


def _measure_gradients(batch: Batch, runs: int) -> dict[str, float]:
    """Milliseconds for a solve and its gradient by the weights, as training needs it; no target."""

    def train(run: Callable[[], Outcome]) -> None:
        torch.autograd.grad(run().states[-1].square().sum(), list(batch.field.parameters()))

    entries = {
        _OURS: partial(train, partial(_ours, batch, _TOLERANCE)),
        _TORCHODE: partial(train, _torchode(batch, _TOLERANCE)),
        _TORCHDIFFEQ: partial(train, partial(_torchdiffeq, batch, _TOLERANCE)),
    }
    return _race(entries, max(1, runs // 2))


def _checks(name: str, found: dict[str, Figures]) -> list[Check]:
    ours = found[_OURS]
    times = {solver: figures.time_ms / ours.time_ms for solver, figures in found.items()}
    return [
        at_least(f"{name}: times faster than torchdiffeq, same tolerance", times[_TORCHDIFFEQ], 2.0),
        at_least(f"{name}: times faster than torchdiffeq, same error", times[_SAME_ERROR], 3.0),
        at_least(f"{name}: times faster than torchode", times[_TORCHODE], 1.0),
        at_least(f"{name}: times faster than torchode, compiled", times[_COMPILED], 1.0),
        at_most(f"{name}: mean NFE per row over torchode's", ours.nfe_mean / found[_TORCHODE].nfe_mean, 1.0),
    ]


def _print(lines: list[Figures], gradients: dict[str, float]) -> None:
    names = {line.batch: {f.solver: f for f in lines if f.batch == line.batch} for line in lines}
    rows = []
    for line in lines:
        ratio = line.time_ms / names[line.batch][_OURS].time_ms
        rows.append(
            (
                line.batch,
                line.solver,
                f"{line.tolerance:.0e}",
                line.time_ms,
                ratio,
                f"{line.worst_error:.1e}",
                line.nfe_mean,
                line.nfe_max,
            )
        )
    columns = ("batch", "solver", "tolerance", "ms", "over ours", "worst error", "NFE mean", "NFE max")
    print_table("one solve", columns, rows)
    rest = [(name, ms, ms / gradients[_OURS]) for name, ms in gradients.items()]
    print_table("one solve of the network with its gradient", ("solver", "ms", "over ours"), rest)


if __name__ == "__main__":
    raise SystemExit(main())
