"""A low-cost LiDAR worn on the chest of someone who walks.

Each beam of a sweep starts at the pose of the wearer at its own time, in a plane that tilts with the steps. Range
noise, quantisation, lost beams and the shadow of the wearer's body follow. Each effect has its own random stream:
switching one off does not change the others.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.sim.house import House
from svfm_ros.sim.household import MovingBody, Pane
from svfm_ros.sim.sensors.raycast import Beams, Hits, RayCaster, at_cylinder, through_panes
from svfm_ros.sim.wearer_motion import Attitude, BodySway, Motion
from svfm_ros.types import Scan

__all__ = ["Lidar"]

Array = NDArray[np.float64]

_CHUNK = 200  # sweeps computed at once
_QUANTUM_AT_M = 1.5  # the data sheet gives the step of the range at this distance


class Lidar:
    """Simulates the scans of a motion through a house, frame ``laser``: x ahead, y to the left."""

    def __init__(
        self,
        house: House,
        config: LidarConfig | None = None,
        step_hz: float = 1.8,
        panes: Sequence[Pane] = (),
        bodies: Sequence[MovingBody] = (),
    ) -> None:
        """``step_hz`` is the rhythm of the wearer's steps; ``panes`` and ``bodies`` are what else the beams meet."""
        self._panes, self._bodies = panes, bodies
        self.config = config or LidarConfig()
        self._caster = RayCaster.of_house(house)
        self._step_hz = step_hz
        self._angle_step = 2.0 * np.pi / self.config.beams
        angles = -np.pi + self._angle_step * np.arange(self.config.beams)
        behind = np.pi - np.abs(angles) < np.radians(self.config.shadow_deg) / 2.0
        self._seen = np.flatnonzero(~(behind & self.config.shadow))  # (M,), beams that do not look into the wearer
        self._angles = angles[self._seen]

    @property
    def period_ns(self) -> int:
        """Time from one sweep to the next."""
        return round(NS_PER_S / self.config.rate_hz)

    def count(self, motion: Motion) -> int:
        """Whole sweeps within a motion."""
        return int((motion.duration_s * NS_PER_S + 1e-3) // self.period_ns)

    def sweeps(self, motion: Motion, seed: int) -> Iterator[Scan]:
        """All sweeps of a motion, one after the other; the same seed gives the same scans."""
        streams = [np.random.default_rng([seed, 21, effect]) for effect in range(2)]
        sway = BodySway(motion, self.config, self._step_hz, seed)
        total = self.count(motion)
        for first in range(0, total, _CHUNK):
            numbers = np.arange(first, min(first + _CHUNK, total))
            ranges = self._measure(motion, numbers, sway, streams)
            for k, row in zip(numbers, ranges, strict=True):
                yield self._scan(motion.start_ns + int(k) * self.period_ns, row)

    def _scan(self, stamp_ns: int, ranges: NDArray[np.float32]) -> Scan:
        c = self.config
        period_s = self.period_ns / NS_PER_S
        increment_s = period_s / c.beams if c.motion else 0.0
        return Scan(stamp_ns, ranges, -np.pi, self._angle_step, c.range_min_m, c.range_max_m, period_s, increment_s)

    def _measure(
        self, motion: Motion, numbers: NDArray[np.int64], sway: BodySway, streams: list[np.random.Generator]
    ) -> NDArray[np.float32]:
        """Ranges ``(S, N)`` of the sweeps of these numbers."""
        c = self.config
        period_s = self.period_ns / NS_PER_S
        t = numbers[:, None] * period_s + self._seen * (period_s / c.beams if c.motion else 0.0)  # (S, M)
        ranges, sine = self._true_ranges(motion, t, sway.at(t))
        ranges = self._noisy(ranges, streams[0])
        ranges = self._quantised(ranges)
        lost = self._dropped(ranges, sine, streams[1])
        lost |= ~((ranges >= c.range_min_m) & (ranges <= c.range_max_m))
        sweeps = np.full((len(numbers), c.beams), np.inf, dtype=np.float32)
        sweeps[:, self._seen] = np.where(lost, np.inf, ranges)
        return sweeps

    def _true_ranges(self, motion: Motion, t: Array, tilt: Attitude) -> tuple[Array, Array]:
        """Exact ranges and sines of incidence ``(S, M)`` of beams taken at times ``t`` ``(S, M)``."""
        poses = motion.poses_at(t)
        sp, cp = np.sin(tilt.pitch_rad), np.cos(tilt.pitch_rad)
        sr, cr = np.sin(tilt.roll_rad), np.cos(tilt.roll_rad)
        ca, sa = np.cos(self._angles), np.sin(self._angles)
        # The beam (ca, sa, 0), rolled about x, then pitched about y: nose down is positive.
        ahead, left, up = cp * ca + sp * sr * sa, cr * sa, -sp * ca + cp * sr * sa
        level = np.hypot(ahead, left)
        azimuth = poses[..., 2] + np.arctan2(left, ahead)
        beams = Beams(poses[..., :2].reshape(-1, 2), azimuth.ravel(), tilt.height_m.ravel(), (up / level).ravel())
        hits = self._meet(beams, motion.start_ns, t.ravel())
        shape = azimuth.shape
        return hits.distance_m.reshape(shape) / level, hits.sine.reshape(shape)

    def _meet(self, beams: Beams, start_ns: int, t: Array) -> Hits:
        """Where beams end: at the house, at whoever walks by, behind a mirror, nowhere beyond a window."""
        longest_m = 2.0 * self.config.range_max_m
        hits = self._caster.cast(*beams, longest_m)
        seen = through_panes(self._panes, self._caster, beams, hits, longest_m) if self._panes else hits
        for body in self._bodies:
            nearer = at_cylinder(beams, body.positions(start_ns, t, beams.origins), body.radius_m, body.top_m)
            first = nearer.distance_m < hits.distance_m
            hits, seen = (h.replaced(first, nearer) for h in (hits, seen))
        return seen

    def _noisy(self, ranges: Array, rng: np.random.Generator) -> Array:
        if not self.config.noise:
            return ranges
        finite = np.where(np.isfinite(ranges), ranges, 0.0)
        sigma = self.config.noise_m + self.config.noise_share * finite
        drawn = rng.standard_normal((len(ranges), self.config.beams))[:, self._seen]  # for all, seen or not
        return np.asarray(ranges + sigma * drawn)

    def _quantised(self, ranges: Array) -> Array:
        """A triangulating sensor measures 1/range in even steps, so its steps of range grow with the range squared."""
        if not self.config.quantisation or self.config.quantum_m == 0.0:
            return ranges
        step = self.config.quantum_m / _QUANTUM_AT_M**2  # of 1/range, 1/m
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (np.rint(1.0 / np.maximum(ranges, 1e-3) / step) * step))

    def _dropped(self, ranges: Array, sine: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
        c = self.config
        if not c.drops:
            return np.zeros(ranges.shape, dtype=bool)
        far = np.clip(np.where(np.isfinite(ranges), ranges, c.range_max_m) / c.range_max_m, 0.0, 1.0)
        share = c.drop_share + (c.drop_share_far - c.drop_share) * far**2
        drawn = rng.uniform(size=(len(ranges), c.beams))[:, self._seen]
        return np.asarray((drawn < share) | (sine < np.sin(np.radians(c.grazing_deg))))
