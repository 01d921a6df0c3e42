"""Memory of SLAM over a recording, measured in a process of its own."""

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import resource, sys
from svfm_ros.slam.offline import run_slam
from svfm_ros.sources import open_scans
run_slam(open_scans(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_mb(path: Path) -> float:
    """Greatest resident memory in MB, with Python and all libraries."""
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])
