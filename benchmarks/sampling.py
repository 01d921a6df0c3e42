"""200 sampled paths over 10 s on one thread, from a trained model; and how the time grows with the number of paths.

Beside it, the same number of paths of a field mixture of the same size, solved in torch: by our dopri5, row by row, and
with fixed steps. Time is processor time of the one thread, so that other programs on the machine do not count.

Also the same forecast with half of a walk so far, from which the posterior follows, and the time to load the model's
file (without imports).

And forecasts of many walkers in one call (``forecast_many``), 200 paths each: compiled, and by the batched code that
runs on a GPU, here on the CPU (and on the GPU, by the clock, where there is one).
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.forecast_config import ForecastConfig
from svfm_ros.config.svfm_config import ModelConfig, SolverConfig
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import load_walk_model, save_walk_model
from svfm_ros.pipeline.learn import learn
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.solver.solve import solve
from svfm_ros.targets import Check, at_most
from svfm_ros.types import Walk

_HORIZON_S = 10.0
_COUNTS = (200, 500, 1000, 2000)
_TARGET_MS = 10.0
_WALKING_MS = 3.0  # with a walk so far
_LOAD_S = 0.2
_WALKERS = (1, 100, 1000)


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50, help="forecasts per figure (50)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    forecaster, walk = _forecaster()
    start, stamp = walk.xy[0], int(walk.stamps_ns[0])
    half = Walk(walk.walk_id, walk.resident, walk.stamps_ns[: len(walk.xy) // 2], walk.poses[: len(walk.xy) // 2])

    def ours(count: int) -> object:
        return forecaster.forecast(start, stamp, samples=count)

    def walking() -> object:
        return forecaster.forecast(half.xy[-1], int(half.stamps_ns[-1]), walk_so_far=half, samples=_COUNTS[0])

    peers = {"torch, fixed steps": _fixed_steps(), "torch, our dopri5 1e-4": _dopri5()}
    rows = []
    for count in _COUNTS:
        took = {"svfm forecast": _median_ms(lambda n=count: ours(n), args.repeats)}
        took |= {name: _median_ms(lambda n=count, f=f: f(n), max(3, args.repeats // 10)) for name, f in peers.items()}
        rows.append({"paths": count, **took})
    checks = _checks(rows)
    checks.append(
        at_most("200 paths with half of a walk so far, median ms", _median_ms(walking, args.repeats), _WALKING_MS)
    )
    checks.append(at_most("model file loaded, median s", 1e-3 * _load_ms(forecaster, args.repeats), _LOAD_S))
    many = [_many_row(forecaster, start, stamp, count) for count in _WALKERS]
    if not args.json:
        print_table("forecast_many, one thread: forecasts a second", tuple(many[0]), [r.values() for r in many])
        print_table(f"paths over {_HORIZON_S:g} s, one thread: median ms", tuple(rows[0]), [r.values() for r in rows])
    return report("sampling", checks, {"rows": rows, "many": many}, args.json)


def _checks(rows: list[dict[str, float]]) -> list[Check]:
    first, last = rows[0], rows[-1]
    growth = last["svfm forecast"] / first["svfm forecast"] / (last["paths"] / first["paths"])
    return [
        at_most("200 paths over 10 s, median ms", first["svfm forecast"], _TARGET_MS),
        at_most("growth to 2,000 paths, share of linear", growth, 1.0),
    ]


def _median_ms(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return 1e3 * float(np.median(times))


def _load_ms(forecaster: Forecaster, repeats: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        save_walk_model(path, forecaster.file)
        return _median_ms(lambda: load_walk_model(path), repeats)


def _forecaster() -> tuple[Forecaster, Walk]:
    """A forecaster whose forecasts are whole (paths, shares, entropy, what it rests on), and a walk it learnt."""
    house = load_house()
    walks = [w.walk for w in simulate_protocol(house, seed=1)]
    forecaster = Forecaster(learn(walks, places=house.places).file, house.places, ForecastConfig(horizon_s=_HORIZON_S))
    return forecaster, walks[0]


def _many_row(compiled: Forecaster, start: NDArray[np.float64], stamp: int, walkers: int) -> dict[str, float]:
    """Forecasts a second of ``walkers`` at once."""
    devices = {"torch, CPU": "torch"} | ({"torch, GPU": "cuda"} if torch.cuda.is_available() else {})
    batched = {n: Forecaster(compiled.file, compiled.places, compiled.config, device=d) for n, d in devices.items()}
    row: dict[str, float] = {"walkers": walkers}
    for name, forecaster in {"compiled": compiled, **batched}.items():
        clock = time.perf_counter if name.endswith("GPU") else time.process_time
        forecaster.forecast_many([start], [stamp])
        began = clock()
        forecaster.forecast_many([start] * walkers, [stamp] * walkers)
        row[name] = walkers / (clock() - began)
    return row


def _mixture() -> MixtureModel:
    return MixtureModel(ModelConfig(components=4, hidden_units=32, hidden_layers=2, activation="tanh"))


def _fixed_steps() -> Callable[[int], object]:
    model = _mixture()
    times = torch.linspace(0.0, _HORIZON_S, 26)
    return lambda count: sample_paths(model, torch.zeros(count, 2), times, model.draw(0, count))


def _dopri5() -> Callable[[int], object]:
    model = _mixture()
    times = torch.linspace(0.0, _HORIZON_S, 26)
    config = SolverConfig(rtol=1e-4, atol=1e-4)

    def run(count: int) -> object:
        with torch.inference_mode():
            noise, start = model.draw(0, count), torch.zeros(count, 2)
            return solve(model.realise(noise, model.pick(times[0], start, noise)), start, times, config=config)

    return run


if __name__ == "__main__":
    raise SystemExit(main())
