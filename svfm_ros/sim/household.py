"""What the LiDAR meets in a home besides the drawn house: people, pets, moved doors and chairs, windows, mirrors.

Only the LiDAR is affected: walks are drawn in the house as it is. Doors on the wearer's path stay open and nothing is
moved onto it, so the true path stays free.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import HouseholdConfig, WalkerConfig
from svfm_ros.sim.house import House, Solid, contains, distance_to_segments, rectangle_around
from svfm_ros.sim.trips import after_each_other, tour, walk_all
from svfm_ros.sim.wearer_motion import Motion, motion_of

if TYPE_CHECKING:
    from svfm_ros.sim.routes import RouteBook

__all__ = ["MovingBody", "Pane", "arrange", "bystanders", "glazing"]

Array = NDArray[np.float64]

_CLEAR_M = 0.25  # between the wearer's path and what was moved
_LEAF_M = 0.04
_SMALL_M2 = 1.0  # furniture up to this size is moved about
_ARMS_LENGTH_M = 0.3  # nobody comes nearer to the wearer's body
_PERSON_M, _PERSON_TOP_M = (0.18, 0.26), (1.5, 1.9)
_PET_M, _PET_TOP_M = (0.12, 0.2), (0.3, 0.8)
_CLUTTER_M, _CLUTTER_TOP_M = (0.3, 0.7), (1.3, 1.7)
_PANE_M = (0.7, 1.8)
_WINDOW_Z_M, _MIRROR_Z_M = (0.8, 2.1), (0.4, 1.9)


@dataclass(frozen=True, slots=True)
class Pane:
    """A window or a mirror in the face of a wall."""

    start: Array  # (2,)
    end: Array  # (2,)
    bottom_m: float
    top_m: float
    mirror: bool


@dataclass(frozen=True, slots=True)
class MovingBody:
    """A person or a pet: an upright cylinder that moves."""

    radius_m: float
    top_m: float
    motion: Motion

    def positions(self, start_ns: int, seconds: Array, wearer_xy: Array) -> Array:
        """Centres ``(..., 2)`` at times ``(...)`` after a start; whoever comes too near steps aside."""
        t = seconds + (start_ns - self.motion.start_ns) / NS_PER_S
        centre = np.stack([np.interp(t, self.motion.seconds, self.motion.poses[:, i]) for i in (0, 1)], axis=-1)
        away = centre - wearer_xy
        gap = np.hypot(away[..., 0], away[..., 1])
        nearest = self.radius_m + _ARMS_LENGTH_M
        far = np.maximum(gap, nearest) / np.maximum(gap, 1e-6)
        return np.asarray(wearer_xy + away * far[..., None])


def arrange(house: House, config: HouseholdConfig, day: int, path_xy: Array) -> House:
    """The house as it is on one day: doors, small furniture and clutter; clear of the wearer's path ``(N, 2)``."""
    rng = np.random.default_rng([day, 61])
    solids = list(house.solids)
    if config.doors:
        solids = [_turned(s, solids, path_xy, config, rng) if s.kind == "door" else s for s in solids]
    if config.furniture_m > 0.0:
        solids = [_shifted(s, house, path_xy, config, rng) for s in solids]
    for _ in range(config.clutter):
        thing = _clutter(house, rng)
        if contains(house.rooms, thing.outline).all() and _is_clear(thing, path_xy):
            solids.append(thing)
    return replace(house, solids=tuple(solids))


def _turned(
    leaf: Solid, solids: list[Solid], path_xy: Array, config: HouseholdConfig, rng: np.random.Generator
) -> Solid:
    """The leaf shut or open by another angle; as drawn where that would stand in the wearer's way."""
    is_shut, angle = bool(rng.uniform() < config.door_shut_share), float(np.radians(rng.uniform(50.0, 110.0)))
    doorway = next((s for s in solids if s.kind == "lintel" and s.name == leaf.name), None)
    if doorway is None:
        return leaf
    hinge, other = _ends(doorway)
    tip = _ends(leaf)[1]
    drawn = _cross(other - hinge, tip - hinge)
    if abs(drawn) < 1e-6:  # drawn shut: a front door, a cupboard
        return leaf
    turn = 0.0 if is_shut else angle * float(np.sign(drawn))
    c, s = np.cos(turn), np.sin(turn)
    outline = rectangle_around(hinge, hinge + np.array([[c, -s], [s, c]]) @ (other - hinge), _LEAF_M)
    turned = replace(leaf, outline=outline)
    return turned if _is_clear(turned, path_xy) else leaf


def _ends(bar: Solid) -> tuple[Array, Array]:
    """Both ends of the centre line of a bar made by ``rectangle_around``."""
    o = bar.outline
    return (o[0] + o[3]) / 2.0, (o[1] + o[2]) / 2.0


