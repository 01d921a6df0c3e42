"""How processes end: on signals, on bad input, when done, and when whoever started them is gone."""

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from roslive import PATIENCE_S

pytestmark = pytest.mark.ros

NODE = """
import atexit, sys, threading, time
from dataclasses import dataclass
from svfm_ros.config.options import check, option
from svfm_ros.errors import DataError
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.pipeline.live.worker import Worker

@dataclass(frozen=True)
class Config:
    mode: str = option("wait", "what to do", choices=("wait", "finish", "fail", "break", "refuse", "tick", "compile"))
    def __post_init__(self):
        check(self)

class Sample(ConfiguredNode):
    def __init__(self):
        super().__init__("sample", Config)
    def configure(self):
        mode = self.config.mode
        if mode == "refuse":
            raise DataError("expected a bag, got a boot")
        if mode in ("finish", "fail"):
            threading.Timer(0.1, self.end, [mode]).start()
        if mode == "tick":
            self.ticks = 0
            self.create_timer(0.001, self.tick)
        if mode == "compile":
            self.worker = Worker("compile", lambda _: time.sleep(600.0), capacity=1, on_error=print)
            self.worker.put(None)
        if mode == "break":
            self.create_timer(0.05, lambda: 1 / 0)
        self.hello = self.create_timer(0.0, self.greet)
    def greet(self):
        self.hello.cancel()
        print("up", flush=True)
    def tick(self):
        self.ticks += 1
        if self.ticks == 200:
            print("waiting for the end:", len(self.done._callbacks), flush=True)
            self.done.set_result(None)
    def end(self, mode):
        if mode == "finish":
            self.done.set_result(None)
        else:
            self.done.set_exception(DataError("the sensor is a toaster"))
    def cleanup(self):
        if not self.context.ok():
            self.get_logger().error("nobody hears this")
        if self.config.mode == "compile":
            self.worker.stop(timeout_s=0.0)
        print("closed", flush=True)

atexit.register(time.sleep, 0.5)
sys.exit(run_node("sample", Sample))
"""

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def ends(process, patience_s=PATIENCE_S):
    out, err = process.communicate(timeout=patience_s)
    return process.returncode, out.split(), err


@pytest.mark.parametrize(
    ("mode", "code", "text"),
    [
        ("finish", 0, ""),
        ("fail", 2, "sample: the sensor is a toaster\n"),
        ("refuse", 2, "sample: expected a bag, got a boot\n"),
        ("swim", 2, "sample: mode: expected one of wait, finish, fail, break, refuse, tick, compile, got 'swim'\n"),
    ],
)
def test_exit_code_and_line(start, mode, code, text):
    process = start("-c", NODE, "--ros-args", "-p", f"mode:={mode}")
    returncode, _, err = ends(process)
    assert (returncode, err) == (code, text)


def test_an_error_in_a_callback_ends_the_process_and_says_where(start):
    returncode, out, err = ends(start("-c", NODE, "--ros-args", "-p", "mode:=break"))
    assert returncode == 1
    assert "ZeroDivisionError" in err
    assert out == ["up", "closed"]


def test_nothing_is_kept_of_callbacks_that_were_served(start):
    returncode, out, _ = ends(start("-c", NODE, "--ros-args", "-p", "mode:=tick"))
    assert returncode == 0
    assert " ".join(out) == "up waiting for the end: 1 closed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly(start, number):
    process = start("-c", NODE)
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    process.send_signal(number)  # as launch does after the terminal
    assert process.stdout.readline() == "closed\n"
    process.send_signal(number)  # this late it would look like a crash
    assert ends(process) == (0, [], "")


def test_it_does_not_wait_for_a_thread_that_cannot_be_ended(start):
    at_exit = "import atexit; atexit.register(print, 'Python has ended')\n"
    for mode, words in (("compile", ["closed"]), ("wait", ["closed", "Python", "has", "ended"])):
        process = start("-c", at_exit + NODE, "--ros-args", "-p", f"mode:={mode}")
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        assert ends(process) == (0, words, "")


