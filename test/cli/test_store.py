"""`svfm store`: who has walks, walks in and out, and a person's data gone for good."""

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from svfm_ros.cli.main import main
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.walks.walk_csv import write_walks_csv


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four walks of mary and four of joe, and a model learned from them."""
    walks = [w.walk for w in simulate_protocol(load_house(), seed=1, repeats=2)]
    for name, theirs in (("mary", walks[:4]), ("joe", walks[4:])):
        plain = [",".join(line.split(",")[:4]) for line in _csv(theirs, tmp_path).splitlines()]
        (tmp_path / f"{name}.csv").write_text("\n".join(plain) + "\n")
        assert (
            main(["store", str(tmp_path / "store"), "--import", str(tmp_path / f"{name}.csv"), "--resident", name]) == 0
        )
    (tmp_path / "store" / "model.pt").write_bytes(b"where they walked")
    (tmp_path / "store" / ".model.pt.tables").write_bytes(b"where they walked")
    (tmp_path / "store" / "map.state").write_bytes(b"the way of both")
    return tmp_path / "store"


def _csv(walks: list, folder: Path) -> str:
    write_walks_csv(walks, folder / "some.csv")
    return (folder / "some.csv").read_text()


def residents(store: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, int]:
    capsys.readouterr()
    assert main(["store", str(store), *argv, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out)["residents"])


def test_who_has_walks(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert residents(store, capsys) == {"mary": 4, "joe": 4}


def test_walks_come_out_as_they_went_in(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    residents(store, capsys, "--export", str(tmp_path / "out.csv"))
    positions = lambda path: sorted(line.split(",")[1:4] for line in path.read_text().splitlines()[1:])  # noqa: E731
    both = sorted(positions(tmp_path / "mary.csv") + positions(tmp_path / "joe.csv"))
    assert [[float(v) for v in row] for row in positions(tmp_path / "out.csv")] == [[float(v) for v in r] for r in both]


def test_nothing_of_a_deleted_person_is_left(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert residents(store, capsys, "--delete-resident", "mary") == {"joe": 4}
    left = [p for p in store.rglob("*") if p.is_file()]
    assert not [p for p in left if b"mary" in p.read_bytes()]
    assert not (store / "model.pt").exists()
    assert not (store / ".model.pt.tables").exists()


def test_what_a_killed_program_left_unfinished_goes_with_the_models_and_the_map(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, state = store / ".model.pt.0f.part", store / ".map.state.0f.part"
    for path in (model, state):
        path.write_bytes(b"where they walked")
    residents(store, capsys, "--delete-resident", "mary")
    assert (model.exists(), state.exists()) == (False, True)
    residents(store, capsys, "--delete-resident", "joe")
    assert not state.exists()


def test_walks_that_come_again_are_counted(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", str(store), "--import", str(tmp_path / "mary.csv"), "--resident", "mary"]) == 0
    assert "0 new walks" in (printed := capsys.readouterr().out)
    assert "4 were there already" in printed


def test_an_incomplete_export_says_so_with_exit_code_1(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(store / "walks.sqlite")) as db, db:
        db.execute("UPDATE tracks SET poses = x'00' WHERE number = 3")
    assert main(["store", str(store), "--export", str(tmp_path / "out.csv")]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "7 of 8 walks written" in printed
    assert "not used: walk 'walk-00002' is damaged" in printed


def test_a_store_is_imported_with_its_map_and_model(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new"
    assert residents(new, capsys, "--import", str(store)) == {"mary": 4, "joe": 4}
    assert (new / "model.pt").read_bytes() == b"where they walked"
    assert {p.name for p in new.iterdir()} == {p.name for p in store.iterdir()}
    assert {stat.S_IMODE(p.stat().st_mode) for p in new.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--import", "nothing.csv"], "expected a CSV file or a store, got nothing at nothing.csv"),
        (["--import", "STORE"], "expected another store"),
        (["--import", "STORE", "--resident", "x"], "a store says whose walks"),
        (["--export", "/dev/null"], "got a device"),
        (["--export", "/nowhere/out.csv"], "cannot write /nowhere/out.csv"),
    ],
)
def test_arguments_that_will_not_do(
    store: Path, capsys: pytest.CaptureFixture[str], argv: list[str], sentence: str
) -> None:
    assert main(["store", str(store), *(str(store) if a == "STORE" else a for a in argv)]) == 2
    assert sentence in capsys.readouterr().err


def test_the_map_goes_with_the_last_person(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", str(store), "--delete-resident", "mary"]) == 0
    assert "map.state is kept" in capsys.readouterr().out.replace("\n", " ")
    assert (store / "map.state").exists()
    assert main(["store", str(store), "--delete-resident", "joe"]) == 0
    assert not (store / "map.state").exists()


def test_a_person_who_is_not_there(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", str(store), "--delete-resident", "ann"]) == 2
    assert "joe, mary" in capsys.readouterr().err
    assert residents(store, capsys) == {"mary": 4, "joe": 4}
    assert (store / "model.pt").exists()


def test_a_resident_without_an_import_is_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", str(store), "--resident", "mary"]) == 2
    assert "--import" in capsys.readouterr().err
