"""The folder of a home's results, and which of its stages are done.

``done.json`` holds for each stage a hash of all that went into it and the hashes of the files it made. A stage is done
when both still fit; anything else is half done, and is done anew. The record is written last, in one step.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from svfm_ros.atomic_files import make_folder, write_whole
from svfm_ros.fleet.homes import digest, file_hash, filesystem_of, is_local
from svfm_ros.installed_files import version

__all__ = ["HomeResults"]

_RECORD = "done.json"


class HomeResults:
    """Results of one home at a path or URL, with a folder on this machine to work in."""

    def __init__(self, url: str, scratch: Path) -> None:
        self._fs, self._root = filesystem_of(url)
        self.folder = Path(self._root) if is_local(self._fs) else scratch
        make_folder(self.folder)
        if not is_local(self._fs):
            self._fetch(_RECORD)
        self._record = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / _RECORD).read_text())
        except (OSError, ValueError):  # none yet, or damaged: all is done anew
            return {}
        return found if isinstance(found, dict) else {}

    def stage(
        self, name: str, inputs: Sequence[str], outputs: Sequence[str], make: Callable[[], Sequence[str] | None]
    ) -> bool:
        """Do a stage unless it is done: ``make`` turns inputs with these hashes into files; False if it was done.

        The outputs are on this machine afterwards in either case. ``make`` may return names of more files it made.
        """
        key = digest(version(), name, *inputs)
        if self.is_done(name, key, outputs):
            return False
        self.keep(name, key, [*outputs, *(make() or ())])
        return True

    def is_done(self, name: str, key: str, outputs: Sequence[str]) -> bool:
        """Whether the stage was done with the inputs of this hash, and its files are as it made them."""
        done = self._record.get(name, {})
        files: dict[str, str] = done.get("files", {})
        if done.get("key") != key or not set(outputs) <= set(files):
            return False
        return all(self._fetch(file) and self.hash_of(file) == found for file, found in files.items())

    def keep(self, name: str, key: str, outputs: Sequence[str], **about: Any) -> None:
        """Record a stage as done; its files go to where results are kept first."""
        for file in outputs:
            self._put(file)
        done = {"key": key, "files": {file: self.hash_of(file) for file in outputs}, **about}
        self._record = {**self._record, name: done}
        write_whole(self.folder / _RECORD, json.dumps(self._record, indent=1).encode())
        self._put(_RECORD)

    def about(self, name: str) -> dict[str, Any]:
        """What was recorded about a stage, done or not."""
        return dict(self._record.get(name, {}))

    def hash_of(self, file: str) -> str:
        """Of a result on this machine."""
        return file_hash(self.folder / file)

    def _fetch(self, file: str) -> bool:
        """Whether the file is on this machine, or was where results are kept."""
        target = self.folder / file
        if not target.exists() and not is_local(self._fs) and self._fs.exists(f"{self._root}/{file}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._fs.get_file(f"{self._root}/{file}", str(target))
        return target.exists()

    def _put(self, file: str) -> None:
        if not is_local(self._fs):
            self._fs.makedirs(f"{self._root}/{file}".rsplit("/", 1)[0], exist_ok=True)
            self._fs.put_file(str(self.folder / file), f"{self._root}/{file}")
