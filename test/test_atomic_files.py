"""A file is whole or not there."""

import os
from pathlib import Path

import pytest

from svfm_ros import atomic_files


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for data in (b"one", b"", b"three" * 100_000):
        atomic_files.write_whole(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("count", [1, 40])
def test_many_files_are_staged_at_once_and_named_later(tmp_path: Path, count: int) -> None:
    contents = [bytes([n]) * n for n in range(count)]
    parts = atomic_files.stage(tmp_path, contents)
    assert [p.read_bytes() for p in parts] == contents
    assert all(p.name.startswith(".") and p.name.endswith(atomic_files.PART_SUFFIX) for p in parts)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    atomic_files.write_whole(path, b"old")

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        atomic_files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_short_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    atomic_files.write_whole(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_removing_says_whether_there_was_anything(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert atomic_files.remove(tmp_path / "a")
    assert not atomic_files.remove(tmp_path / "a")