def test_bad_ros_arguments_are_one_line(start):
    returncode, _, err = ends(start("-c", NODE, "--ros-args", "--params-file", "nowhere.yaml"))
    ours = [line for line in err.splitlines() if line.startswith("sample: ")]
    assert returncode == 2
    assert ours == [
        "sample: cannot use the ROS arguments: Couldn't parse params file: '--params-file nowhere.yaml'. "
        "Error: Error opening YAML file"
    ]


def test_it_ends_when_its_parent_is_killed(start):
    parent = start("-c", PARENT, NODE)
    pid = int(parent.stdout.readline())
    handle = os.pidfd_open(pid)  # the pid cannot be taken by another process while we look
    parent.kill()
    parent.wait()
    ready, _, _ = select.select([handle], [], [], PATIENCE_S)
    os.close(handle)
    assert ready, "the node outlived its parent"


def test_it_ends_when_its_parent_was_gone_before_it_looked(start):
    gone = start("-c", "")
    gone.wait()
    process = start("-c", NODE, env={**os.environ, "SVFM_PARENT": str(gone.pid)})
    assert ends(process)[0] == 0


def test_nohup_keeps_it(start):
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + NODE.replace(
        'print("up", flush=True)',
        'print("up", *[t.name for t in threading.enumerate()], flush=True)',
    )
    process = start("-c", script)
    names = process.stdout.readline().split()
    assert names[0] == "up"
    assert "end_with_parent" not in names
    process.terminate()
    assert ends(process)[0] == 0


def test_children_run_this_python():
    assert subprocess.run([sys.executable, "-c", "import rclpy"], check=False).returncode == 0


def udp_sockets(pid):
    """Local addresses of the UDP sockets that a process has bound below the ports that systems hand out."""
    inodes = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/udp").read_text().splitlines()[1:]]
    mine = [row[1].split(":") for row in rows if f"socket:[{row[9]}]" in inodes]
    return {socket.inet_ntoa(bytes.fromhex(ip)[::-1]) for ip, port in mine if int(port, 16) < 32768}


def test_by_default_no_port_is_open_to_other_machines(start):
    unset = {"ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS", "FASTRTPS_DEFAULT_PROFILES_FILE"}
    alone = {name: value for name, value in os.environ.items() if name not in unset}
    process = start("-c", NODE, env=alone)
    assert process.stdout.readline() == "up\n"
    assert udp_sockets(process.pid) == {"127.0.0.1"}
    opened = start("-c", NODE, env={**alone, "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"})
    assert opened.stdout.readline() == "up\n"
    assert "0.0.0.0" in udp_sockets(opened.pid)


LOADING = """
import sys
from importlib.abc import MetaPathFinder

class Interrupted(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "rclpy":
            import os, signal
            os.kill(os.getpid(), signal.SIGINT)

sys.argv = ["trainer_node"]
from svfm_ros.nodes.start import main
sys.meta_path.insert(0, Interrupted())
sys.exit(main())
"""


def test_ctrl_c_while_ros_is_loaded_ends_a_node_without_a_word(start):
    assert ends(start("-c", LOADING)) == (0, [], "")


def test_ctrl_c_at_the_very_start_of_an_executable_is_quiet():
    """It is interrupted as soon as it is Python, long before any of our code runs."""
    script = Path(__file__).resolve().parents[2] / "scripts" / "nodes" / "trainer_node"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(["sh", script], stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path})
    while "python" not in os.readlink(f"/proc/{process.pid}/exe"):
        pass  # until then it is a shell, or env
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")


def test_lines_are_printed_without_control_characters(capsys):
    from svfm_ros.nodes.runtime.lifetime import print_line

    print_line("player: \x1b[2J is no bag\n  second line")
    assert capsys.readouterr().err == "player: \\x1b[2J is no bag\n  second line\n"
