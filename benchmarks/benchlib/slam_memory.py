"""Memory of SLAM over a recording, measured in a process of its own."""

import subprocess
import sys
from pathlib import Path

# ru_maxrss would be at least the memory of the process that starts this one: Linux keeps it across exec.
_SCRIPT = """
import sys
from svfm_ros.slam.offline import run_slam
from svfm_ros.sources import open_scans
run_slam(open_scans(sys.argv[1]))
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")))
"""


def peak_mb(path: Path) -> float:
    """Greatest resident memory in MB, with Python and all libraries."""
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])
