"""SLAM on thinned recordings and on harder versions of them.

A recording closes when at least 95 % of its scans are in one map, within 0.5 m (RMSE) of the poses that its publisher
corrected, without a step that is more than 0.5 m too long. The same recording reversed, begun later, thinned again,
noisier or shorter-sighted shows whether that was luck.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchlib.lidar_logs import error_to_corrected, largest_jump, loop_precision
from benchlib.sparse_logs import SparseLog, sparse_logs

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.slam.offline import run_slam
from svfm_ros.targets import at_least, at_most

NEEDS_DATA = "lidar"

_PLACED, _CLOSE_M, _JUMP_M, _SCAN_MS = 0.95, 0.5, 0.5, 50.0


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA", help="folder with the recordings")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="recordings whose names begin like this (all)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    rows = [_measured(log) for log in sparse_logs(args.data) if log.name.startswith(tuple(args.only or [""]))]
    if not rows:
        parser.error(f"expected names of recordings, got {' '.join(args.only)}")
    checks = [
        at_least("recordings that close, share", float(np.mean([row["closes"] for row in rows])), 1.0),
        at_most("slowest recording, per scan, ms", max(row["scan_ms"] for row in rows), _SCAN_MS),
    ]
    if not args.json:
        print_table("Thinned recordings", tuple(rows[0]), [tuple(row.values()) for row in rows])
    return report("SLAM on thinned recordings", checks, {"recordings": rows}, args.json)


def _measured(log: SparseLog) -> dict[str, Any]:
    print(log.name, file=sys.stderr, flush=True)
    run = run_slam(log.scans)
    rmse_m, rmse_deg = error_to_corrected(run, log.corrected)
    placed, jump_m = len(run.trajectory) / len(log.scans), largest_jump(run, log.corrected)
    return {
        "recording": log.name,
        "scans": len(log.scans),
        "closes": placed >= _PLACED and rmse_m <= _CLOSE_M and jump_m <= _JUMP_M,
        "placed": placed,
        "rmse_m": rmse_m,
        "rmse_deg": rmse_deg,
        "jump_m": jump_m,
        "loops": sum(loop.accepted for loop in run.loops),
        "loops_right": loop_precision(run, log.corrected),
        "scan_ms": 1e3 * run.wall_s / len(log.scans),
    }


if __name__ == "__main__":
    sys.exit(main())
