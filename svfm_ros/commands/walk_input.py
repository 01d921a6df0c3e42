"""Walks as commands take them, a store or a CSV file, and what a model remembers about the walks it was trained on."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.errors import DataError, UsageError

if TYPE_CHECKING:
    from svfm_ros.datatypes import Walk

__all__ = ["TRAINED_ON", "WalkInput", "fingerprint", "read_walks"]

TRAINED_ON = "trained_on"
"""Key in a model's metrics: fingerprints of its training walks, so that it is never judged by one of them."""

_BAG_ENDINGS = (".mcap", ".db3", ".bag")


@dataclass(frozen=True, slots=True)
class WalkInput:
    """Walks in the frame of the house."""

    walks: "list[Walk]"
    frame: str | None  # None: the file does not say
    unplaced: int = 0  # walks of a store that nobody has placed in the house yet


def read_walks(path: Path, resident: str | None = None) -> WalkInput:
    """All walks of one person, who need not be named where there is nobody else."""
    if not path.exists():
        raise UsageError(f"expected a walk store or a CSV file, got nothing at {path}")
    if _is_bag(path):
        raise UsageError(
            f"{path} is a recording of scans: expected walks; make them with the live pipeline (svfm run) first, "
            "or look at the recording with svfm slam"
        )
    found = _from_store(path, resident) if path.is_dir() else _from_csv(path, resident)
    if not found.walks:
        whose = "" if resident is None else f" of {resident!r}"
        raise DataError(f"expected walks{whose} in {path}, got none ({found.unplaced} without a place in the house)")
    people = sorted({walk.resident for walk in found.walks})
    if len(people) > 1:
        raise DataError(f"{path}: expected one person's walks, got {', '.join(people)}: choose one with --resident")
    return found


def fingerprint(walk: "Walk") -> str:
    """Tells walks apart, also those of different files that bear the same id."""
    about = f"{walk.walk_id}:{int(walk.stamps_ns[0])}:{len(walk.stamps_ns)}"
    return hashlib.blake2b(about.encode(), digest_size=8).hexdigest()


def _is_bag(path: Path) -> bool:
    if path.is_dir():
        return (path / "metadata.yaml").exists() or any(_ends_as_bag(p) for p in path.iterdir())
    return _ends_as_bag(path)


def _ends_as_bag(path: Path) -> bool:
    return path.suffix in _BAG_ENDINGS


def _from_store(path: Path, resident: str | None) -> WalkInput:
    from svfm_ros.walks.store import WalkStore

    store = WalkStore.open(path)
    _check_resident(path, resident, store.residents)
    walks = list(store.placed_walks(resident))
    wanted = sum(resident is None or entry.resident == resident for entry in store.entries)
    return WalkInput(walks, store.frame, wanted - len(walks))


def _from_csv(path: Path, resident: str | None) -> WalkInput:
    from svfm_ros.walks.csvio import read_walks_csv

    walks = read_walks_csv(path)
    _check_resident(path, resident, {walk.resident for walk in walks})
    return WalkInput([w for w in walks if resident is None or w.resident == resident], None)


def _check_resident(path: Path, resident: str | None, known: Iterable[str]) -> None:
    names = sorted(known)
    if resident is not None and resident not in names:
        raise DataError(f"expected a resident of {path} ({', '.join(names) or 'nobody'}), got {resident!r}")
