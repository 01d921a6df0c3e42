"""Saves the map of SLAM to a file while it grows, so that a restart continues with it. No ROS in here.

Taking the state between two scans is quick; a thread writes it. The file is replaced in one step and always complete.
"""

import fcntl
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from svfm_ros.atomic_files import previous_of
from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.live.worker import Worker
from svfm_ros.pipeline.tracking import Engine
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.state_file import SlamState, read_state, write_state

__all__ = ["KeptMap", "MapMemory", "map_file", "state_path"]

_NAME = "map.state"
_RECENT_S = 600.0
_GROWN_S = 0.5


def state_path(state: str, store: str, given_map: str, namespace: str = "") -> Path | None:
    """Path of the saved map: as configured, or beside the walks, one for each wearable; None where a map is given."""
    if given_map or not (state or store):
        return None
    if not state:
        wearer = namespace.strip("/").replace("/", "-")
        return Path(store).expanduser() / (f"{wearer}.{_NAME}" if wearer else _NAME)
    path = Path(state).expanduser().absolute()
    if not path.parent.is_dir():
        raise UsageError(f"state: expected a file in a folder that exists, got {path}")
    return path


@dataclass(frozen=True, slots=True)
class KeptMap:
    """A saved map, its age, and whether its frame is that of the house."""

    state: SlamState
    age_s: float
    in_house_frame: bool
    problem: str = ""  # why it is not the newest one


class MapMemory:
    """Saves and reads the map. ``period_s`` is the time between writes, 0: never; a growing map is written more often.

    The map in the house frame has one permanent file. A map in a frame of its own has another file, which is deleted at
    the end of the session and only read again shortly after a crash, unless the map was moved to the house meanwhile.
    One node at a time keeps its map there.
    """

    def __init__(self, path: Path | None, period_s: float, on_error: Callable[[Exception], None]) -> None:
        self._path = path if period_s > 0.0 else None
        self._claim = None if self._path is None else _claim(self._path)
        self._period_s = period_s
        self._next_s = self._next_if_grown_s = 0.0
        self._keyframes = 0  # when it was written last
        self._worker: Worker[tuple[Path, SlamState]] = Worker(
            "keep the map", self._write, capacity=1, on_error=on_error
        )

    @property
    def is_kept(self) -> bool:
        """Whether there is a file at all."""
        return self._path is not None

    def read(self) -> KeptMap | None:
        """The saved map, or None; a file that cannot be used is renamed, with an error."""
        if self._path is None:
            return None
        session = _session(self._path)
        age_s, house_age_s = _age_s(session), _age_s(self._path)
        if age_s < min(_RECENT_S, house_age_s):
            return _read(session, age_s, in_house_frame=False)
        return _read(self._path, house_age_s, in_house_frame=True) if math.isfinite(house_age_s) else None

    def keep(self, engine: Engine, in_house_frame: bool) -> None:
        """Write the map if it is due; called between two scans."""
        if self._path is None or not isinstance(engine, Slam) or not self._is_due(engine):
            return
        self._next_s, self._keyframes = time.monotonic() + self._period_s, engine.counters["keyframes"]
        self._next_if_grown_s = time.monotonic() + min(_GROWN_S, self._period_s)
        if not engine.is_relocalising:  # until the pose is found the map is unchanged
            self._worker.put((self._path if in_house_frame else _session(self._path), engine.state()))

    def _is_due(self, engine: Slam) -> bool:
        now_s = time.monotonic()
        return now_s >= self._next_s or (
            now_s >= self._next_if_grown_s and engine.counters["keyframes"] > self._keyframes
        )

    def close(self, engine: Engine, in_house_frame: bool) -> None:
        """Write the map in the house frame a last time, and delete that of the session."""
        self._next_s = 0.0
        if in_house_frame:
            self.keep(engine, in_house_frame)
        self._worker.stop(timeout_s=10.0, finish=True)
        if self._path is not None:
            _session(self._path).unlink(missing_ok=True)
            previous_of(_session(self._path)).unlink(missing_ok=True)
        if self._claim is not None:
            self._claim.close()

    @staticmethod
    def _write(job: tuple[Path, SlamState]) -> None:
        path, state = job
        if len(state):
            try:
                write_state(state, path, keeps_previous=True)
            except OSError as error:
                raise DataError(f"cannot save the map in {path}: {error.strerror}") from error


def _claim(path: Path) -> IO[bytes] | None:
    """An open file that keeps other nodes from writing the same map, until it is closed or its process has ended."""
    try:
        file = path.with_name(f".{path.name}.lock").open("wb")
    except OSError:  # a folder that cannot be written to is reported by the first write
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise UsageError(
            f"another slam_node keeps its map in {path}: stop it, or give this one a namespace or a store of its own"
        ) from error
    return file


def _session(path: Path) -> Path:
    return path.with_suffix(".session")


def _age_s(path: Path) -> float:
    """Seconds since the map was saved, infinite where neither the file nor the one before it is there."""
    # Only the one before is there where a damaged file was put aside and no scan got a pose since.
    for saved in (path, previous_of(path)):
        with suppress(FileNotFoundError, NotADirectoryError):  # a folder that cannot be made is reported elsewhere
            return time.time() - saved.stat().st_mtime
    return math.inf


def _read(path: Path, age_s: float, in_house_frame: bool) -> KeptMap:
    """The newest map that can be read; a damaged file is put aside."""
    problem = f"there is no {path}"
    if path.exists():
        try:
            return KeptMap(read_state(path), age_s, in_house_frame)
        except DataError as error:
            problem = f"{error}; {_put_aside(path)}"
    try:
        return KeptMap(
            read_state(previous_of(path)), age_s, in_house_frame, f"{problem}, and the one before it is used"
        )
    except DataError as error:
        raise DataError(f"{problem}, and a new map is made") from error


def _put_aside(path: Path) -> str:
    """Rename a file that cannot be used, where the folder can be written to; what was done, for a message."""
    aside = path.with_suffix(".unusable")
    try:
        path.replace(aside)
    except OSError as error:
        return f"it stays there: {error.strerror}"
    return f"it is put aside as {aside.name}"


def map_file(store: str, save_map_to: str) -> Path | None:
    """Where ``~/save_map`` writes the map: inside the store, or at the path given at start-up without a store."""
    if not store and not save_map_to:
        return None
    if not store:
        path = Path(save_map_to).expanduser().absolute()
        if path.suffix != ".yaml":
            raise UsageError(f"save_map_to: expected a .yaml file, got {save_map_to}")
        return path
    folder = Path(store).expanduser().resolve()
    path = (folder / (save_map_to or "map.yaml")).resolve()
    if path.suffix != ".yaml" or not path.is_relative_to(folder):
        raise UsageError(f"save_map_to: expected a .yaml file inside the store {folder}, got {save_map_to}")
    return path
