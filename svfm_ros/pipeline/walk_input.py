"""Walks as commands take them: a store, a CSV file, or recordings of scans that become walks first.

Also what a model remembers about the walks it was trained on.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.recorded_walks import PlacedWalks, Refused, as_recordings

if TYPE_CHECKING:
    from svfm_ros.types import Walk
    from svfm_ros.walks.reference_map import ReferenceMap

__all__ = [
    "TRAINED_ON",
    "WalkInput",
    "fingerprint",
    "keep_recordings",
    "place_beside",
    "read_walks",
    "recordings_of",
    "store_beside",
]

TRAINED_ON = "trained_on"
"""Key in a model's metrics: fingerprints of its training walks, so that it is never judged by one of them."""


@dataclass(frozen=True, slots=True)
class WalkInput:
    """Walks in the frame of the house."""

    walks: "list[Walk]"
    frame: str | None  # None: the file does not say
    unplaced: int = 0  # walks of a store that nobody has placed in the house yet
    refused: tuple[Refused, ...] = ()  # recordings and walks that are of no use


def read_walks(path: Path, resident: str | None = None) -> WalkInput:
    """All walks of one person in a store or a CSV file; they need not be named where there is nobody else."""
    found = _from_store(path, resident) if path.is_dir() else _from_csv(path, resident)
    return _one_person(found, path, resident)


def recordings_of(paths: Sequence[Path]) -> list[Path] | None:
    """The recordings that were typed; None where it is one store or CSV file."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"expected a walk store, a CSV file or recordings of scans, got nothing at {path}")
    found = as_recordings(paths)
    if found is None and len(paths) > 1:
        raise UsageError(
            f"expected one walk store or CSV file, or recordings of scans, got {len(paths)} stores or files"
        )
    return found


def store_beside(model: Path) -> Path:
    """Where the walks of recordings are kept unless someone says otherwise."""
    return model.with_suffix(".walks")


def keep_recordings(recordings: Sequence[Path], store: Path, resident: str | None, grid: Path | None) -> WalkInput:
    """Recordings become walks in a store; all walks of the store come back, those of earlier days too."""
    from svfm_ros.pipeline.recorded_walks import house_of, keep_walks, place_recordings
    from svfm_ros.walks.walk_store import WalkStore, is_store

    house = house_of(WalkStore.open(store)) if is_store(store) else None
    found = place_recordings(recordings, resident, house or _house_on(grid))
    _check_found(found, recordings)
    keep_walks(WalkStore.create(store), found)
    return replace(read_walks(store, resident), refused=found.refused)


def place_beside(recordings: Sequence[Path], store: Path, resident: str | None, grid: Path | None) -> WalkInput:
    """Recordings become walks in the frame of a store or of a map, and are kept nowhere."""
    from svfm_ros.pipeline.recorded_walks import house_of, place_recordings
    from svfm_ros.walks.walk_store import WalkStore, is_store

    house = _house_on(grid) or (house_of(WalkStore.open(store)) if is_store(store) else None)
    if house is None:
        raise UsageError(
            f"recordings have a frame of their own: expected --map, or the walks the model was trained on in --store "
            f"(got none in {store})"
        )
    found = place_recordings(recordings, resident, house)
    _check_found(found, recordings)
    return _one_person(WalkInput(found.placed, None, refused=found.refused), recordings[0], resident)


def _house_on(grid: Path | None) -> "ReferenceMap | None":
    from svfm_ros.mapio import load_map
    from svfm_ros.walks.reference_map import ReferenceMap

    return None if grid is None else ReferenceMap.from_grid(load_map(grid))


def _check_found(found: PlacedWalks, recordings: Sequence[Path]) -> None:
    """Refuse recordings of which no walk could be placed, naming the first reason."""
    if not found.placed:
        first = found.refused[0]
        more = f" ({len(found.refused) - 1} more were refused)" if len(found.refused) > 1 else ""
        what = "the recording" if len(recordings) == 1 else f"{len(recordings)} recordings"
        raise DataError(f"expected walks in {what}, got none: {first.name}: {first.reason}{more}")


def _one_person(found: WalkInput, path: Path, resident: str | None) -> WalkInput:
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


def _from_store(path: Path, resident: str | None) -> WalkInput:
    from svfm_ros.walks.walk_store import WalkStore

    store = WalkStore.open(path)
    _check_resident(path, resident, store.residents)
    walks = list(store.placed_walks(resident))
    wanted = sum(resident is None or entry.resident == resident for entry in store.entries)
    return WalkInput(walks, store.frame, wanted - len(walks))


def _from_csv(path: Path, resident: str | None) -> WalkInput:
    from svfm_ros.walks.walk_csv import read_walks_csv

    walks = read_walks_csv(path)
    _check_resident(path, resident, {walk.resident for walk in walks})
    return WalkInput([w for w in walks if resident is None or w.resident == resident], None)


def _check_resident(path: Path, resident: str | None, known: Iterable[str]) -> None:
    names = sorted(known)
    if resident is not None and resident not in names:
        raise DataError(f"expected a resident of {path} ({', '.join(names) or 'nobody'}), got {resident!r}")
