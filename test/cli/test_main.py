"""The command as a stranger types it: a process of its own."""

import os
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from svfm_ros.cli import main

ROOT = Path(__file__).resolve().parents[2]


def svfm(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "svfm_ros.cli.main", *args], capture_output=True, text=True, check=False
    )


def test_help_names_every_command_and_the_exit_codes() -> None:
    answer = svfm("--help")
    assert answer.returncode == 0
    for name in main.COMMANDS:
        assert f"  {name}" in answer.stdout
    assert "exit codes" in answer.stdout


def test_no_command_shows_help_and_says_it_was_not_usable() -> None:
    assert svfm().returncode == 2


def test_version_is_that_of_package_xml() -> None:
    version = ET.parse(ROOT / "package.xml").getroot().findtext("version")
    assert svfm("--version").stdout.strip() == f"svfm_ros {version}"


def test_an_unknown_command_is_refused() -> None:
    answer = svfm("forcast")
    assert answer.returncode == 2
    assert "forcast" in answer.stderr


def test_help_loads_no_heavy_library() -> None:
    """Start-up stays lazy: what the top-level help imports is the standard library and us."""
    code = (
        "import sys, svfm_ros.cli.main\n"
        "try: svfm_ros.cli.main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'rclpy', 'rich', 'scipy', 'numba', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("name", sorted(main.COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    answer = svfm(name, "--help")
    assert answer.returncode == 0, answer.stderr
    assert "usage: svfm " + name in answer.stdout


INTERRUPTED_WHILE_LOADING = """
import sys, types
class Loading(types.ModuleType):
    def __getattr__(self, name):
        raise KeyboardInterrupt
sys.modules["svfm_ros.cli.main"] = Loading("svfm_ros.cli.main")
from svfm_ros.cli import start
sys.exit(start())
"""


def test_ctrl_c_while_python_loads_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "svfm: interrupted\n")


def test_ctrl_c_at_the_very_start_of_the_executable_is_one_line() -> None:
    """It is interrupted as soon as it is Python, long before any of our code runs."""
    script = ROOT / "scripts" / "svfm"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        ["sh", script, "store", "--help"], stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )
    while "python" not in os.readlink(f"/proc/{process.pid}/exe"):
        pass  # until then it is a shell, or env
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "svfm: interrupted\n")


def test_the_executable_runs_the_python_beside_it_also_through_a_link(tmp_path: Path) -> None:
    beside = tmp_path / "bin" / "python3"
    beside.parent.mkdir()
    beside.write_text('#!/bin/sh\necho "$@"\n')
    beside.chmod(0o755)
    shutil.copy(ROOT / "scripts" / "svfm", beside.parent)
    (tmp_path / "svfm").symlink_to(beside.parent / "svfm")
    done = subprocess.run([tmp_path / "svfm", "train", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout == "-P -c from svfm_ros.cli import start; raise SystemExit(start()) train a b\n"


SWALLOWED = """
import ctypes, signal, sys, time
from svfm_ros.cli import main as cli, store

def run(args):
    interrupt = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    interrupt()  # Python prints what is raised in such a callback, and goes on
    time.sleep(60.0)
    return 0

store.run = run
sys.exit(cli.main(["store", "walks"]))
"""


def test_ctrl_c_in_a_callback_of_compiled_code_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "svfm store: interrupted\n")


def test_ctrl_c_before_the_command_is_known_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from svfm_ros.cli import main as cli

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_top_parser", interrupted)
    assert cli.main(["store", "x"]) == 130
    assert capsys.readouterr().err == "svfm: interrupted\n"


OUTPUT_THAT_ENDS = """
from svfm_ros.cli.run import _Terminal
terminal = _Terminal()
for _ in range(3):
    terminal.say("a walk")
    terminal.rewrite("a forecast")
"""


def test_a_live_pipeline_whose_output_nobody_takes_goes_on_and_says_so_once() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", OUTPUT_THAT_ENDS], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    said = "svfm run: cannot write to the standard output: No space left on device; the nodes go on\n"
    assert (done.returncode, done.stderr) == (0, said)


def test_what_comes_in_messages_reaches_the_terminal_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from svfm_ros.cli.run import _Terminal

    terminal = _Terminal()
    terminal.say("Model \x1b]0;title\x07, learnt from \x1b[2J walks")
    terminal.rewrite("10:00:00  \x1b[31mkitchen\r\n 90 %")
    out = capsys.readouterr().out
    assert out.count("\n") == 2
    assert "".join(out.split("\n")).isprintable()
    assert "\\x1b[31mkitchen" in out


@pytest.mark.parametrize(
    ("width", "shown"),
    [(60, "kitchen 60 %, landing 25 %, study 9 % (not sure)"), (40, "kitchen 60 %, landing 25 % …"), (5, "kitch")],
)
def test_a_forecast_in_a_narrow_terminal_ends_at_a_comma(width: int, shown: str) -> None:
    from svfm_ros.cli.run import _fitted

    assert _fitted("kitchen 60 %, landing 25 %, study 9 % (not sure)", width) == shown
    assert len(shown) <= width
