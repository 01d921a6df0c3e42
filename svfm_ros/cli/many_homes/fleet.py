"""Learn, evaluate and report many homes, on Ray: on this machine, or on a cluster.

HOMES is a folder or an fsspec URL (s3://, gs://, ...) with one folder, or one CSV file of walks, per home:

  HOMES/mary/walks.csv      walks in the frame of the house, or
  HOMES/mary/store/         a walk store, or
  HOMES/mary/recordings/    recordings of scans, alone or beside a store that they are added to
  HOMES/mary/home.yaml      if wanted: time_zone, resident; beside it places.yaml and map.yaml
  HOMES/joe.csv             a home that is walks alone

For each home: SLAM and alignment of new recordings, training, scores on walks left out, a report. A first round learns
what homes have in common (the population prior, DIR/prior.safetensors); a second one learns every home with it. A home
with several residents gets one model, and figures and a report of each. DIR gets a folder per home, homes.parquet with
a row per resident, and fleet.html, a page with a link to each report.

Started again, it does only what is left: what is done is recognised by hashes of all that went into it. A home that
cannot be used is named with its reason, and the others go on. The prior is kept once it is learnt; --renew-prior learns
it from all homes again, and then every home with it.

for example:
  svfm fleet run homes --out results
  svfm fleet run homes --out results --workers 4 --time-zone Europe/London
  svfm fleet run s3://study/homes --out s3://study/results --address ray://cluster:10001

Exit code 1 when a home could not be used. Ray opens ports on all interfaces of the machine: see docs/privacy.md.
"""

import argparse
from typing import TYPE_CHECKING, Any

from svfm_ros.cli.output import add_json_argument, print_json, print_table
from svfm_ros.config.fleet_config import FleetConfig
from svfm_ros.progress import progress

if TYPE_CHECKING:
    from svfm_ros.fleet.fleet_run import FleetOutcome

__all__ = ["add_arguments", "run"]

_DEFAULT = FleetConfig()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm fleet``."""
    parser.add_argument("action", choices=("run",), help="run: both rounds over all homes")
    parser.add_argument("homes", metavar="HOMES", help="folder or URL of homes")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder or URL for the results")
    add_ray_arguments(parser)
    parser.add_argument("--time-zone", default=_DEFAULT.time_zone, metavar="Z", help="of homes that name none (UTC)")
    parser.add_argument("--cpus", type=float, default=_DEFAULT.cpus, metavar="N", help="cores per home (1)")
    parser.add_argument("--gpus", type=float, default=_DEFAULT.gpus, metavar="N", help="GPUs per home (0)")
    parser.add_argument(
        "--memory", type=float, default=_DEFAULT.memory_gb, metavar="GB", help="per home (not reserved)"
    )
    parser.add_argument(
        "--retries", type=int, default=_DEFAULT.retries, metavar="N", help="of a home whose worker was killed (3)"
    )
    parser.add_argument("--no-reports", action="store_true", help="models and figures alone")
    parser.add_argument("--renew-prior", action="store_true", help="learn the population prior from all homes again")
    add_json_argument(parser)


def add_ray_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the work is done."""
    parser.add_argument("--address", metavar="RAY", help="of a Ray cluster, such as ray://host:10001 (this machine)")
    parser.add_argument("--workers", type=int, metavar="N", help="homes at a time on this machine (one per core)")
    parser.add_argument("--dashboard", action="store_true", help="start Ray's dashboard on this machine")


def run(args: argparse.Namespace) -> int:
    """Both rounds; 1 when a home could not be used."""
    from svfm_ros.fleet.fleet_run import run_fleet
    from svfm_ros.fleet.homes import find_homes
    from svfm_ros.fleet.ray_tasks import ray_session

    config = FleetConfig(
        cpus=args.cpus,
        gpus=args.gpus,
        memory_gb=args.memory,
        retries=args.retries,
        time_zone=args.time_zone,
        reports=not args.no_reports,
    )
    homes = find_homes(args.homes)
    with ray_session(args.address, args.workers, args.dashboard), progress() as bar:
        tasks: dict[str, Any] = {}

        def tick(what: str, home: str) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=len(homes), note="")
            bar.update(tasks[what], advance=1, note=home)

        outcome = run_fleet(homes, args.out, config, args.renew_prior, tick)
    _report(args, outcome)
    return 1 if outcome.failed else 0


def _report(args: argparse.Namespace, outcome: "FleetOutcome") -> None:
    figures = {
        "homes": outcome.homes,
        "done": outcome.homes - len(outcome.failed),
        "worked_on": outcome.worked_on,
        "prior": outcome.prior,
        "prior_homes": outcome.prior_homes,
        "failed": outcome.failed,
    }
    if args.json:
        print_json({**figures, "out": args.out})
        return
    rows = [
        ("homes", outcome.homes),
        ("done", f"{figures['done']}, {outcome.worked_on} of them worked on in this run"),
        ("population prior", outcome.prior),
        *((f"failed: {name}", reason) for name, reason in sorted(outcome.failed.items())),
        ("page", f"{args.out.rstrip('/')}/fleet.html"),
    ]
    print_table(args.homes, ("what", "value"), rows)
