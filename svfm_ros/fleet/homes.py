"""The homes at a path or URL: their names, the files that belong to each, and a hash of what these hold.

HOMES/mary/walks.csv      walks in the frame of the house, or
HOMES/mary/store/         a walk store, or
HOMES/mary/recordings/    recordings of scans, alone or beside a store that they are added to
HOMES/mary/home.yaml      time zone, if wanted; also places.yaml and map.yaml
HOMES/joe.csv             a home that is walks alone
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from svfm_ros.config.fleet_config import HomeConfig
from svfm_ros.config.options import load_yaml
from svfm_ros.errors import DataError, UsageError

__all__ = ["Home", "HomeFiles", "absolute_url", "digest", "file_hash", "filesystem_of", "find_homes", "is_local"]

_CSV, _STORE, _RECORDINGS = "walks.csv", "store", "recordings"
_SETTINGS = ("home.yaml", "places.yaml", "map.yaml", "map.pgm", "map.png")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Home:
    """One home: the name of its results, and the path or URL of its data."""

    name: str
    url: str


def filesystem_of(url: str) -> tuple[Any, str]:
    """The fsspec file system of a path or URL, and the path on it."""
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise UsageError(f"cannot open {url}: {error}") from error
    return fs, str(path)


def absolute_url(url: str) -> str:
    """The same place for a process with another working folder."""
    fs, path = filesystem_of(url)
    return path if is_local(fs) else url


def is_local(fs: Any) -> bool:
    """Whether files can be used where they are."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def find_homes(url: str) -> list[Home]:
    """All homes at a path or URL, by name; refuses a place without any."""
    fs, root = filesystem_of(url)
    try:
        entries = fs.ls(root, detail=True) if fs.isdir(root) else []
    except OSError as error:
        raise UsageError(f"cannot read {url}: {error}") from error
    homes = sorted((h for h in (_home(fs, entry) for entry in entries) if h is not None), key=lambda home: home.name)
    if not homes:
        raise UsageError(f"expected a folder of homes (folders, or CSV files of walks), got none at {url}")
    for one, other in pairwise(homes):
        if one.name == other.name:
            raise UsageError(f"{url}: expected one home {one.name!r}, got {one.url} and {other.url}")
    return homes


def _home(fs: Any, entry: dict[str, Any]) -> Home | None:
    path = PurePosixPath(entry["name"].rstrip("/"))
    if path.name.startswith("."):
        return None
    if entry["type"] == "directory":
        return Home(path.name, fs.unstrip_protocol(str(path)))
    return Home(path.stem, fs.unstrip_protocol(str(path))) if path.suffix == ".csv" else None


def digest(*parts: str) -> str:
    """A hash of texts in their order."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(f"{len(part)}:{part}".encode())
    return found.hexdigest()


def file_hash(path: Path) -> str:
    """A hash of a file's bytes."""
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


class HomeFiles:
    """The files of one home that a run reads, on this machine: used in place, or fetched when they are needed."""

    def __init__(self, home: Home, scratch: Path) -> None:
        self.home = home
        self._fs, self._root = filesystem_of(home.url)
        self._folder = Path(self._root) if is_local(self._fs) else scratch
        self._is_csv = self._root.endswith(".csv")
        if self._is_csv:
            self._folder = self._folder.parent if is_local(self._fs) else scratch
        self._remote = {name: path for name, path in self._listed() if _is_read(name)}
        if not any(self._names(*_SOURCES)):
            raise DataError(f"expected {_CSV}, {_STORE}/ or {_RECORDINGS}/ in the home's folder, got none of them")

    def _listed(self) -> Iterable[tuple[str, str]]:
        if self._is_csv:
            return [(PurePosixPath(self._root).name, self._root)]
        start = len(self._root.rstrip("/")) + 1
        return [(str(path)[start:], str(path)) for path in sorted(self._fs.find(self._root))]

    def _names(self, *first: str) -> list[str]:
        """Files whose first folder, or own name, is one of these."""
        return [name for name in self._remote if name.split("/")[0] in first or (self._is_csv and _CSV in first)]

    def _hash(self, names: Sequence[str]) -> str:
        """Of the bytes where they are at hand, otherwise of what the file system says that changes with them.

        The names count as well, but not that of a home which is one file: it is the home's name.
        """
        paths = {_CSV if self._is_csv else name: self._remote[name] for name in names}
        hash_one = (lambda path: file_hash(Path(path))) if is_local(self._fs) else self._fs.checksum
        return digest(*(word for name, path in paths.items() for word in (name, str(hash_one(path)))))

    @property
    def settings_hash(self) -> str:
        """Of home.yaml, places and map."""
        return self._hash(self._names(*_SETTINGS))

    @property
    def walks_hash(self) -> str:
        """Of the CSV file or the store."""
        return self._hash(self._names(_CSV, _STORE))

    def recordings(self) -> dict[str, str]:
        """The hash of each recording's files, by its name in the folder of recordings."""
        found: dict[str, list[str]] = {}
        for name in self._names(_RECORDINGS):
            found.setdefault(name.split("/")[1], []).append(name)
        return {name: self._hash(files) for name, files in found.items()}

    def fetch_recordings(self, names: Iterable[str]) -> list[Path]:
        """The named recordings as paths on this machine."""
        wanted = set(names)
        self._fetch([file for file in self._names(_RECORDINGS) if file.split("/")[1] in wanted])
        return [self._folder / _RECORDINGS / name for name in sorted(wanted)]

    def fetch_walks(self) -> Path | None:
        """The CSV file or the store; None for a home that is recordings alone."""
        csv, store = self._names(_CSV), self._names(_STORE)
        if csv and store:
            raise DataError(f"expected {_CSV} or {_STORE}/ in the home's folder, got both")
        self._fetch(csv + store)
        return self._folder / csv[0] if csv else self._folder / _STORE if store else None

    def fetch_settings(self) -> HomeConfig:
        """Fetch the small files and read home.yaml."""
        self._fetch(self._names(*_SETTINGS))
        path = self.settings("home.yaml")
        return HomeConfig() if path is None else load_yaml(HomeConfig, path)

    def settings(self, name: str) -> Path | None:
        """One of the small files, once they are fetched."""
        return self._folder / name if name in self._remote else None

    def _fetch(self, names: Sequence[str]) -> None:
        if is_local(self._fs):
            return
        for name in names:
            target = self._folder / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                self._fs.get_file(self._remote[name], str(target))


_SOURCES = (_CSV, _STORE, _RECORDINGS)


def _is_read(name: str) -> bool:
    """Of a store, the walks alone are read: models and maps beside them change without them."""
    first, *rest = name.split("/")
    if first == _STORE:
        return rest in (["walks.sqlite"], ["walks.sqlite-wal"])
    return first in (_RECORDINGS, *_SETTINGS) or first.endswith(".csv")
