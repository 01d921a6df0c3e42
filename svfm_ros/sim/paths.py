"""Paths people take: the middle line of a way, with their own starting point, their own wandering to the side.

Many paths are drawn at once. One that comes too near to anything is drawn again, nearer to the middle line each time.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from svfm_ros.sim.routes import NODES, RouteBook
from svfm_ros.types import Place

__all__ = ["STOP_SPREAD", "draw_paths", "draw_stops"]

Array = NDArray[np.float64]

STOP_SPREAD = 0.3
"""Standard deviation of where people stop, as a share of the place's radius."""

_MODES = 6  # waves of the sideways wandering, the longest being twice the way
_BLEND_M = 1.6  # a path joins the bundle, and leaves it, over this length
_ROOM_M = 0.4  # free floor beside the line that allows the full wandering
_STOP_REACH = 0.6  # people stop well within a place, at most this share of its radius from the middle
_ROUNDS = 24


def draw_stops(
    book: RouteBook, place: Place, count: int, rng: np.random.Generator, spread: float = STOP_SPREAD
) -> Array:
    """Where ``count`` people come to a stop at a place ``(count, 2)``, clear of things.

    ``spread`` is the standard deviation as a share of the place's radius.
    """
    stops = np.tile(place.xy, (count, 1))
    open_ = np.arange(count)
    for _ in range(_ROUNDS):
        offset = rng.normal(scale=spread * place.radius_m, size=(len(open_), 2))
        ok = np.hypot(*offset.T) <= _STOP_REACH * place.radius_m
        ok &= book.grid.at(place.xy + offset) >= book.clearance_m
        stops[open_[ok]] = place.xy + offset[ok]
        open_ = open_[~ok]
        if len(open_) == 0:
            break
    return stops


def draw_paths(
    book: RouteBook,
    origin: str,
    destination: str,
    starts: Array,
    stops: Array,
    spread_m: float,
    rng: np.random.Generator,
    side_m: float = 0.0,
    route_weights: Sequence[float] = (),
) -> Array:
    """Paths ``(B, NODES, 2)`` from ``starts`` to ``stops`` (both ``(B, 2)``), all of them clear of things.

    ``side_m`` shifts them to the left where there is room; ``route_weights`` are the shares of the variants of a way,
    all alike without them.
    """
    lines = book.lines(origin, destination)
    paths = np.empty((len(starts), NODES, 2))
    open_ = np.arange(len(starts))
    for round_ in range(_ROUNDS):
        scale = min(1.0, 1.5 * (1.0 - round_ / _ROUNDS))
        pick = _pick_lines(len(lines), len(open_), route_weights, rng)
        drawn = _draw(book, lines, pick, starts[open_], stops[open_], scale * spread_m, scale * side_m, rng)
        ok = book.grid.at(drawn).min(axis=1) >= book.clearance_m
        paths[open_[ok]] = drawn[ok]
        open_ = open_[~ok]
        if len(open_) == 0:
            return paths
    for i in open_:  # a start or a stop in a corner of its own: search a way for this one alone
        paths[i] = book.line_between(starts[i], stops[i])
    return paths


def _pick_lines(variants: int, count: int, weights: Sequence[float], rng: np.random.Generator) -> NDArray[np.int64]:
    """Two middle lines for each path ``(2, count)``; the path lies between them."""
    if not weights:
        return rng.integers(variants, size=(2, count))
    shares = np.asarray(weights[:variants]) + 1e-9
    return rng.choice(variants, size=(2, count), p=shares / shares.sum())


def _draw(
    book: RouteBook,
    lines: Array,
    pick: NDArray[np.int64],
    starts: Array,
    stops: Array,
    spread_m: float,
    side_m: float,
    rng: np.random.Generator,
) -> Array:
    count = len(starts)
    blend = rng.uniform(size=(count, 1, 1))
    path: Array = lines[pick[0]] * (1.0 - blend) + lines[pick[1]] * blend  # (B, NODES, 2)
    path = path + _sideways(book, path, spread_m, side_m, rng)
    u = np.linspace(0.0, 1.0, NODES)
    length = np.hypot(*np.diff(path, axis=1).transpose(2, 0, 1)).sum(axis=1)  # (B,)
    reach = np.clip(_BLEND_M / length, 0.1, 0.5)[:, None]
    at_start, at_stop = _fade(u / reach), _fade((1.0 - u) / reach)  # (B, NODES)
    path += at_start[..., None] * (starts - path[:, 0])[:, None]
    path += at_stop[..., None] * (stops - path[:, -1])[:, None]
    return path


def _sideways(book: RouteBook, path: Array, spread_m: float, side_m: float, rng: np.random.Generator) -> Array:
    """Smooth displacements to the left and right ``(B, NODES, 2)``, smaller where the way is narrow."""
    tangent = np.gradient(path, axis=1)
    tangent = gaussian_filter1d(tangent, 4.0, axis=1, mode="nearest")
    tangent /= np.maximum(np.linalg.norm(tangent, axis=2, keepdims=True), 1e-9)
    normal = np.stack([-tangent[..., 1], tangent[..., 0]], axis=-1)
    waves = np.arange(1, _MODES + 1)
    basis = np.sin(np.pi * waves[:, None] * np.linspace(0.0, 1.0, NODES))  # (modes, NODES)
    size = 1.0 / waves
    size *= spread_m / np.sqrt(0.5 * np.sum(size**2))
    offset = (rng.standard_normal((len(path), _MODES)) * size) @ basis + side_m  # (B, NODES)
    room = np.clip((book.grid.at(path) - book.clearance_m) / _ROOM_M, 0.1, 1.0)
    room = gaussian_filter1d(room, 8.0, axis=1, mode="nearest")
    return np.asarray((offset * room)[..., None] * normal)


def _fade(u: Array) -> Array:
    """From one to zero over the unit interval, smoothly."""
    v = np.clip(u, 0.0, 1.0)
    return np.asarray(1.0 - v * v * (3.0 - 2.0 * v))
