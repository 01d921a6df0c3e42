"""How long it takes to open a store of walks, beside a folder of .npz files and a bare SQLite file with the same walks.

*Open* means to know every walk's id, resident and start. The same walks are written, opened and read by all three, in
the same run, on the same disk; ``--dir`` names another disk.
"""

import argparse
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.targets import at_most
from svfm_ros.types import Walk
from svfm_ros.walks.walk_store import WalkStore

OPEN_TARGET_S = 0.1
ADD_TARGET_MS = 100.0
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Figures:
    """What one way of keeping walks costs."""

    name: str
    write_s: float
    open_s: float
    load_one_ms: float
    load_all_s: float
    size_mb: float


def make_walks(count: int, poses: int, points: int) -> list[Walk]:
    """Walks of two residents, one a minute."""
    rng = np.random.default_rng(0)
    tick = np.arange(poses) * 100_000_000
    walks = []
    for n in range(count):
        start_ns, resident = 1_763_330_000_000_000_000 + n * 60_000_000_000, ("anna", "ben")[n % 2]
        track, cloud = np.cumsum(rng.normal(0, 0.1, (poses, 3)), axis=0), rng.normal(0, 4, (points, 2))
        walks.append(Walk(f"{resident}-{n:06d}", resident, start_ns + tick, track, cloud))
    return walks


def timed(action: Callable[[], object], repeats: int = 1) -> float:
    """Median seconds of some runs."""
    took = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def size_mb(path: Path) -> float:
    """Bytes in a file or a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file()) / 1e6


def measure_ours(walks: list[Walk], path: Path) -> Figures:
    """Our store."""
    store = WalkStore.create(path)
    write_s = timed(lambda: store.add_all(walks))
    open_s = timed(lambda: WalkStore.open(path), _REPEATS)
    opened = WalkStore.open(path)
    some = opened.walk_ids[:: max(len(walks) // 100, 1)]
    one_ms = 1e3 * timed(lambda: [opened.load(i) for i in some]) / len(some)
    all_s = timed(lambda: sum(1 for _ in opened.walks()))
    return Figures("svfm_ros store", write_s, open_s, one_ms, all_s, size_mb(path))


def measure_npz(walks: list[Walk], path: Path) -> Figures:
    """A folder of numpy's own files, without a catalogue."""
    path.mkdir()

    def write() -> None:
        for w in walks:
            head = np.array([w.walk_id, w.resident, str(w.stamps_ns[0])])
            np.savez(path / f"{w.walk_id}.npz", head=head, stamps_ns=w.stamps_ns, poses=w.poses, points=w.points)

    def open_all() -> list[tuple[str, ...]]:
        return [tuple(np.load(file)["head"].tolist()) for file in sorted(path.iterdir())]

    def load(walk_id: str) -> Walk:
        with np.load(path / f"{walk_id}.npz") as file:
            return Walk(walk_id, str(file["head"][1]), file["stamps_ns"], file["poses"], file["points"])

    write_s, open_s = timed(write), timed(open_all)
    return Figures("folder of .npz", write_s, open_s, *_reading(walks, load), size_mb(path))


def measure_sqlite(walks: list[Walk], path: Path) -> Figures:
    """A bare SQLite file with a row per walk: no checksums, no search for duplicates, one connection for all."""

    def write() -> None:
        with sqlite3.connect(path) as base:
            base.execute("create table walks (id text primary key, resident text, start_ns integer, s, p, c)")
            rows = (
                (w.walk_id, w.resident, int(w.stamps_ns[0]), w.stamps_ns.tobytes(), w.poses.tobytes(), _single(w))
                for w in walks
            )
            base.executemany("insert into walks values (?, ?, ?, ?, ?, ?)", rows)
        base.close()

    def open_all() -> list[tuple[str, str, int]]:
        base = sqlite3.connect(path)
        rows = base.execute("select id, resident, start_ns from walks order by start_ns").fetchall()
        base.close()
        return rows

    write_s, open_s = timed(write), timed(open_all, _REPEATS)
    base = sqlite3.connect(path)

    def load(walk_id: str) -> Walk:
        resident, *arrays = base.execute("select resident, s, p, c from walks where id = ?", (walk_id,)).fetchone()
        stamps, poses, points = (np.frombuffer(a, k) for a, k in zip(arrays, ("<i8", "<f8", "<f4"), strict=True))
        return Walk(walk_id, resident, stamps, poses.reshape(-1, 3), points.reshape(-1, 2).astype(float))

    reading = _reading(walks, load)
    base.close()
    return Figures("bare SQLite", write_s, open_s, *reading, size_mb(path))


def _single(walk: Walk) -> bytes:
    return walk.points.astype("<f4").tobytes()


def measure_one_by_one(walks: list[Walk], path: Path) -> float:
    """Milliseconds until one walk is on the disk, as the live pipeline stores them."""
    store = WalkStore.create(path)
    return 1e3 * timed(lambda: [store.add(walk) for walk in walks]) / len(walks)


def _reading(walks: list[Walk], load: Callable[[str], Walk]) -> tuple[float, float]:
    """Milliseconds for one walk and seconds for all."""
    some = [w.walk_id for w in walks[:: max(len(walks) // 100, 1)]]
    one_ms = 1e3 * timed(lambda: [load(i) for i in some]) / len(some)
    return one_ms, timed(lambda: [None for w in walks if load(w.walk_id) is None])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walks", type=int, default=10_000, help="how many walks (10000)")
    parser.add_argument("--poses", type=int, default=150, help="poses per walk (150)")
    parser.add_argument("--points", type=int, default=400, help="LiDAR points per walk (400)")
    parser.add_argument("--dir", type=Path, help="where to write them; a temporary folder unless given")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    walks = make_walks(args.walks, args.poses, args.points)
    folder = Path(tempfile.mkdtemp(prefix="svfm-store-", dir=args.dir))
    try:
        ours = measure_ours(walks, folder / "store")
        one_ms = measure_one_by_one(walks[:100], folder / "single")
        rows = [ours, measure_npz(walks, folder / "npz"), measure_sqlite(walks, folder / "walks.sqlite")]
    finally:
        shutil.rmtree(folder)
    checks = [
        at_most(f"open {args.walks} walks, s", ours.open_s, OPEN_TARGET_S),
        at_most("one walk until it is on the disk, ms", one_ms, ADD_TARGET_MS),
    ]
    if not args.json:
        _print(rows)
    return report("Opening the store", checks, {"walks": args.walks, "rows": [asdict(r) for r in rows]}, args.json)


def _print(rows: list[Figures]) -> None:
    columns = ("way", "write all s", "open s", "load one ms", "load all s", "MB")
    cells = [(r.name, r.write_s, r.open_s, r.load_one_ms, r.load_all_s, r.size_mb) for r in rows]
    print_table("Walks kept and opened", columns, cells)


if __name__ == "__main__":
    sys.exit(main())
