"""Look into a store of walks, bring walks in and out, delete a person's.

A store is the folder that the live pipeline fills (store:=DIR). Without an option this lists who has walks in it.

for example:
  svfm store out/store
  svfm store out/store --import my_walks.csv --resident mary     walk_id,t,x,y in the frame of the house
  svfm store out/store --export placed.csv
  svfm store out/store --delete-resident mary

--delete-resident removes the walks, where they were placed, and the models in the store's folder, for a model remembers
where its walks went; with the last person's walks also the map that was being made. Bags, models elsewhere, and copies
of any of them are yours to delete; docs/privacy.md lists them.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.cli.output import print_json, print_table
from svfm_ros.errors import UsageError

if TYPE_CHECKING:
    from svfm_ros.walks.walk_store import WalkStore

__all__ = ["add_arguments", "run"]

_MODELS = ("*.pt", "*.tables")  # and the tables beside them
_MAPS = ("*.state", "*.session", "*.unusable")  # mapping under way, with the way of whoever wore the sensor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm store``."""
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of walks")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--import", type=Path, dest="import_csv", metavar="CSV", help="keep the walks of this file")
    what.add_argument(
        "--export", type=Path, dest="export_csv", metavar="CSV", help="write the placed walks to this file"
    )
    what.add_argument("--delete-resident", metavar="R", help="remove all that is kept of this person")
    parser.add_argument("--resident", metavar="R", help="with --import: whose walks, where the file does not say")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Do the one thing asked for, then tell what the store holds."""
    from svfm_ros.walks.walk_store import WalkStore

    if args.resident is not None and args.import_csv is None:
        raise UsageError("--resident goes with --import, and there is none")
    store = WalkStore.create(args.store) if args.import_csv else WalkStore.open(args.store)
    done = _act(args, store)
    walks = Counter(entry.resident for entry in store.entries)
    if args.json:
        print_json({"store": str(args.store), "done": done, "residents": dict(walks), "problems": len(store.problems)})
        return 0
    for line in done:
        print(line)
    rows = [(name, count) for name, count in sorted(walks.items())]
    print_table(f"{args.store}, frame {store.frame}", ("resident", "walks"), rows)
    for problem in store.problems:
        print(f"not used: {problem.reason}")
    return 0


def _act(args: argparse.Namespace, store: "WalkStore") -> list[str]:
    if args.import_csv:
        return [f"{store.import_csv(args.import_csv, args.resident or 'unknown')} new walks from {args.import_csv}"]
    if args.export_csv:
        return [f"{store.export_csv(args.export_csv)} walks written to {args.export_csv}"]
    return [] if args.delete_resident is None else _delete(store, args.delete_resident)


def _delete(store: "WalkStore", resident: str) -> list[str]:
    from svfm_ros import atomic_files

    gone = store.delete_resident(resident)
    models, maps = _files(store, _MODELS), _files(store, _MAPS)
    for path in models if len(store) else models + maps:
        atomic_files.remove(path)
    atomic_files.sync_folder(store.path)
    lines = [f"{gone.walks} walks of {resident} deleted"]
    lines += [f"{path} deleted: it was learned from these walks" for path in models]
    if len(store):
        kept = "is kept, for the others' walks lie in its frame; it holds the way of everyone who wore the sensor"
        lines += [f"{path} {kept}" for path in maps]
    else:
        lines += [f"{path} deleted: it held the way of the wearer" for path in maps]
    return lines + [
        f"{path} is damaged, so nobody can tell whose it is: look at it yourself" for path in gone.unreadable
    ]


def _files(store: "WalkStore", patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in store.path.glob(pattern))
