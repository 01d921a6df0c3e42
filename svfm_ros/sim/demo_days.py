"""The recordings of ``svfm demo``: a morning and a night to learn from, and two walks that are forecast live.

One continuous motion is cut where the wearer stands. Each part gets its own hour of the day, so positions are
continuous and only the clock jumps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from svfm_ros.sim.house import House
    from svfm_ros.sim.sim_recording import Recording
    from svfm_ros.sim.wearer_motion import Motion
    from svfm_ros.types import Places

__all__ = ["DAY_H", "NIGHT_H", "PARTS", "DemoWalks", "make_walks"]

DAY_H, NIGHT_H = 10.0, 23.0
_NIGHT = {"landing": 0.9, "kitchen": 0.1}
_NIGHT_PER_REPEAT = 2.5
_EVERY_S = 13.0
_HOUR_NS = 3600 * 1_000_000_000
_SHIFTS_H = {"day": 0.0, "night": NIGHT_H - DAY_H, "live": 24.0, "back": 26.0, "live_night": 24.0 + NIGHT_H - DAY_H}
PARTS = tuple(_SHIFTS_H)
"""Names of the bags."""


@dataclass(frozen=True, slots=True)
class DemoWalks:
    """Bags with their ground truth: day and night, then to the kitchen, back, and to the landing at night."""

    bags: dict[str, Path]  # day, night, live, back, live_night
    parts: "dict[str, Recording]"
    places: "Places"  # in the frame of the map: as seen from the first pose
    shares: dict[str, dict[str, float]]  # where walks from the couch went, by day and by night
    walks: int  # by day and by night, there and back
    scans: dict[str, int]

    def end_ns(self, part: str) -> int:
        """When a part ends."""
        motion = self.parts[part].motion
        return motion.start_ns + round(motion.duration_s * 1e9)

    def truth_at(self, stamps_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """True poses ``(T, 3)``; NaN where nothing was recorded."""
        poses = np.full((len(stamps_ns), 3), np.nan)
        for part in self.parts.values():
            seconds = np.asarray((stamps_ns - part.motion.start_ns) * 1e-9, dtype=np.float64)
            inside = (seconds >= 0.0) & (seconds <= part.motion.duration_s)
            poses[inside] = part.motion.poses_at(seconds[inside])
        return poses


def make_walks(out: Path, seed: int, repeats: int, begin: Callable[[int], Callable[[], None]]) -> DemoWalks:
    """Simulate and write the bags, with ``repeats`` walks from the couch to each place by day.

    ``begin`` gets the number of scans and returns what to call after each.
    """
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.sim_recording import Recorder
    from svfm_ros.sim.walker import simulate_tour

    house = load_house("home")
    recorder = Recorder(house)
    day, night = _destinations(house, seed, repeats)
    stops = ["couch", *(stop for name in day + night for stop in (name, "couch")), "kitchen", "couch", "landing"]
    walks = simulate_tour(house, stops, recorder.config.walker, seed, _EVERY_S, DAY_H)
    whole = recorder.all_in_one(walks, seed)
    learnt = 2 * (len(day) + len(night))
    cuts_ns = [int(walks[n].walk.stamps_ns[0]) for n in (2 * len(day), learnt, learnt + 1, learnt + 2)]
    parts = _cut(whole, cuts_ns)
    tick = begin(sum(recorder.count(p) for p in parts.values()))
    bags = {name: out / name for name in parts}
    scans = {name: recorder.write(p, bags[name], overwrite=True, tick=tick) for name, p in parts.items()}
    return DemoWalks(
        bags=bags,
        parts=parts,
        places=_seen_from_start(house, parts["day"]),
        shares={"day": _shares(day), "night": _shares(night)},
        walks=learnt,
        scans=scans,
    )


def _destinations(house: "House", seed: int, repeats: int) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    by_day = [n for n in house.places.names if n != "couch"] * repeats
    count = round(_NIGHT_PER_REPEAT * repeats)
    at_night = [name for name, share in _NIGHT.items() for _ in range(round(share * count))]
    return [by_day[i] for i in rng.permutation(len(by_day))], [at_night[i] for i in rng.permutation(len(at_night))]


def _shares(names: list[str]) -> dict[str, float]:
    return {name: names.count(name) / len(names) for name in sorted(set(names))}


def _cut(whole: "Recording", cuts_ns: list[int]) -> "dict[str, Recording]":
    """The parts at their hours: the same day at night, the next morning, noon and night."""
    edges = [0.0, *((cut - whole.motion.start_ns) * 1e-9 - _stand_s(i) for i, cut in enumerate(cuts_ns)), np.inf]
    return {
        name: replace(
            whole, name=name, motion=_piece(whole.motion, edges[i], edges[i + 1], shift_h), seed=whole.seed + i
        )
        for i, (name, shift_h) in enumerate(_SHIFTS_H.items())
    }


def _stand_s(cut: int) -> float:
    """How long before the next walk a part begins."""
    return 3.5 if cut else 2.5


def _piece(motion: "Motion", begin_s: float, end_s: float, shift_h: float) -> "Motion":
    """From one moment to another, put some hours later."""
    end_s = min(end_s, motion.duration_s)
    inside = (motion.seconds > begin_s) & (motion.seconds < end_s)
    seconds = np.concatenate([[begin_s], motion.seconds[inside], [end_s]])
    poses = np.stack([np.interp(seconds, motion.seconds, motion.poses[:, i]) for i in range(3)], axis=1)
    start_ns = motion.start_ns + round(begin_s * 1e9) + round(shift_h * _HOUR_NS)
    return replace(
        motion, start_ns=start_ns, seconds=seconds - begin_s, poses=poses, activity=motion.activity_at(seconds)
    )


def _seen_from_start(house: "House", first: "Recording") -> "Places":
    """The map's frame is that of the first scan."""
    from svfm_ros.types import Places, Pose2

    T_house_map = Pose2.from_array(first.motion.poses_at(np.array([0.0]))[0])
    T_map_house: Pose2 = T_house_map.inverse()
    spots = T_map_house.apply(house.places.centres)
    return Places(tuple(replace(p, x=float(x), y=float(y)) for p, (x, y) in zip(house.places, spots, strict=True)))
