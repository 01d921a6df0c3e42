"""What the forecast benchmark stands on: a house, walks in it, and the same walks as a wearable would tell them."""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.sim_config import HabitConfig, SimConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.pipeline.recorded_walks import Refused, align_recordings
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.sim_recording import Recorder
from svfm_ros.sim.trips import LabelledWalk
from svfm_ros.sim.walker import route_book, simulate_protocol
from svfm_ros.types import Pose2, Walk, WalkWindows
from svfm_ros.walks.walk_recorder import cut_walks, take_walk
from svfm_ros.walks.windows import make_windows

HABITS = HabitConfig()
TICKS = 40  # 16 s: longer than any walk takes
MOST = 160  # training walks

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Home:
    """The house, the ways through it and the walks that nobody learns from."""

    house: House
    book: RouteBook
    walks: tuple[LabelledWalk, ...]
    held_out: WalkWindows
    destinations: tuple[str, ...]


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def make_home(seed: int, repeats: int) -> Home:
    """The simulated home: training walks of three sizes and held-out walks."""
    house = load_house()
    book = route_book(house)
    walks = simulate_protocol(house, seed=seed, repeats=repeats, habits=HABITS, book=book)
    return Home(house, book, tuple(walks), windows(walks), tuple(w.destination for w in walks))


def training(home: Home, seed: int, count: int) -> list[LabelledWalk]:
    """The first walks to each target, equally many, as in the paper; else a few targets get one more.

    Few walks are always among the many of the same seed: more walks are then more of the same, and what was recorded
    for the many serves for the few.
    """
    targets = len(home.house.places.names) - 1
    repeats = -(-max(count, MOST) // targets)
    walks = simulate_protocol(home.house, seed=seed, repeats=repeats, habits=HABITS, book=home.book)
    seen: Counter[str] = Counter()
    rounds = []
    for walk in walks:
        rounds.append(seen[walk.destination])
        seen[walk.destination] += 1
    chosen = np.sort(np.argsort(rounds, kind="stable")[:count])
    return [walks[i] for i in chosen]


def windows(walks: Sequence[LabelledWalk] | Sequence[Walk]) -> WalkWindows:
    """Walks as windows in the home's time zone."""
    plain = [w.walk if isinstance(w, LabelledWalk) else w for w in walks]
    return make_windows(plain, WindowsConfig(time_zone=HABITS.time_zone))


@dataclass(frozen=True, slots=True)
class Recorded:
    """The training walks through bag, SLAM and alignment, laid onto the true house, and the same without."""

    walks: tuple[LabelledWalk, ...]
    placed: tuple[tuple[Walk, int], ...]  # each with its true start
    true: tuple[Walk, ...]
    home: Home  # its walks cut by the recorder, too
    refused: tuple[Refused, ...]
    off_m: float
    cpu_s: float

    def of(self, wanted: Sequence[LabelledWalk]) -> tuple[WalkWindows, WalkWindows]:
        """Those walks through SLAM, and without."""
        starts = {int(w.walk.stamps_ns[0]) for w in wanted}
        some = [w for w, start in self.placed if start in starts]
        same = [w for w, whole in zip(self.true, self.walks, strict=True) if int(whole.walk.stamps_ns[0]) in starts]
        return windows(some), windows(same)


def record(home: Home, seed: int, count: int) -> Recorded:
    """Write bags, map and place them.

    The recorder begins and ends a walk a little later and earlier than the simulation does: where the wearer has left
    their place and come to rest. So the true walks, too, are cut by the recorder here.
    """
    walks = training(home, seed, count)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(home.house, SimConfig(habits=HABITS))
        bags = []
        for recording in recorder.one_per_walk(walks, seed):
            bags.append(Path(folder) / recording.name)
            recorder.write(recording, bags[-1])
        found = align_recordings(bags)
    placed, off_m = _onto_truth(found.aligned, walks)
    return Recorded(
        walks=tuple(walks),
        placed=tuple(placed),
        true=tuple(_cut(recorder, walks, seed)),
        home=replace(home, held_out=windows(_cut(recorder, home.walks, seed + 7))),
        refused=tuple(found.refused),
        off_m=off_m,
        cpu_s=time.process_time() - began,
    )


def _cut(recorder: Recorder, walks: Sequence[LabelledWalk], seed: int) -> list[Walk]:
    """The true walks as the recorder cuts them, one each."""
    found = []
    for recording in recorder.one_per_walk(walks, seed):
        truth = recorder.truth(recording)
        found += [
            take_walk(cut, "resident", truth.stamps_ns, truth.poses)
            for cut in cut_walks(truth.stamps_ns, truth.poses)[:1]
        ]
    return found


def _onto_truth(placed: Sequence[Walk], truth: Sequence[LabelledWalk]) -> tuple[list[tuple[Walk, int]], float]:
    """The house's frame laid onto the true one, by all walks at once; each walk with its true start, and the error."""
    starts = np.array([w.walk.stamps_ns[0] for w in truth])
    pairs = [(walk, truth[int(np.argmin(np.abs(starts - walk.stamps_ns[0])))].walk) for walk in placed]
    mine = np.concatenate([a.xy for a, _ in pairs])
    real = np.concatenate([_at(b, a.stamps_ns) for a, b in pairs])
    T = _rigid(mine, real)
    off = np.linalg.norm(T.apply(mine) - real, axis=1)
    return [(a.in_house(T), int(b.stamps_ns[0])) for a, b in pairs], float(np.sqrt(np.mean(off**2)))


def _at(walk: Walk, stamps_ns: NDArray[np.int64]) -> Array:
    return np.stack([np.interp(stamps_ns, walk.stamps_ns, walk.xy[:, i]) for i in (0, 1)], axis=1)


def _rigid(a: Array, b: Array) -> Pose2:
    """The rigid motion that takes points a (N, 2) to b, least squares."""
    u, v = a - a.mean(0), b - b.mean(0)
    angle = float(np.arctan2((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).sum(), (u * v).sum()))
    turn = Pose2(0.0, 0.0, angle)
    shift = b.mean(0) - turn.apply(a.mean(0)[None])[0]
    return Pose2(float(shift[0]), float(shift[1]), angle)
