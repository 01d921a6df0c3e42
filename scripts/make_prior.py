#!/usr/bin/env python3
"""Learn the free walker that ships with the package from public tracks: svfm_ros/forecasting/population.safetensors.

    scripts/make_prior.py DIR        DIR holds eth_ucy/*.txt (frame, id, x, y at 2.5 Hz)

Used are the scenes ETH, Students 1 and 3, Zara 2 and 3 and University examples. Hotel, Zara 1, THÖR and Edinburgh are
left out: forecasts are measured on them. Leaving one scene out of ETH/UCY needs a prior of its own, which
``svfm bench forecast_real`` learns.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from svfm_ros.forecasting.fit.free_walker_fit import learn_prior

SCENES = ("biwi_eth", "students001", "students003", "crowds_zara02", "crowds_zara03", "uni_examples")
OUT = Path(__file__).resolve().parent.parent / "svfm_ros" / "forecasting" / "population.safetensors"
_FRAMES_PER_STEP = 10


def tracks_of(path: Path) -> list[np.ndarray]:
    """Tracks (T, 2) of at least three positions, split where positions are missing."""
    table = np.loadtxt(path)
    found: list[np.ndarray] = []
    for person in np.unique(table[:, 1]):
        rows = table[table[:, 1] == person]
        rows = rows[np.argsort(rows[:, 0])]
        parts = np.split(rows, np.flatnonzero(np.diff(rows[:, 0]) > 1.5 * _FRAMES_PER_STEP) + 1)
        found += [part[:, 2:4] - part[0, 2:4] for part in parts if len(part) >= 3]
    return found


def main() -> int:
    """Learn and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with eth_ucy/")
    parser.add_argument("--out", type=Path, default=OUT, help="file to write")
    args = parser.parse_args()
    scenes = [tracks_of(args.folder / "eth_ucy" / f"{name}.txt") for name in SCENES]
    learn_prior(scenes).save(args.out)
    args.out.chmod(0o644)
    print(f"{args.out}: {sum(len(s) for s in scenes)} tracks, {args.out.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
