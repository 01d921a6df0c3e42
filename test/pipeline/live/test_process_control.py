"""What is freed is given back: arrays that come and go between others leave nothing behind."""

import subprocess
import sys

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
    assert left_mb("no") > 60  # what happens otherwise; if not, this file has had its day
