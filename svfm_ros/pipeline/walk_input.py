"""The walks that a command is given: a store, a CSV file, or recordings of scans.

Also the fingerprints of training walks that are stored with a model.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.recorded_walks import AlignedRecordings, Refused, as_recordings

if TYPE_CHECKING:
    from svfm_ros.types import Walk
    from svfm_ros.walks.reference_map import ReferenceMap

__all__ = [
    "TRAINED_ON",
    "WalkInput",
    "align_to_house",
    "fingerprint",
    "keep_recordings",
    "read_walks",
    "recordings_of",
    "store_beside",
]

TRAINED_ON = "trained_on"
"""Key in a model's metrics: fingerprints of its training walks, so that it is never scored on one of them."""


@dataclass(frozen=True, slots=True)
class WalkInput:
    """Walks in the house's frame."""

    walks: "list[Walk]"
    frame: str | None  # None: the file does not say
    not_aligned: int = 0  # walks of the store that are not aligned with the house yet
    refused: tuple[Refused, ...] = ()  # recordings and walks that are not used
    others: "list[Walk]" = field(default_factory=list)  # walks of the other residents, where one was asked for

    def check_frame(self, frame: str) -> None:
        """Refuse walks that are in another frame than a model."""
        if self.frame not in (None, frame):
            raise DataError(f"expected walks in the model's frame {frame!r}, got {self.frame!r}")


def read_walks(path: Path, resident: str | None = None, several: bool = False) -> WalkInput:
    """All walks of one person in a store or a CSV file; ``resident`` may be None where there is only one.

    With ``several``, walks of all residents are wanted unless one is named.
    """
    found = _from_store(path, resident) if path.is_dir() else _from_csv(path, resident)
    return _some_walks(found, path, resident) if several else _one_person(found, path, resident)


def recordings_of(paths: Sequence[Path]) -> list[Path] | None:
    """The recordings at the paths of a command line; None where it is one store or CSV file."""
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
    """The default store for walks of recordings: beside the model's file."""
    return model.with_suffix(".walks")


def keep_recordings(recordings: Sequence[Path], store: Path, resident: str | None, grid: Path | None) -> WalkInput:
    """Add the walks of recordings to a store; returns all walks of the store, also those of earlier days."""
    from svfm_ros.pipeline.recorded_walks import align_recordings, keep_walks
    from svfm_ros.walks.reference_map import map_of_store
    from svfm_ros.walks.walk_store import WalkStore, is_store

    house = map_of_store(WalkStore.open(store)) if is_store(store) else None
    found = align_recordings(recordings, resident, house or _house_on(grid))
    _check_found(found, recordings)
    keep_walks(WalkStore.create(store), found)
    return replace(read_walks(store, resident, several=True), refused=found.refused)


def align_to_house(recordings: Sequence[Path], store: Path, resident: str | None, grid: Path | None) -> WalkInput:
    """The walks of recordings, aligned to a map or to the walks of a store; they are not stored."""
    from svfm_ros.pipeline.recorded_walks import align_recordings
    from svfm_ros.walks.reference_map import map_of_store
    from svfm_ros.walks.walk_store import WalkStore, is_store

    house = _house_on(grid) or (map_of_store(WalkStore.open(store)) if is_store(store) else None)
    if house is None:
        raise UsageError(
            f"recordings have a frame of their own: expected --map, or the walks the model was trained on in --store "
            f"(got none in {store})"
        )
    found = align_recordings(recordings, resident, house)
    _check_found(found, recordings)
    return _one_person(WalkInput(found.aligned, None, refused=found.refused), recordings[0], resident)


def _house_on(grid: Path | None) -> "ReferenceMap | None":
    from svfm_ros.mapio import load_map
    from svfm_ros.walks.reference_map import ReferenceMap

    return None if grid is None else ReferenceMap.from_grid(load_map(grid))


def _check_found(found: AlignedRecordings, recordings: Sequence[Path]) -> None:
    """Raise where no walk of the recordings was aligned, with the first reason."""
    if not found.aligned:
        first = found.refused[0]
        more = f" ({len(found.refused) - 1} more were refused)" if len(found.refused) > 1 else ""
        what = "the recording" if len(recordings) == 1 else f"{len(recordings)} recordings"
        raise DataError(f"expected walks in {what}, got none: {first.name}: {first.reason}{more}")


def _some_walks(found: WalkInput, path: Path, resident: str | None) -> WalkInput:
    if not found.walks:
        whose = "" if resident is None else f" of {resident!r}"
        raise DataError(f"expected walks{whose} in {path}, got none ({found.not_aligned} not aligned with the house)")
    return found


def _one_person(found: WalkInput, path: Path, resident: str | None) -> WalkInput:
    _some_walks(found, path, resident)
    people = sorted({walk.resident for walk in found.walks})
    if len(people) > 1:
        raise DataError(f"{path}: expected one person's walks, got {', '.join(people)}: choose one with --resident")
    return found


def fingerprint(walk: "Walk") -> str:
    """A hash that differs between walks, also between walks of different files with the same id."""
    about = f"{walk.walk_id}:{int(walk.stamps_ns[0])}:{len(walk.stamps_ns)}"
    return hashlib.blake2b(about.encode(), digest_size=8).hexdigest()


def _from_store(path: Path, resident: str | None) -> WalkInput:
    from svfm_ros.walks.walk_store import WalkStore

    store = WalkStore.open(path)
    _check_resident(path, resident, store.residents)
    walks, others = _of_resident(store.aligned_walks(), resident)
    wanted = sum(resident is None or entry.resident == resident for entry in store.entries)
    return WalkInput(walks, store.frame, wanted - len(walks), others=others)


def _from_csv(path: Path, resident: str | None) -> WalkInput:
    from svfm_ros.walks.walk_csv import read_walks_csv

    walks = read_walks_csv(path)
    _check_resident(path, resident, {walk.resident for walk in walks})
    own, others = _of_resident(walks, resident)
    return WalkInput(own, None, others=others)


def _of_resident(walks: "Iterable[Walk]", resident: str | None) -> "tuple[list[Walk], list[Walk]]":
    """Walks of one resident, or of everyone, and those of the others."""
    own: list[Walk] = []
    others: list[Walk] = []
    for walk in walks:
        (own if resident is None or walk.resident == resident else others).append(walk)
    return own, others


def _check_resident(path: Path, resident: str | None, known: Iterable[str]) -> None:
    names = sorted(known)
    if resident is not None and resident not in names:
        raise DataError(f"expected a resident of {path} ({', '.join(names) or 'nobody'}), got {resident!r}")
