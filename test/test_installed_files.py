import sys
from pathlib import Path

import pytest

from svfm_ros import installed_files
from svfm_ros.errors import UsageError


def test_files_of_the_source_tree_are_found() -> None:
    assert installed_files.share_file("package.xml").name == "package.xml"


def test_an_installed_share_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "share" / "svfm_ros"
    (folder / "maps").mkdir(parents=True)
    (folder / "package.xml").write_text("<package/>")
    (folder / "maps" / "only_here.yaml").write_text("")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path / 'other'}:{tmp_path}")
    assert installed_files.share_file("maps/only_here.yaml") == folder / "maps" / "only_here.yaml"
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert installed_files.share_file("maps/only_here.yaml") == folder / "maps" / "only_here.yaml"


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"maps/atlantis\.yaml"):
        installed_files.share_file("maps/atlantis.yaml")
