"""How processes end: on signals, on bad input, when done, and when whoever started them is gone."""

import os
import select
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ros

NODE = """
import atexit, sys, threading, time
from dataclasses import dataclass
from svfm_ros.config.options import check, option
from svfm_ros.errors import DataError
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.lifetime import run_node

@dataclass(frozen=True)
class Config:
    mode: str = option("wait", "what to do", choices=("wait", "finish", "fail", "break", "refuse", "tick"))
    def __post_init__(self):
        check(self)

class Sample(ConfiguredNode):
    def __init__(self):
        super().__init__("sample", Config)
        mode = self.config.mode
        if mode == "refuse":
            raise DataError("expected a bag, got a boot")
        if mode in ("finish", "fail"):
            threading.Timer(0.1, self.end, [mode]).start()
        if mode == "tick":
            self.ticks = 0
            self.create_timer(0.001, self.tick)
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
    def close(self):
        if not self.context.ok():
            self.get_logger().error("nobody hears this")
        super().close()
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


def ends(process, patience_s=60):
    out, err = process.communicate(timeout=patience_s)
    return process.returncode, out.split(), err


@pytest.mark.parametrize(
    ("mode", "code", "text"),
    [
        ("finish", 0, ""),
        ("fail", 2, "sample: the sensor is a toaster\n"),
        ("refuse", 2, "sample: expected a bag, got a boot\n"),
        ("swim", 2, "sample: Config.mode: expected one of wait, finish, fail, break, refuse, tick, got 'swim'\n"),
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
    ready, _, _ = select.select([handle], [], [], 60)
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
