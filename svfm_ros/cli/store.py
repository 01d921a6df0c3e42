"""List, import, export and delete the walks of a store.

A store is the folder that the live pipeline fills (store:=DIR); its walks are in DIR/walks.sqlite. Without an option
this lists who has walks in it.

for example:
  svfm store out/store
  svfm store out/store --import my_walks.csv --resident mary     walk_id,t,x,y in the frame of the house
  svfm store out/store --import other_store                      a store, also one of the earlier format
  svfm store out/store --export walks.csv
  svfm store out/store --delete-resident mary

--delete-resident removes the walks, their alignments, and the models in the store's folder, because a model contains
its walks; with the last person's walks also the map that was being made. Bags, models elsewhere, and copies
of any of them are yours to delete; docs/privacy.md lists them.
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.atomic_files import check_output, check_output_folder, read_regular
from svfm_ros.cli.output import print_json, print_table, say
from svfm_ros.errors import UsageError

if TYPE_CHECKING:
    from svfm_ros.types import Walk
    from svfm_ros.walks.walk_store import Added, WalkStore

__all__ = ["add_arguments", "run"]

_MODELS = ("*.pt", "*.tables")  # earlier versions wrote tables beside them
_MOST_BYTES = 1 << 30  # of a file that is copied
_MAPS = ("*.state", "*.session", "*.unusable")  # mapping under way, with the trajectory of whoever wore the sensor
_UNFINISHED_MODELS = (".*.pt.*.part",)  # what a program that was killed was writing
_UNFINISHED_MAPS = (".*.state.*.part", ".*.session.*.part")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What was done, one sentence each, and the exit code."""

    lines: list[str]
    code: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm store``."""
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of walks")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--import", type=Path, dest="source", metavar="PATH", help="add the walks of this CSV file or store"
    )
    what.add_argument(
        "--export",
        type=Path,
        dest="export_csv",
        metavar="CSV",
        help="write the aligned walks to this file, in the frame of the house",
    )
    what.add_argument("--delete-resident", metavar="R", help="remove all that is kept of this person")
    parser.add_argument("--resident", metavar="R", help="with --import: whose walks, where the file does not say")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Do what the options say, then list what the store holds; 1 when an export is incomplete."""
    if args.resident is not None and args.source is None:
        raise UsageError("--resident goes with --import, and there is none")
    if args.export_csv is not None:
        check_output(args.export_csv)
    given = _walks_to_import(args)
    if args.source is not None:
        check_output_folder(args.store)
    store = _open(args)
    outcome = _act(args, store, given)
    for _ in store.walks():  # reads all, so that damaged walks are known
        pass
    walks = Counter(entry.resident for entry in store.entries)
    if args.json:
        figures = {"store": str(args.store), "done": outcome.lines, "residents": dict(walks)}
        print_json({**figures, "problems": len(store.problems)})
        return outcome.code
    for line in outcome.lines:
        say(line)
    rows = [(name, count) for name, count in sorted(walks.items())]
    print_table(f"{args.store}, frame {store.frame}", ("resident", "walks"), rows)
    for problem in store.problems:
        say(f"not used: {problem.reason}")
    return outcome.code


def _walks_to_import(args: argparse.Namespace) -> "list[Walk] | None":
    """The walks of the CSV file to import, read before a store is made; None where there is none."""
    from svfm_ros.walks.walk_csv import read_walks_csv

    if args.source is None or args.source.is_dir():
        return None
    if not args.source.exists():
        raise UsageError(f"--import: expected a CSV file or a store, got nothing at {args.source}")
    return read_walks_csv(args.source, args.resident or "unknown")


def _open(args: argparse.Namespace) -> "WalkStore":
    from svfm_ros.walks.walk_store import WalkStore, frame_of_store

    if args.source is None:
        return WalkStore.open(args.store)
    if not args.source.is_dir():
        return WalkStore.create(args.store)
    if args.resident is not None:
        raise UsageError("--resident goes with a CSV file: a store says whose walks it holds")
    if args.source.resolve() == args.store.resolve():
        raise UsageError(f"--import: expected another store than {args.store}")
    return WalkStore.create(args.store, frame_of_store(args.source))


def _act(args: argparse.Namespace, store: "WalkStore", walks: "list[Walk] | None") -> _Outcome:
    if walks is not None:
        return _Outcome(_count(store.import_walks(walks), args.source))
    if args.source is not None:
        return _import(store, args.source)
    if args.export_csv is not None:
        return _export(store, args.export_csv)
    return _Outcome([]) if args.delete_resident is None else _Outcome(_delete(store, args.delete_resident))


def _import(store: "WalkStore", source: Path) -> _Outcome:
    was_empty = not len(store)
    added = store.import_store(source)
    return _Outcome(_count(added, source) + (_copy_files(source, store.path) if was_empty else []))


def _count(added: "Added", source: Path) -> list[str]:
    again = f", {added.duplicates} were there already" if added.duplicates else ""
    return [f"{added.new} new walks from {source}{again}", *(f"not imported: {reason}" for reason in added.problems)]


def _copy_files(source: Path, target: Path) -> list[str]:
    """Copy map and models beside the walks of a store, but none over a file that exists."""
    from svfm_ros.atomic_files import write_whole

    lines = []
    for path in _files(source, (*_MODELS, "*.state")):
        if path.is_file() and not (target / path.name).exists():
            write_whole(target / path.name, read_regular(path, _MOST_BYTES))
            lines.append(f"{path} copied")
    return lines


def _export(store: "WalkStore", path: Path) -> _Outcome:
    done = store.export_csv(path)
    if done.walks == done.expected:
        return _Outcome([f"{done.walks} walks written to {path}"])
    missing = done.expected - done.walks
    why = f"{len(store.problems)} of them damaged, the others deleted while they were exported"
    return _Outcome([f"{done.walks} of {done.expected} walks written to {path}: {missing} are missing, {why}"], code=1)


def _delete(store: "WalkStore", resident: str) -> list[str]:
    from svfm_ros import atomic_files

    gone = store.delete_resident(resident)
    models, maps = _files(store.path, _MODELS), _files(store.path, _MAPS)
    unfinished = _files(store.path, _UNFINISHED_MODELS if len(store) else _UNFINISHED_MODELS + _UNFINISHED_MAPS)
    for path in unfinished + models + ([] if len(store) else maps):
        atomic_files.remove(path)
    atomic_files.sync_folder(store.path)
    lines = [f"{gone.walks} walks of {resident} deleted"]
    if not gone.erased:
        lines.append("another program is reading the store: run this again with any resident when it has ended")
    lines += [f"{path} deleted: it was learned from these walks" for path in models]
    if len(store):
        kept = (
            "is kept, for the others' walks lie in its frame; it holds the trajectory of everyone who wore the sensor"
        )
        return lines + [f"{path} {kept}" for path in maps]
    return lines + [f"{path} deleted: it held the trajectory of the wearer" for path in maps]


def _files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in folder.glob(pattern))
