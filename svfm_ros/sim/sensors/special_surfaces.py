"""What beams meet besides the solids of the house: cylinders that move, windows, mirrors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from svfm_ros.sim.household import Pane
from svfm_ros.sim.sensors.raycast import Hits, RayCaster

__all__ = ["Beams", "at_cylinder", "through_panes"]

Array = NDArray[np.float64]

_ON_PANE_M = 0.005
_HEAD_ON_SINE = np.sin(np.radians(80.0))  # glass returns an echo only where it is met head-on
_OFF_MIRROR_M = 0.001


class Beams(NamedTuple):
    """Rays from points above the floor."""

    origins: Array  # (N, 2)
    azimuths_rad: Array  # (N,)
    heights_m: Array  # (N,)
    slopes: Array  # (N,), metres of height gained per metre along the floor

    def directions(self) -> Array:
        """Unit vectors along the floor ``(N, 2)``."""
        return np.stack([np.cos(self.azimuths_rad), np.sin(self.azimuths_rad)], axis=1)


def at_cylinder(beams: Beams, centres: Array, radius_m: float, top_m: float) -> Hits:
    """Where each beam meets an upright cylinder on the floor, which is at ``centres`` ``(N, 2)`` for each; inf: not."""
    to_centre, along = centres - beams.origins, beams.directions()
    ahead = np.sum(to_centre * along, axis=1)
    beside = along[:, 0] * to_centre[:, 1] - along[:, 1] * to_centre[:, 0]
    half_chord = np.sqrt(np.maximum(radius_m**2 - beside**2, 0.0))
    distance = ahead - half_chord
    height = beams.heights_m + beams.slopes * distance
    met = (np.abs(beside) < radius_m) & (distance > 0.0) & (height >= 0.0) & (height <= top_m)
    return Hits(np.where(met, distance, np.inf), half_chord / radius_m)


def through_panes(panes: Sequence[Pane], caster: RayCaster, beams: Beams, hits: Hits, longest_m: float) -> Hits:
    """The hits with windows and mirrors: glass is seen head-on only, a mirror shows what is in front of it."""
    along = beams.directions()
    reached = np.where(np.isfinite(hits.distance_m), hits.distance_m, 0.0)
    points = beams.origins + reached[:, None] * along
    height = beams.heights_m + beams.slopes * reached
    for pane in panes:
        on_pane = _on_pane(pane, points, height) & np.isfinite(hits.distance_m)
        if not on_pane.any():
            continue
        if pane.mirror:
            other = _mirrored(pane, caster, beams, points, height, reached, on_pane, longest_m)
            hits = hits.replaced(on_pane, other)
        else:
            lost = on_pane & (hits.sine < _HEAD_ON_SINE)
            hits = hits.replaced(lost, Hits(np.full(len(lost), np.inf), hits.sine))
    return hits


def _on_pane(pane: Pane, points: Array, height: Array) -> NDArray[np.bool_]:
    span = pane.end - pane.start
    length = float(np.hypot(*span))
    unit = span / length
    offset = points - pane.start
    s = offset @ unit
    off = np.abs(offset @ np.array([-unit[1], unit[0]]))
    return np.asarray(
        (off < _ON_PANE_M) & (s >= 0.0) & (s <= length) & (height >= pane.bottom_m) & (height <= pane.top_m)
    )


def _mirrored(
    pane: Pane,
    caster: RayCaster,
    beams: Beams,
    points: Array,
    height: Array,
    reached: Array,
    rows: NDArray[np.bool_],
    longest_m: float,
) -> Hits:
    """Hits ``(N,)`` of the beams of ``rows`` after one reflection, with the whole length of their way."""
    direction = np.arctan2(*(pane.end - pane.start)[::-1])
    azimuths = 2.0 * direction - beams.azimuths_rad[rows]
    starts = points[rows] - _OFF_MIRROR_M * beams.directions()[rows]
    found = caster.cast(starts, azimuths, height[rows], beams.slopes[rows], longest_m)
    distance, sine = np.full(len(rows), np.inf), np.ones(len(rows))
    distance[rows] = reached[rows] + found.distance_m
    sine[rows] = found.sine
    return Hits(distance, sine)
