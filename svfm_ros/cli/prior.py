"""Learn from many homes what a new home starts from.

Each of STORES is the walk store or the CSV file of one home. Learnt is what is not a matter of the floor plan: how
people walk who follow no habit (the free walker), pace, noise and memory of their steps. A home gives small statistics,
which are added up; no walk is kept in the file. Without --prior, svfm train starts from the one that ships.

for example:
  svfm prior homes/*/walks.csv --out prior.pt
  svfm train new_home.csv --out model.pt --prior prior.pt
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.atomic_files import check_output, writing
from svfm_ros.cli.output import add_json_argument, print_json, print_table
from svfm_ros.errors import DataError, UsageError
from svfm_ros.progress import progress

if TYPE_CHECKING:
    from svfm_ros.pipeline.population import HomeStatistics

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm prior``."""
    parser.add_argument("stores", type=Path, nargs="+", metavar="STORES", help="walk store or CSV file of each home")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file for the prior")
    parser.add_argument("--time-zone", metavar="Z", help="zone of the homes, such as Europe/London (UTC)")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Learn each home, add up, write."""
    check_output(args.out, read=args.stores)
    for path in args.stores:
        if not path.exists():
            raise UsageError(f"expected a walk store or a CSV file, got nothing at {path}")
    from svfm_ros.pipeline.population import population_prior

    total: HomeStatistics | None = None
    refused = []
    with progress() as bar:
        task = bar.add_task("homes", total=len(args.stores), note="")
        for path in args.stores:
            try:
                found = _statistics(path, args.time_zone)
                total = found if total is None else total + found
            except DataError as error:
                refused.append({"name": str(path), "reason": str(error)})
            bar.advance(task)
    if total is None:
        raise DataError(f"expected a home to learn from, got none: {refused[0]['reason']}")
    prior = population_prior(total)
    with writing(args.out):
        prior.save(args.out)
    figures = {"prior": str(args.out), "homes": total.homes, "numbers": sorted(prior.numbers), "refused": refused}
    if args.json:
        print_json(figures)
        return 0
    rows: list[tuple[str, object]] = [("homes", total.homes), ("numbers that homes share", len(prior.numbers))]
    rows += [("not used", f"{r['name']}: {r['reason']}") for r in refused]
    print_table(str(args.out), ("what", "value"), rows)
    return 0


def _statistics(path: Path, time_zone: str | None) -> "HomeStatistics":
    from svfm_ros.config.walk_config import WindowsConfig
    from svfm_ros.pipeline.learn import LearnConfig, learn
    from svfm_ros.pipeline.population import home_statistics
    from svfm_ros.pipeline.walk_input import read_walks

    given = read_walks(path, several=True)
    config = LearnConfig(windows=WindowsConfig(time_zone=time_zone or WindowsConfig().time_zone))
    return home_statistics(learn(given.walks, config, frame=given.frame or "map").file)