def _cross(a: Array, b: Array) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def _shifted(piece: Solid, house: House, path_xy: Array, config: HouseholdConfig, rng: np.random.Generator) -> Solid:
    """Small furniture that stands on the floor, moved a little."""
    step = config.furniture_m * rng.standard_normal(2)
    if piece.kind != "furniture" or abs(piece.signed_area_m2) > _SMALL_M2 or piece.bottom_m > 0.0:
        return piece
    moved = replace(piece, outline=piece.outline + step)
    return moved if contains(house.rooms, moved.outline).all() and _is_clear(moved, path_xy) else piece


def _clutter(house: House, rng: np.random.Generator) -> Solid:
    """Something tall that was not there before: a clothes horse, a stack of boxes."""
    x0, y0, x1, y1 = house.bounds()
    centre = np.array([rng.uniform(x0 + 0.5, x1 - 0.5), rng.uniform(y0 + 0.5, y1 - 0.5)])
    size, turn = rng.uniform(*_CLUTTER_M, size=2), rng.uniform(0.0, np.pi)
    along = 0.5 * size[0] * np.array([np.cos(turn), np.sin(turn)])
    outline = rectangle_around(centre - along, centre + along, float(size[1]))
    return Solid("clutter", "furniture", outline, 0.0, float(rng.uniform(*_CLUTTER_TOP_M)))


def _is_clear(solid: Solid, path_xy: Array) -> bool:
    if contains(solid.outline, path_xy).any():
        return False
    return bool(distance_to_segments(path_xy, solid.segments()).min() >= _CLEAR_M)


def glazing(house: House, config: HouseholdConfig) -> tuple[Pane, ...]:
    """Windows in outer walls and mirrors on any wall: the same panes on every day, as many as there is wall for."""
    rng = np.random.default_rng(62)
    faces = [(a, b) for s in house.solids if s.kind == "wall" for a, b in _faces(s)]
    faces = [(a, b) for a, b in faces if contains(house.rooms, _beside(a, b, 0.1)).all()]
    outer = [(a, b) for a, b in faces if not contains(house.rooms, _beside(a, b, -0.3)).any()]
    panes = [_pane(outer, _WINDOW_Z_M, False, rng) for _ in range(config.windows if outer else 0)]
    panes += [_pane(faces, _MIRROR_Z_M, True, rng) for _ in range(config.mirrors if faces else 0)]
    return tuple(panes)


def _faces(wall: Solid) -> list[tuple[Array, Array]]:
    """The long sides of a wall that leave room for a pane, with the wall on their left."""
    o = wall.counter_clockwise
    pairs = zip(o, np.roll(o, -1, axis=0), strict=True)
    return [(a, b) for a, b in pairs if np.hypot(*(b - a)) > _PANE_M[0] + 0.2]


def _beside(a: Array, b: Array, by_m: float) -> Array:
    """The middle of a face, moved away from the wall; into it where negative. ``(1, 2)``."""
    along = (b - a) / np.hypot(*(b - a))
    return np.asarray(((a + b) / 2.0 + by_m * np.array([along[1], -along[0]]))[None])


def _pane(faces: list[tuple[Array, Array]], z_m: tuple[float, float], mirror: bool, rng: np.random.Generator) -> Pane:
    a, b = faces[int(rng.integers(len(faces)))]
    length = float(np.hypot(*(b - a)))
    wide = min(float(rng.uniform(*_PANE_M)), length - 0.1)
    first = float(rng.uniform(0.05, length - wide - 0.05 + 1e-9))
    along = (b - a) / length
    return Pane(a + first * along, a + (first + wide) * along, *z_m, mirror)


def bystanders(book: "RouteBook", config: HouseholdConfig, motion: Motion, seed: int) -> list[MovingBody]:
    """People and pets who walk from place to place during a recording, each with short stays."""
    kinds = [(_PERSON_M, _PERSON_TOP_M)] * config.people + [(_PET_M, _PET_TOP_M)] * config.pets
    return [_body(book, config, motion, radius, top, seed, i) for i, (radius, top) in enumerate(kinds)]


def _body(
    book: "RouteBook",
    config: HouseholdConfig,
    motion: Motion,
    radius_m: tuple[float, float],
    top_m: tuple[float, float],
    seed: int,
    number: int,
) -> MovingBody:
    rng = np.random.default_rng([seed, 63, number])
    names = book.house.places.names
    gap_s = config.stay_s + 6.0
    stops = [int(rng.integers(len(names)))]
    for _ in range(int(motion.duration_s / gap_s) + 3):
        stops.append((stops[-1] + int(rng.integers(1, len(names)))) % len(names))
    first_ns = motion.start_ns - round(float(rng.uniform(0.0, gap_s)) * NS_PER_S)
    trips = tour(book, [names[i] for i in stops], first_ns, rng, round(gap_s * NS_PER_S))
    walks = after_each_other(walk_all(book, trips, WalkerConfig(), rng, None))
    life = motion_of([w.walk for w in walks], 1.0, 1.0, seed + number)
    return MovingBody(float(rng.uniform(*radius_m)), float(rng.uniform(*top_m)), life)
