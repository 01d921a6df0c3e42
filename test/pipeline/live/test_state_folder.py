"""Folders of a person: in their home, readable by them alone."""

import os
from pathlib import Path

import pytest

from svfm_ros.errors import UsageError
from svfm_ros.pipeline.live.state_folder import default_store, make_private_folder


def test_the_default_is_below_the_home(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_store("walks") == tmp_path / ".local" / "state" / "svfm_ros" / "walks"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_store("walks") == Path("/state/svfm_ros/walks")


def test_new_folders_are_private(tmp_path):
    make_private_folder(tmp_path / "a" / "b")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]
    make_private_folder(tmp_path / "a" / "b")


def test_files_and_folders_of_others_are_refused(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="got a file"):
        make_private_folder(tmp_path / "file")
    with pytest.raises(UsageError, match="cannot make the folder"):
        make_private_folder(tmp_path / "file" / "store")
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        make_private_folder(tmp_path)


def test_without_a_home_it_is_said_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(UsageError, match="set HOME or XDG_STATE_HOME"):
        default_store("walks")
