#!/usr/bin/env python3
"""Many homes on Ray: overhead, speed-up with two workers, 1,000 homes, memory of the driver

Homes are drawn at random (house, resident, 40 to 160 walks) and written as CSV files. Each measurement runs in a
process of its own, and the start of Ray is part of its time.

Overhead and speed-up: one round over homes of about 10 s of work, in a plain loop and on Ray with one and two workers.
Rate: `svfm fleet run`, both rounds and the prior between them, without reports.
Memory: the driver's largest resident size over homes whose work is done, 100 and 1,000: then only the driver works.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.targets import Check, at_least, at_most

MOST_OVERHEAD = 0.15
LEAST_SPEED_UP = 1.7
MOST_HOURS = 3.0
MOST_GROWTH = 1.05  # of the driver's memory, 1,000 homes over 100
_MANY = 1000

_LOOP = """
import sys
from svfm_ros.config.fleet_config import FleetConfig
from svfm_ros.fleet.home_work import second_round
from svfm_ros.fleet.homes import find_homes
for home in find_homes(sys.argv[1]):
    second_round(home, sys.argv[2], FleetConfig(reports=False), None)
"""

_ONE_ROUND = """
import sys
from svfm_ros.config.fleet_config import FleetConfig
from svfm_ros.fleet.fleet_run import run_fleet
from svfm_ros.fleet.homes import find_homes
from svfm_ros.fleet.ray_tasks import ray_session
homes = find_homes(sys.argv[1])
with ray_session(workers=int(sys.argv[3])):
    outcome = run_fleet(homes, sys.argv[2], FleetConfig(reports=False, least_homes=len(homes) + 1))
assert not outcome.failed, outcome.failed
"""

_DRIVER = """
import resource, sys
from svfm_ros.cli.main import main
code = main(["fleet", "run", sys.argv[1], "--out", sys.argv[2], "--workers", "2", "--no-reports", "--json"])
print("resident_kb", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """One way to work through homes."""

    name: str
    homes: int
    seconds: float

    @property
    def per_home_s(self) -> float:
        """Seconds per home."""
        return self.seconds / self.homes


def make_homes(folder: Path, count: int, walks: Sequence[int], seed: int = 0) -> None:
    """CSV files of random homes; ``walks`` are the least and the most of one."""
    from svfm_ros.config.sim_config import ResidentConfig, SimConfig
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.resident import resident_of, simulate_resident
    from svfm_ros.walks.walk_csv import write_walks_csv

    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for n in range(count):
        many = int(rng.integers(walks[0], walks[1] + 1))
        house = load_house(f"random:{seed + n}")
        person = resident_of(house, SimConfig(resident=ResidentConfig(seed=seed + n)))
        found = simulate_resident(house, person, walks=many, seed=seed + n)
        write_walks_csv([w.walk for w in found], folder / f"home{n:04d}.csv")


def timed(name: str, homes: Path, arguments: Sequence[str]) -> Figures:
    """Seconds of a process that works through all homes."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, check=False, env=_environment())
    if done.returncode:
        raise SystemExit(f"{name} ended with code {done.returncode}: {done.stdout.decode()}")
    found = Figures(name, len(list(homes.glob("*.csv"))), time.perf_counter() - began)
    print(f"{name}: {found.seconds:.1f} s for {found.homes} homes", file=sys.stderr, flush=True)
    return found


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def fleet_command(homes: Path, out: Path, workers: int) -> list[str]:
    """Of ``svfm fleet run``."""
    where = [str(homes), "--out", str(out), "--workers", str(workers), "--no-reports", "--json"]
    return ["-m", "svfm_ros.cli.main", "fleet", "run", *where]


def driver_megabytes(homes: Path, results: Path, count: int) -> float:
    """Largest resident size of the driver over homes that are done: copies of one home and of its results."""
    folder = Path(tempfile.mkdtemp(prefix="svfm-driver-", dir=homes.parent))
    (folder / "homes").mkdir()
    first = sorted(homes.glob("*.csv"))[0]
    shutil.copy(results / "prior.safetensors", _made(folder / "out") / "prior.safetensors")
    for n in range(count):
        os.link(first, folder / "homes" / f"home{n:04d}.csv")
        target = _made(folder / "out" / "homes" / f"home{n:04d}")
        for file in (results / "homes" / first.stem).iterdir():
            os.link(file, target / file.name)
    command = [sys.executable, "-c", _DRIVER, str(folder / "homes"), str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_environment())
    found = json.loads(done.stdout)
    assert (found["done"], found["worked_on"]) == (count, 0), found  # otherwise the driver is not what was measured
    shutil.rmtree(folder)
    return float(done.stderr.split("resident_kb")[1].split()[0]) / 1024.0


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--homes", type=int, default=50, help="for the rate of 1,000 homes (50)")
    parser.add_argument("--few", type=int, default=8, help="for overhead and speed-up (8)")
    parser.add_argument("--parts", default="ratios,rate,memory", help="what to measure (ratios,rate,memory)")
    parser.add_argument("--dir", type=Path, help="where to work; a temporary folder unless given")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    parts = args.parts.split(",")
    folder = Path(tempfile.mkdtemp(prefix="svfm-fleet-", dir=args.dir))
    checks: list[Check] = []
    rows: list[Figures] = []
    extra: dict[str, dict[str, float]] = {}
    try:
        if "ratios" in parts:
            make_homes(folder / "few", args.few, (150, 160))
            loop = timed("plain loop", folder / "few", ["-c", _LOOP, str(folder / "few"), str(folder / "loop")])
            one, two = (
                timed(name, folder / "few", ["-c", _ONE_ROUND, str(folder / "few"), str(folder / name), str(n)])
                for n, name in enumerate(("Ray, one worker", "Ray, two workers"), 1)
            )
            rows += [loop, one, two]
            checks += _ratio_checks(loop, one, two)
        if "rate" in parts or "memory" in parts:
            make_homes(folder / "many", args.homes, (40, 160), seed=100)
            rate = timed(
                "Ray, two workers, both rounds",
                folder / "many",
                fleet_command(folder / "many", folder / "out", 2),
            )
            rows.append(rate)
            checks.append(at_most(f"{_MANY} homes at this rate, hours", rate.per_home_s * _MANY / 3600.0, MOST_HOURS))
        if "memory" in parts:
            few, many = (driver_megabytes(folder / "many", folder / "out", n) for n in (_MANY // 10, _MANY))
            extra = {"driver_mb": {str(_MANY // 10): few, str(_MANY): many}}
            checks.append(at_most(f"driver's memory, {_MANY} homes over {_MANY // 10}", many / few, MOST_GROWTH))
    finally:
        shutil.rmtree(folder)
    if not args.json:
        cells = [(r.name, r.homes, r.seconds, r.per_home_s) for r in rows]
        print_table("Homes learnt and scored", ("way", "homes", "s", "s per home"), cells)
        if extra:
            print(json.dumps(extra))
    return report("Many homes", checks, {"rows": [asdict(r) for r in rows], **extra}, args.json)


def _ratio_checks(loop: Figures, one: Figures, two: Figures) -> list[Check]:
    return [
        at_most("Ray's overhead over a plain loop, one worker", one.seconds / loop.seconds - 1.0, MOST_OVERHEAD),
        at_least("two workers over one", one.seconds / two.seconds, LEAST_SPEED_UP),
    ]


if __name__ == "__main__":
    sys.exit(main())
