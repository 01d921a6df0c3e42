"""A power cut at a chosen moment within SQLite: what was not synced by then is lost, in several ways.

SQLite reaches files through a table of functions, its VFS. ``SqliteDisk`` registers a copy of the default table whose
write, truncate, sync and delete go through here. From the chosen call on, all of them fail and change nothing.
``settle`` then leaves the files as a disk might hold them afterwards.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OK, IOERR = 0, 10
OPEN_CREATE, OPEN_LOG = 0x4, 0x800 | 0x80000  # main journal or write-ahead log

_POINTER, _INT, _INT64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_Open = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER)  # the name as a pointer: SQLite keeps it
_Delete = ctypes.CFUNCTYPE(_INT, _POINTER, ctypes.c_char_p, _INT)
_Write = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _INT64)
_Truncate = ctypes.CFUNCTYPE(_INT, _POINTER, _INT64)
_Sync = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)


_alive: list[Any] = []  # callbacks and tables: a connection may be closed long after the power cut


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("version", _INT),
        ("file_size", _INT),
        ("longest_path", _INT),
        ("next", _POINTER),
        ("name", ctypes.c_char_p),
        ("data", _POINTER),
        ("open", _POINTER),
        ("delete", _POINTER),
        ("rest", _POINTER * 14),
    ]


class _Methods(ctypes.Structure):
    _fields_ = [
        ("version", _INT),
        ("close", _POINTER),
        ("read", _POINTER),
        ("write", _POINTER),
        ("truncate", _POINTER),
        ("sync", _POINTER),
        ("rest", _POINTER * 13),
    ]


SETTLED: dict[str, Callable[[int, int], bool]] = {
    "nothing unsynced": lambda i, count: False,
    "all unsynced": lambda i, count: True,
    "every second write": lambda i, count: i % 2 == 1,
    "the last write alone": lambda i, count: i == count - 1,
}
"""Which of the writes since the last sync reached the disk, by their index and number."""


class SqliteDisk:
    """Watches SQLite's files; the power goes at call ``cut_at``."""

    def __init__(self, cut_at: int | None) -> None:
        self.calls, self.cut_at = 0, cut_at
        self.paths: dict[int, Path] = {}
        self.logs: set[Path] = set()
        self.synced: dict[Path, bytes] = {}
        self.pending: dict[Path, list[tuple[int, bytes | None]]] = {}  # offset and bytes, or size and None
        self.new_names: set[Path] = set()
        self.deleted: dict[Path, bytes] = {}

    @property
    def has_failed(self) -> bool:
        return self.cut_at is not None and self.calls >= self.cut_at

    def cut(self) -> bool:
        self.calls += 1
        return self.has_failed

    def opened(self, handle: int, path: Path, flags: int, is_new: bool) -> None:
        self.paths[handle] = path
        if path not in self.synced:
            self.synced[path] = path.read_bytes()
        if is_new:
            self.new_names.add(path)
        if flags & OPEN_LOG:
            self.logs.add(path)

    def change(self, handle: int, at: int, data: bytes | None) -> None:
        self.pending.setdefault(self.paths[handle], []).append((at, data))

    def sync(self, handle: int) -> None:
        path = self.paths[handle]
        self.pending.pop(path, None)
        self.synced[path] = path.read_bytes()
        if path in self.logs:  # SQLite syncs the folder with the first sync of a new log
            self.new_names.clear()
            self.deleted.clear()

    def settle(self, mode: str, names_last: bool) -> None:
        """Leave the files as they may be found when the power is back."""
        for path, changes in self.pending.items():
            if path.exists():
                path.write_bytes(_applied(self.synced[path], changes, SETTLED[mode]))
        for path in set(self.paths.values()):
            path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        if not names_last:
            for path in self.new_names:
                path.unlink(missing_ok=True)
            for path, data in self.deleted.items():
                path.write_bytes(data)


def _applied(data: bytes, changes: list[tuple[int, bytes | None]], reached: Callable[[int, int], bool]) -> bytes:
    content = bytearray(data)
    for i, (at, piece) in enumerate(changes):
        if reached(i, len(changes)):
            if piece is None:
                del content[at:]
            else:
                content.extend(bytes(max(at + len(piece) - len(content), 0)))
                content[at : at + len(piece)] = piece
    return bytes(content)


@contextmanager
def power_cut(cut_at: int | None) -> Iterator[SqliteDisk]:
    """SQLite on a disk whose power goes at that call; None counts the calls only."""
    library = ctypes.CDLL("libsqlite3.so.0")
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    default = library.sqlite3_vfs_find(None)
    disk = SqliteDisk(cut_at)
    vfs = _watched(default.contents, disk)
    library.sqlite3_vfs_register(ctypes.byref(vfs), 1)
    try:
        yield disk
    finally:
        library.sqlite3_vfs_unregister(ctypes.byref(vfs))
        library.sqlite3_vfs_register(default, 1)


def _watched(default: _Vfs, disk: SqliteDisk) -> _Vfs:
    vfs = _Vfs.from_buffer_copy(default)
    vfs.name, vfs.next = b"powercut", None
    real_open, real_delete = _Open(default.open), _Delete(default.delete)
    tables: dict[int, _Methods] = {}

    def open_(this: int, name: int | None, handle: int, flags: int, out: int) -> int:
        path = None if name is None else Path(ctypes.string_at(name).decode())
        is_new = path is not None and not path.exists()
        if is_new and flags & OPEN_CREATE and disk.has_failed:
            return IOERR
        code = real_open(this, name, handle, flags, out)
        if code == OK and path is not None:
            disk.opened(handle, path, flags, is_new)
            slot = ctypes.cast(handle, ctypes.POINTER(_POINTER))
            if slot[0] not in tables:
                tables[slot[0]] = _watched_methods(slot[0], disk)
            slot[0] = ctypes.addressof(tables[slot[0]])
        return code

    def delete(this: int, name: bytes, sync_folder: int) -> int:
        if disk.cut():
            return IOERR
        path = Path(name.decode())
        if path.exists() and not sync_folder:
            disk.deleted[path] = path.read_bytes()
        disk.pending.pop(path, None)
        disk.synced.pop(path, None)
        disk.new_names.discard(path)
        return real_delete(this, name, sync_folder)

    callbacks = _Open(open_), _Delete(delete)
    _alive.extend([*callbacks, vfs, tables])
    vfs.open, vfs.delete = (ctypes.cast(c, _POINTER).value for c in callbacks)
    return vfs


def _watched_methods(address: int, disk: SqliteDisk) -> _Methods:
    real = _Methods.from_address(address)
    write, truncate = _Write(real.write), _Truncate(real.truncate)

    def write_(handle: int, data: int, size: int, at: int) -> int:
        if disk.cut():
            return IOERR
        disk.change(handle, at, ctypes.string_at(data, size))
        return write(handle, data, size, at)

    def truncate_(handle: int, size: int) -> int:
        if disk.cut():
            return IOERR
        disk.change(handle, size, None)
        return truncate(handle, size)

    def sync_(handle: int, flags: int) -> int:
        if disk.cut():
            return IOERR
        disk.sync(handle)  # the real disk need not be: that would take most of the time
        return OK

    table = _Methods.from_buffer_copy(real)
    callbacks = _Write(write_), _Truncate(truncate_), _Sync(sync_)
    _alive.extend([*callbacks, table])
    table.write, table.truncate, table.sync = (ctypes.cast(c, _POINTER).value for c in callbacks)
    return table
