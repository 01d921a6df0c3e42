"""One sentence and exit code 2 for every bad input: a table of commands, the files they are given, and what they say.

Every case also checks that no traceback is printed, that nothing was written and that no good file was changed.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bad_files as bad
import numpy as np
import on_small_disks
import pytest
from ask_svfm import Case, ask, contents, put
from bad_commands import CASES, FOLDER_WRITERS, WRITERS, to
from tinymodel import KITCHEN, fill_store, save_tiny, walks

from svfm_ros.mapio import save_map
from svfm_ros.sources.open_scans import save_scans
from svfm_ros.types import OccupancyGrid, Places, Scan
from svfm_ros.walks.places import save_places
from svfm_ros.walks.walk_csv import write_walks_csv


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files of every kind."""
    folder = tmp_path_factory.mktemp("good")
    made = walks()
    write_walks_csv(made, folder / "walks.csv")
    fill_store(folder / "store", made)
    save_tiny(folder / "model.pt")
    save_places(Places((KITCHEN,)), folder / "places.yaml")
    (folder / "options.yaml").write_text("lidar: {beams: 60}")
    save_map(OccupancyGrid(np.zeros((40, 120), np.float32), 0.05), folder / "map.yaml")
    ranges = np.full(60, 2.0, np.float32)
    save_scans([Scan(i * 10**8, ranges, -3.0, 0.1, 0.1, 9.0) for i in range(4)], folder / "scans.npz")
    return folder


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_sentence_and_exit_code_2(case: Case, good: Path, tmp_path: Path) -> None:
    put(tmp_path, case.files)
    before = contents(tmp_path), contents(good)
    code, out, err = ask(case.command.replace("{good}", str(good)).replace("{here}", str(tmp_path)))
    assert re.search(case.sentence, err), err
    assert code == 2
    assert out == ""
    assert err.startswith("svfm")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert "Traceback" not in err
    assert not re.search(r"\b[A-Z]\w+Config\b", err)
    assert len(err) < 800
    assert (contents(tmp_path), contents(good)) == before  # nothing half written, nothing lost


@pytest.fixture
def no_room() -> Iterator[None]:
    """Every file ends after 4 kB, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("command", [*WRITERS.values(), *FOLDER_WRITERS.values()], ids=[*WRITERS, *FOLDER_WRITERS])
def test_a_full_disk_is_noticed_before_the_work(command: str, good: Path, tmp_path: Path, no_room: None) -> None:
    code, out, err = ask(to(command, "{here}/a").replace("{good}", str(good)).replace("{here}", str(tmp_path)))
    assert (code, out) == (2, "")
    assert re.fullmatch(r"svfm \w+: cannot write \S+: File too large\n", err), err
    assert not list(tmp_path.iterdir())


def test_a_disk_that_becomes_full_during_the_work_leaves_nothing_half_written(good: Path, tmp_path: Path) -> None:
    """On a real file system of 3 MB, in a mount namespace of its own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to make a mount namespace")
    script = """
mount -t tmpfs -o size=3m small "$1" && cd "$1" || exit 77
python() { "$PYTHON" -m svfm_ros.cli.main "$@"; echo "code $?" >&2; }
python simulate --minutes 30 --dwell 20 --out bags
head -c 2500000 /dev/zero > ballast
python simulate --walks 400 --walks-csv walks.csv
python store new --import "$2/big.csv"
ls -A >&2
"""
    rows = [f"w{n},{n * 1000 + t},{t},0\n" for n in range(2000) for t in range(40)]
    (good / "big.csv").write_text("walk_id,t,x,y\n" + "".join(rows))
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path / "disk"), str(good)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    (good / "big.csv").unlink()
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("code")] == ["code 2"] * 3
    said = [line for line in lines if line.startswith("svfm")]
    assert [("No space left" in s or "disk is full" in s) for s in said] == [True] * 3, said
    assert lines[lines.index("code 2", len(lines) - 3) + 1 :] == ["ballast"]


