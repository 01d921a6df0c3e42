"""Freed memory goes back to the system, and a process ends with its parent."""

import os
import signal
import subprocess
import sys

from svfm_ros.pipeline.live.process_control import PARENT_VARIABLE

PROGRAM = """
import sys
import numpy as np
from svfm_ros.pipeline.live.process_control import return_freed_memory

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

if sys.argv[1] == "yes":
    assert return_freed_memory()
np.ones(30_000_000 // 8)  # large ones come and go: the C library now thinks that heaps are the place for them
before = resident_mb()
kept, large = [], []
for _ in range(100):
    large.append(np.ones(1_000_000 // 8))
    kept.append(np.ones(60_000 // 8))
del large
print(round(resident_mb() - before - 6))
"""


def left_mb(given_back: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, given_back], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_holes_between_small_arrays_are_given_back() -> None:
    assert left_mb("yes") < 20
    assert left_mb("no") > 60  # otherwise return_freed_memory is needed no more


_WAITS = """
import signal, time
from svfm_ros.pipeline.live.process_control import end_with_parent
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup a process is meant to outlive its parent
end_with_parent()
print("ready", flush=True)
time.sleep(600)
"""


def test_a_process_ends_with_the_one_it_was_told_to_end_with() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as named:
        environment = {**os.environ, PARENT_VARIABLE: str(named.pid)}
        ours = subprocess.Popen([sys.executable, "-c", _WAITS], env=environment, stdout=subprocess.PIPE, text=True)
        with ours:
            assert ours.stdout is not None
            assert ours.stdout.readline() == "ready\n"
            assert ours.poll() is None
            named.kill()
            named.wait()
            try:
                assert ours.wait(120.0) == -signal.SIGTERM
            finally:
                ours.kill()
