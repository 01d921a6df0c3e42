"""Small homes for tests of many homes, and a home that keeps its worker waiting until the test says so."""

import os
import shutil
from pathlib import Path

import two_destinations

from svfm_ros.walks.walk_csv import write_walks_csv


def write_home(path: Path, seed: int, count: int = 10) -> None:
    """A CSV file of walks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_walks_csv(two_destinations.walks(count, seed), path)


class WaitingHome:
    """A home whose file is a pipe: the process that reads it waits, so a test knows when it is at work."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.csv"
        os.mkfifo(self._path)
        self._end: int | None = None

    def wait_for_reader(self) -> None:
        """Return when a process has opened the file."""
        self._end = os.open(self._path, os.O_WRONLY)

    def become(self, source: Path | None) -> None:
        """Turn the pipe into the file it stands for, for whoever opens it from now on."""
        part = self._path.with_suffix(".part")
        if source is None:
            os.mkfifo(part)
        else:
            shutil.copy(source, part)
        os.replace(part, self._path)

    def let_go(self) -> None:
        """Let the reader go on: it finds an empty file."""
        if self._end is not None:
            os.close(self._end)
            self._end = None
