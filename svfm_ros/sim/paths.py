"""Paths people take: the middle line of a way, with their own starting point, their own wandering to the side.

Many paths are drawn at once. One that comes too near to anything is drawn again, nearer to the middle line each time.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from svfm_ros.sim.routes import NODES, RouteBook
from svfm_ros.types import Place

__all__ = ["draw_paths", "draw_stops"]

Array = NDArray[np.float64]

_MODES = 6  # waves of the sideways wandering, the longest being twice the way
_BLEND_M = 1.6  # a path joins the bundle, and leaves it, over this length
_ROOM_M = 0.4  # free floor beside the line that allows the full wandering
_STOP_SPREAD, _STOP_REACH = 0.3, 0.6  # people stop well within a place; shares of its radius
_ROUNDS = 24


def draw_stops(book: RouteBook, place: Place, count: int, rng: np.random.Generator) -> Array:
    """Where ``count`` people come to a stop at a place ``(count, 2)``, clear of things."""
    stops = np.tile(place.xy, (count, 1))
    open_ = np.arange(count)
    for _ in range(_ROUNDS):
        offset = rng.normal(scale=_STOP_SPREAD * place.radius_m, size=(len(open_), 2))
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
) -> Array:
    """Paths ``(B, NODES, 2)`` from ``starts`` to ``stops`` (both ``(B, 2)``), all of them clear of things."""
    lines = book.lines(origin, destination)
    paths = np.empty((len(starts), NODES, 2))
    open_ = np.arange(len(starts))
    for round_ in range(_ROUNDS):
        scale = spread_m * min(1.0, 1.5 * (1.0 - round_ / _ROUNDS))
        drawn = _draw(book, lines, starts[open_], stops[open_], scale, rng)
        ok = book.grid.at(drawn).min(axis=1) >= book.clearance_m
        paths[open_[ok]] = drawn[ok]
        open_ = open_[~ok]
        if len(open_) == 0:
            return paths
    for i in open_:  # a start or a stop in a corner of its own: search a way for this one alone
        paths[i] = book.line_between(starts[i], stops[i])
    return paths


def _draw(
    book: RouteBook, lines: Array, starts: Array, stops: Array, spread_m: float, rng: np.random.Generator
) -> Array:
    count = len(starts)
    pick = rng.integers(len(lines), size=(2, count))
    blend = rng.uniform(size=(count, 1, 1))
    path: Array = lines[pick[0]] * (1.0 - blend) + lines[pick[1]] * blend  # (B, NODES, 2)
    path = path + _sideways(book, path, spread_m, rng)
    u = np.linspace(0.0, 1.0, NODES)
    length = np.hypot(*np.diff(path, axis=1).transpose(2, 0, 1)).sum(axis=1)  # (B,)
    reach = np.clip(_BLEND_M / length, 0.1, 0.5)[:, None]
    at_start, at_stop = _fade(u / reach), _fade((1.0 - u) / reach)  # (B, NODES)
    path += at_start[..., None] * (starts - path[:, 0])[:, None]
    path += at_stop[..., None] * (stops - path[:, -1])[:, None]
    return path


def _sideways(book: RouteBook, path: Array, spread_m: float, rng: np.random.Generator) -> Array:
    """Smooth displacements to the left and right ``(B, NODES, 2)``, smaller where the way is narrow."""
    tangent = np.gradient(path, axis=1)
    tangent = gaussian_filter1d(tangent, 4.0, axis=1, mode="nearest")
    tangent /= np.maximum(np.linalg.norm(tangent, axis=2, keepdims=True), 1e-9)
    normal = np.stack([-tangent[..., 1], tangent[..., 0]], axis=-1)
    waves = np.arange(1, _MODES + 1)
    basis = np.sin(np.pi * waves[:, None] * np.linspace(0.0, 1.0, NODES))  # (modes, NODES)
    size = 1.0 / waves
    size *= spread_m / np.sqrt(0.5 * np.sum(size**2))
    offset = (rng.standard_normal((len(path), _MODES)) * size) @ basis  # (B, NODES)
    room = np.clip((book.grid.at(path) - book.clearance_m) / _ROOM_M, 0.1, 1.0)
    room = gaussian_filter1d(room, 8.0, axis=1, mode="nearest")
    return np.asarray((offset * room)[..., None] * normal)


def _fade(u: Array) -> Array:
    """From one to zero over the unit interval, smoothly."""
    v = np.clip(u, 0.0, 1.0)
    return np.asarray(1.0 - v * v * (3.0 - 2.0 * v))
