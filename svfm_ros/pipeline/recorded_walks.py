"""Walks from recordings of scans: SLAM, cut where the wearer rests, aligned to one house.

The frame of the house is that of a map or of walks aligned before, or else of the first recording with a walk. Every
later walk is aligned to the reference map of the house, and extends it. A walk that cannot be aligned with certainty is
refused, with its id and the reason, because the model would be trained on wrong positions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.errors import DataError
from svfm_ros.progress import progress

if TYPE_CHECKING:
    from svfm_ros.slam.offline import SlamRun
    from svfm_ros.slam.trajectory import Trajectory
    from svfm_ros.sources import ScanSource
    from svfm_ros.types import Alignment, OccupancyGrid, Scan, Walk
    from svfm_ros.walks.reference_map import ReferenceMap
    from svfm_ros.walks.segmentation import WalkCut
    from svfm_ros.walks.walk_store import WalkStore

__all__ = ["AlignedRecordings", "Refused", "align_recordings", "as_recordings", "keep_walks"]

_BAG_ENDINGS = (".mcap", ".db3", ".bag")
_LOG_ENDINGS = (".rawlog", ".log", ".clf", ".npz")
_RESIDENT = "resident"


@dataclass(frozen=True, slots=True)
class Refused:
    """A recording or a walk that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class AlignedRecordings:
    """The walks of recordings, their alignments, and what was refused."""

    walks: "tuple[Walk, ...]"  # each in the frame of its recording
    alignments: "tuple[Alignment, ...]"  # one for each, accepted or not
    refused: tuple[Refused, ...]

    @property
    def aligned(self) -> "list[Walk]":
        """The accepted walks in the house's frame."""
        pairs = zip(self.walks, self.alignments, strict=True)
        return [walk.in_house(a.T_house_walk) for walk, a in pairs if a.accepted]


def as_recordings(paths: Sequence[Path]) -> list[Path] | None:
    """All recordings at these paths, also those in folders; None where no path is a recording."""
    found = [_recordings_at(path) for path in paths]
    if not any(found):
        return None
    for path, some in zip(paths, found, strict=True):
        if not some:
            raise DataError(f"expected recordings of scans, or one walk store or CSV file, got {path} among recordings")
    return [recording for some in found for recording in some]


def _recordings_at(path: Path) -> list[Path]:
    """The path itself if it is a recording, its recordings if it is a folder."""
    if not path.is_dir():
        return [path] if path.is_file() and _is_recording(path) else []
    if (path / "metadata.yaml").exists():
        return [path]
    inside = sorted(path.iterdir())
    parts = [p for p in inside if p.suffix in (".mcap", ".db3")]
    if parts:
        return parts if len(parts) > 1 else [path]
    return [p for p in inside if _is_recording(p)]


def _is_recording(path: Path) -> bool:
    if path.is_dir():
        return (path / "metadata.yaml").exists() or any(p.suffix in _BAG_ENDINGS for p in path.iterdir())
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    return plain.suffix in _BAG_ENDINGS + _LOG_ENDINGS


def align_recordings(
    paths: Sequence[Path], resident: str | None = None, house: "ReferenceMap | None" = None
) -> AlignedRecordings:
    """SLAM, cut and align all recordings; ``house`` is the reference map of their house, if there is one."""
    from svfm_ros.walks.align import align_walks
    from svfm_ros.walks.reference_map import ReferenceMap

    walks: dict[str, Walk] = {}
    alignments: list[Alignment] = []
    refused: list[Refused] = []
    for i, path in enumerate(paths, 1):
        try:
            mapped = _map(path, f"mapping {i} of {len(paths)}")
            found = _cut(mapped, resident or _RESIDENT)
        except DataError as error:
            refused.append(Refused(str(path), str(error)))
            continue
        if not found:
            refused.append(Refused(str(path), "expected a walk, got a wearer who hardly moved"))
        elif house is None:
            house = ReferenceMap.from_grid(_grid(mapped))
            alignments = [_in_its_own_frame(walk) for walk in found]
        refused += [
            Refused(str(path), f"walk {w.walk_id} is in another recording too") for w in found if w.walk_id in walks
        ]
        walks |= {walk.walk_id: walk for walk in found if walk.walk_id not in walks}
    rest = list(walks.values())[len(alignments) :]
    if rest and house is not None:
        with progress() as bar:
            task = bar.add_task("aligning", total=len(rest), note="")
            alignments += align_walks(rest, house, extend=True, on_walk=lambda _: bar.advance(task)).alignments
    refused += [Refused(a.walk_id, a.reason) for a in alignments if not a.accepted]
    return AlignedRecordings(tuple(walks.values()), tuple(alignments), tuple(refused))


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A recording, and what SLAM made of it."""

    source: "ScanSource"
    done: "SlamRun"

    @property
    def trajectory(self) -> "Trajectory":
        return self.done.trajectory

    def scans(self) -> "Iterator[Scan]":
        """As SLAM used them."""
        return self.done.scans_used(self.source.messages())


def _map(path: Path, title: str) -> _Mapped:
    from svfm_ros.slam.offline import run_slam
    from svfm_ros.sources import open_scans

    source = open_scans(path)
    with progress() as bar:
        task = bar.add_task(title, total=source.count, note=path.name)
        done = run_slam(source.messages(), on_scan=lambda *_: bar.advance(task))
    if done.why_no_path:
        raise DataError(f"no map could be made: {done.why_no_path}")
    return _Mapped(source, done)


def _cut(mapped: _Mapped, resident: str) -> "list[Walk]":
    """The walks of a recording; points of scans outside of walks are not kept in memory."""
    from svfm_ros.slam.offline import seen_points
    from svfm_ros.walks.walk_recorder import cut_walks, take_walk

    stamps, poses = mapped.trajectory.stamps_ns, mapped.trajectory.poses
    cuts = cut_walks(stamps, poses)
    seen = seen_points(_within(mapped.scans(), cuts), mapped.trajectory)
    covariance_of = mapped.done.covariance.get
    return [take_walk(cut, resident, stamps, poses, seen.get, covariance_of=covariance_of) for cut in cuts]


def _within(scans: "Iterable[Scan]", cuts: "Sequence[WalkCut]") -> "Iterator[Scan]":
    """The scans that belong to a walk."""
    for scan in scans:
        if any(cut.start_ns <= scan.stamp_ns <= cut.end_ns for cut in cuts):
            yield scan


def _grid(mapped: _Mapped) -> "OccupancyGrid":
    from svfm_ros.slam.offline import draw_grid

    return draw_grid(mapped.scans(), mapped.trajectory)


def _in_its_own_frame(walk: "Walk") -> "Alignment":
    from svfm_ros.types import Alignment, Pose2

    return Alignment(walk.walk_id, Pose2(), None, True, "recorded while the house's map was made")


def keep_walks(store: "WalkStore", found: AlignedRecordings) -> int:
    """Store new walks, also refused ones, which may be aligned later; returns the number of new walks."""
    new = [walk for walk in found.walks if walk.walk_id not in store]
    count = store.add_all(new)
    fresh = {walk.walk_id for walk in new if walk.walk_id in store}
    store.set_alignments([a for a in found.alignments if a.walk_id in fresh])
    return count
