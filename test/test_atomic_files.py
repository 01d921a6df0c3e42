"""A file is whole or not there."""

import errno
import os
import stat
from pathlib import Path

import pytest
from powercut import Disk, PowerCut

from svfm_ros import atomic_files
from svfm_ros.errors import DataError


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for data in (b"one", b"", b"three" * 100_000):
        atomic_files.write_whole(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_a_power_cut_at_any_moment_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    found = []
    for names_last in (True, False):
        for moment in range(1, 20):
            path = tmp_path / f"{names_last}-{moment}" / "a"
            path.parent.mkdir()
            atomic_files.write_whole(path, b"the old content")
            with pytest.MonkeyPatch.context() as patch:
                disk = Disk(patch, moment)
                try:
                    atomic_files.write_whole(path, b"the new ", b"content")
                    returned = True
                except PowerCut:
                    returned = False
            disk.settle(names_last)
            found.append(path.read_bytes())
            assert (
                found[-1] == b"the new content" if returned else found[-1] in (b"the old content", b"the new content")
            )
            if returned:
                break
    assert {*found} == {b"the old content", b"the new content"}


def test_the_file_before_is_kept_and_stays_when_the_next_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.b"
    for data in (b"one", b"two"):
        atomic_files.write_whole(path, data, keeps_previous=True)
    monkeypatch.setattr(os, "write", _no_room)
    with pytest.raises(OSError, match="No space left"):
        atomic_files.write_whole(path, b"three", keeps_previous=True)
    assert path.read_bytes() == b"two"
    assert atomic_files.previous_of(path).read_bytes() == b"one"
    assert {p.name for p in tmp_path.iterdir()} == {"a.b", "a.before.b"}


def test_a_writer_that_was_killed_between_its_names_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    """Then the file and the one before it are one file with two names, which rename() leaves as they are."""
    path = tmp_path / "a.b"
    atomic_files.write_whole(path, b"one")
    os.link(path, atomic_files.previous_of(path))
    atomic_files.write_whole(path, b"two", keeps_previous=True)
    assert path.read_bytes() == b"two"
    assert atomic_files.previous_of(path).read_bytes() == b"one"
    assert {p.name for p in tmp_path.iterdir()} == {"a.b", "a.before.b"}


def _no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_files_and_folders_are_their_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder"
    atomic_files.make_folder(folder)
    atomic_files.write_whole(folder / "a", b"x")
    assert [stat.S_IMODE(p.stat().st_mode) for p in (folder / "a", folder, folder.parent)] == [0o600, 0o700, 0o700]


def test_unfinished_files_of_other_writers_are_left_alone_for_a_day(tmp_path: Path) -> None:
    parts = [tmp_path / name for name in (".a.1.part", ".a.2.part", ".b.3.part")]
    for part in parts:
        part.touch()
    for part in parts[1:]:
        os.utime(part, (0, 0))
    atomic_files.write_whole(tmp_path / "a", b"x")
    assert {p.name for p in tmp_path.iterdir()} == {"a", ".a.1.part", ".b.3.part"}


def test_what_is_no_file_is_neither_replaced_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(bytes(11))
    for name, kind in (("pipe", "a pipe"), ("folder", "a folder"), ("/dev/null", "a device")):
        with pytest.raises(DataError, match=f"expected a file, got {kind}"):
            atomic_files.write_whole(tmp_path / name, b"x")
    for name, sentence in (
        ("pipe", "got a pipe"),
        ("folder", "got a folder"),
        ("/dev/zero", "got a device"),
        ("none", "No such file"),
        ("large", "at most 10 bytes, got 11"),
        ("nul\0", "embedded null"),
    ):
        with pytest.raises(DataError, match=sentence):
            atomic_files.read_regular(tmp_path / name, 10)
    (tmp_path / "large").write_bytes(bytes(10))
    assert atomic_files.read_regular(tmp_path / "large", 10) == bytes(10)


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
