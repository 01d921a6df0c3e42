"""Choose options of the model by their held-out score over homes, with Ray Tune.

HOMES is a folder or URL of homes with walks, as for svfm fleet. Each combination of a grid is tried on one home after
the other; after 1, 3, 9, ... homes only the better third goes on (ASHA). --grid ours: options of the walk model behind
svfm train, scored by the NLL of walks left out. --grid paper: layers, units, batch size and learning rate of the
paper's SVFM, trained and scored by the paper's loss.

for example:
  svfm tune homes
  svfm tune homes --grid paper --steps 200 --markdown table.md
  svfm tune s3://study/homes --address ray://cluster:10001 --storage s3://study/tune
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.atomic_files import check_output, write_whole
from svfm_ros.cli.many_homes.fleet import add_ray_arguments
from svfm_ros.cli.output import add_json_argument, print_json, print_table, shown
from svfm_ros.errors import UsageError

if TYPE_CHECKING:
    from svfm_ros.fleet.tuning import HomeScore, Tried

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm tune``."""
    parser.add_argument("homes", metavar="HOMES", help="folder or URL of homes")
    parser.add_argument("--grid", choices=("ours", "paper"), default="ours", help="which options (ours)")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="of the optimiser, with --grid paper (200)")
    parser.add_argument("--most-homes", type=int, metavar="N", help="use the first N homes only")
    parser.add_argument("--storage", metavar="URL", help="where Ray Tune keeps its records, for a cluster")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown, too")
    add_ray_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Try the grid and print it, the best first."""
    from svfm_ros.fleet.homes import find_homes
    from svfm_ros.fleet.ray_tasks import ray_session
    from svfm_ros.fleet.tuning import tune_homes

    if args.address is not None and args.storage is None:
        raise UsageError("expected --storage with --address: a path or URL that all nodes of the cluster reach")
    if args.markdown is not None:
        check_output(args.markdown)
    homes = find_homes(args.homes)[: args.most_homes]
    score, grid = _asked(args)
    with ray_session(args.address, args.workers, args.dashboard):
        tried = tune_homes(homes, score, grid, args.storage)
    if args.markdown is not None:
        write_whole(args.markdown, _markdown(tried).encode())
    if args.json:
        rows = [{"options": t.options, "homes": t.homes, "score": t.score, "error": t.error} for t in tried]
        print_json({"grid": args.grid, "homes": len(homes), "tried": rows})
        return 0
    title = f"{args.homes}: {len(tried)} combinations on up to {len(homes)} homes, the best first"
    print_table(title, (*grid, "homes", "score"), [_row(t) for t in tried])
    return 0


def _asked(args: argparse.Namespace) -> "tuple[HomeScore, Mapping[str, tuple[Any, ...]]]":
    """The score and the grid."""
    if args.grid == "ours":
        from svfm_ros.fleet.tuning import OURS, walk_model_score

        return walk_model_score, OURS
    from svfm_ros.experiments.classifiers import PAPER_GRID
    from svfm_ros.experiments.paper_walks import paper_held_out_loss

    return partial(paper_held_out_loss, steps=args.steps), PAPER_GRID


def _row(tried: "Tried") -> tuple[object, ...]:
    return (*(f"{value:g}" for value in tried.options.values()), tried.homes, shown(tried.score, tried.error))


def _markdown(tried: "list[Tried]") -> str:
    lines = [("", *tried[0].options, "homes", "score"), ("---",) * (len(tried[0].options) + 3)]
    lines += [("**best**" if n == 0 else "", *map(str, _row(t))) for n, t in enumerate(tried)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