@pytest.mark.ros
def test_full_and_read_only_file_systems_are_noticed_before_the_work(good: Path, tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to make a mount namespace")
    script = Path(on_small_disks.__file__)
    paths = os.pathsep.join(map(str, (script.parent, Path(__file__).parent, *sys.path)))
    done = subprocess.run(
        ["unshare", "-m", sys.executable, script, good, tmp_path],
        env={**os.environ, "PYTHONPATH": paths, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 2 * len({**WRITERS, **FOLDER_WRITERS, **on_small_disks.MORE_WRITERS})
    for name, code, out, err, left in rows:
        assert (name, code, out, left) == (name, 2, "", []), err
        assert re.search("No space left on device|the disk is full|Read-only file system|readonly", err), (name, err)
        assert "Traceback" not in err


def svfm(*words: str, **named: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "svfm_ros.cli.main", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **named)


def test_a_full_or_closed_standard_output_is_said(good: Path) -> None:
    with open("/dev/full", "w") as full:
        done = svfm("store", str(good / "store"), stdout=full)
    assert (done.returncode, done.stderr) == (
        2,
        "svfm store: cannot use the standard output: No space left on device\n",
    )
    done = svfm("store", str(good / "store"), preexec_fn=lambda: os.close(1))
    assert done.returncode == 2
    assert done.stderr == "svfm: expected a standard output to write to, but it is closed\n"
    assert svfm("store", str(good / "store"), stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(2)).returncode == 2


def test_names_from_files_never_reach_the_terminal_as_codes(tmp_path: Path) -> None:
    name = bad.MARKUP
    rows = [f"w{n},{n * 1000 + t},{t},0,{name}\n" for n in range(3) for t in range(4)]
    (tmp_path / "a.csv").write_text("walk_id,t,x,y,resident\n" + "".join(rows))
    code, out, err = ask(f"store {tmp_path}/new --import {tmp_path}/a.csv")
    assert (code, err) == (0, "")
    assert "\\x1b[31m" in out
    assert "[/bold]" in out
    assert "\x1b" not in out
    code, out, _ = ask(f"store {tmp_path}/new --delete-resident {name}")
    assert code == 0
    assert "\x1b" not in out


def test_one_bad_entry_does_not_block_a_store(tmp_path: Path) -> None:
    store = fill_store(tmp_path / "s", walks(3))
    bad.change_rows(store.path, "UPDATE tracks SET crc32 = 1 WHERE number = 2", "DELETE FROM tracks WHERE number = 3")
    code, out, err = ask(f"store {tmp_path}/s --export {tmp_path}/a.csv")
    assert code == 1
    assert "1 of 3 walks written" in out
    assert out.count("not used: ") == 2
    assert "Traceback" not in err


def test_a_store_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from svfm_ros.errors import DataError
    from svfm_ros.walks.walk_store import WalkStore

    WalkStore.create(tmp_path / "s")

    def denied(self: Path, **named: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", denied)
    for call in (WalkStore.open, WalkStore.create):
        with pytest.raises(DataError, match=r"cannot (read|open) the store .*: Permission denied"):
            call(tmp_path / "s")


def test_a_fault_of_ours_is_one_sentence_and_a_log_for_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from svfm_ros.cli import store

    def broken(args: object) -> int:
        raise ZeroDivisionError("in the middle of the work")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(store, "run", broken)
    code, out, err = ask("store somewhere --export secret.csv")
    (log,) = (tmp_path / "svfm_ros" / "log").iterdir()
    assert (code, out) == (3, "")
    assert err == f"svfm store: a fault of svfm itself: ZeroDivisionError; please report it with the file {log}\n"
    assert "in the middle of the work" in log.read_text()
    assert "secret.csv" not in log.read_text()  # what was asked for stays private
    assert [oct(p.stat().st_mode & 0o777) for p in (log, log.parent)] == ["0o600", "0o700"]
    for _ in range(30):
        log.with_name(f"svfm-20000101-0000{_:02d}-1.log").touch()
    ask("store somewhere")
    assert len(list(log.parent.iterdir())) == 20
    monkeypatch.setenv("XDG_STATE_HOME", "/sys")
    code, _, err = ask("store somewhere")
    assert code == 3
    assert "no log was written" in err
    assert err.count("\n") == 1


def test_what_commands_write_is_their_owners_alone(good: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        here, model = tmp_path / "made" / "here", f"--model {good}/model.pt"
        for command in (
            f"simulate --walks 1 --out {here}/bags --export-map {here}/m.yaml --export-places {here}/p.yaml",
            f"forecast {model} --at 1,0 --png {here}/f.png",
            f"report --store {good}/walks.csv {model} --out {here}/r.html",
            f"store {here}/store --import {good}/walks.csv",
            f"store {good}/store --export {here}/w.csv",
            f"train {good}/walks.csv --out {here}/models/m.pt",
        ):
            assert ask(command)[0] == 0, command
    finally:
        os.umask(before)
    made = [p for p in (tmp_path / "made").rglob("*") if p.name]
    assert len(made) > 12
    assert {oct(p.stat().st_mode & 0o777) for p in made} == {"0o600", "0o700"}
