"""Saves the map of SLAM to a file while it grows, so that a restart continues with it. No ROS in here.

Taking the state between two scans is quick; a thread writes it. The file is replaced in one step and always complete.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.live.worker import Worker
from svfm_ros.pipeline.tracking import Engine
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.state_file import SlamState, read_state, write_state

__all__ = ["KeptMap", "MapMemory", "state_path"]

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


class MapMemory:
    """Saves and reads the map. ``period_s`` is the time between writes, 0: never; a growing map is written more often.

    The map in the house frame has one permanent file. A map in a frame of its own has another file, which is deleted at
    the end of the session and only read again shortly after a crash.
    """

    def __init__(self, path: Path | None, period_s: float, on_error: Callable[[Exception], None]) -> None:
        self._path = path if period_s > 0.0 else None
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
        if session.exists() and (age_s := _age_s(session)) < _RECENT_S:
            return KeptMap(_read(session), age_s, in_house_frame=False)
        return KeptMap(_read(self._path), _age_s(self._path), in_house_frame=True) if self._path.exists() else None

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

    @staticmethod
    def _write(job: tuple[Path, SlamState]) -> None:
        path, state = job
        if len(state):
            write_state(state, path)


def _session(path: Path) -> Path:
    return path.with_suffix(".session")


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _read(path: Path) -> SlamState:
    try:
        return read_state(path)
    except DataError as error:
        aside = path.with_suffix(".unusable")
        path.replace(aside)
        raise DataError(f"{error}; it is put aside as {aside.name}, and a new map is made") from error
