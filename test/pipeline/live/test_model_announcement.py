"""Announcements of models: signed, small, and of files inside one folder."""

import json

import pytest

from svfm_ros.errors import DataError
from svfm_ros.pipeline.live.model_announcement import MAX_TEXT, ModelAnnouncement, SigningKey, path_inside

ANNOUNCED = ModelAnnouncement("/m.pt", "abc", 12, -3.5)


def test_a_signed_announcement_is_read_back(tmp_path):
    key = SigningKey.create(tmp_path)
    assert SigningKey.create(tmp_path) == SigningKey.read(tmp_path) == key
    assert (tmp_path / "model.key").stat().st_mode & 0o777 == 0o600
    assert ModelAnnouncement.from_text(ANNOUNCED.to_text(key), key) == ANNOUNCED


def test_a_key_that_was_cut_off_is_made_anew(tmp_path):
    (tmp_path / "model.key").write_bytes(b"cut off")
    (tmp_path / "model.key").chmod(0o600)
    assert len(SigningKey.create(tmp_path).secret) == 32
    assert SigningKey.read(tmp_path) == SigningKey.create(tmp_path)


def test_a_key_is_never_written_through_a_link(tmp_path):
    (tmp_path / "diary").write_text("today I walked")
    (tmp_path / "model.key").symlink_to(tmp_path / "diary")
    with pytest.raises(DataError, match="symbolic link"):
        SigningKey.create(tmp_path)
    assert (tmp_path / "diary").read_text() == "today I walked"


def test_other_texts_are_refused(tmp_path):
    key, other = SigningKey.create(tmp_path), SigningKey(b"x" * 32)
    changed = {**json.loads(ANNOUNCED.to_text(key)), "path": "/etc/passwd"}
    nested = "[" * 2000 + "]" * 2000
    texts = ["", "{", "{}", "[]", "/m.pt", '{"path": "/m.pt"}', json.dumps(changed), ANNOUNCED.to_text(other), nested]
    texts += [
        '{"path": "/m.pt", "signature": "\\ud800"}',
        '{"path": "/m.pt", "signature": 7}',
        '{"path": 7, "signature": "x"}',
        "x" * (MAX_TEXT + 1),
    ]
    for text in texts:
        with pytest.raises(DataError) as error:
            ModelAnnouncement.from_text(text, key)
        assert len(str(error.value)) < 300


def test_a_key_that_others_may_read_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot read the key"):
        SigningKey.read(tmp_path)
    SigningKey.create(tmp_path)
    (tmp_path / "model.key").chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        SigningKey.read(tmp_path)


def test_only_paths_inside_the_folder(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "model.pt").write_bytes(b"abc")
    (tmp_path / "outside.pt").write_bytes(b"abc")
    (folder / "link.pt").symlink_to(tmp_path / "outside.pt")
    assert path_inside(str(folder / "model.pt"), folder) == (folder / "model.pt").resolve()
    for name in ("../outside.pt", "link.pt"):
        with pytest.raises(DataError, match="inside"):
            path_inside(str(folder / name), folder)
