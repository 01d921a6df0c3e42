"""A power cut at a chosen moment: what was not pushed to the disk by then is lost, in the worst way allowed.

It watches the calls that matter (write, fsync, rename, unlink) while passing them on. At the chosen one the power
goes: that call and all later ones fail. ``settle`` then leaves the folder as a disk might be found afterwards. Bytes
that were never synced are half gone; names that were never synced are there or not, as the test asks.
"""

import os
from pathlib import Path
from typing import Any

import pytest


class PowerCut(BaseException):
    pass


class Disk:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, cut_at: int | None = None) -> None:
        self.calls = 0
        self.cut_at = cut_at
        self.paths: dict[int, Path] = {}
        self.unsynced: set[Path] = set()
        self.renames: list[tuple[Path, Path, bytes | None]] = []  # from, to, what was there before
        self.real = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace", "unlink")}
        for name in self.real:
            monkeypatch.setattr(os, name, getattr(self, name))

    def tick(self) -> None:
        self.calls += 1
        if self.cut_at is not None and self.calls >= self.cut_at:
            raise PowerCut

    def open(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        handle = self.real["open"](path, flags, *rest, **named)
        self.paths[handle] = Path(path)
        return int(handle)

    def write(self, handle: int, data: Any) -> int:
        self.tick()
        self.unsynced.add(self.paths[handle])
        return int(self.real["write"](handle, data))

    def fsync(self, handle: int) -> None:
        self.tick()
        self.real["fsync"](handle)
        path = self.paths[handle]
        self.unsynced.discard(path)
        self.renames = [r for r in self.renames if r[1].parent != path]

    def replace(self, source: Any, target: Any) -> None:
        self.tick()
        source, target = Path(source), Path(target)
        before = target.read_bytes() if target.exists() else None
        self.real["replace"](source, target)
        self.renames.append((source, target, before))
        if source in self.unsynced:
            self.unsynced = (self.unsynced - {source}) | {target}

    def unlink(self, path: Any, **named: Any) -> None:
        self.tick()
        self.real["unlink"](path, **named)
        self.unsynced.discard(Path(path))

    def settle(self, names_last: bool) -> None:
        """Power is back: the disk as it may be found."""
        for path in self.unsynced:
            if path.exists():
                data = path.read_bytes()
                path.write_bytes(data[: len(data) // 2])
        if names_last:
            return
        for source, target, before in reversed(self.renames):
            if target.exists():
                self.real["replace"](target, source)
            if before is not None:
                target.write_bytes(before)
