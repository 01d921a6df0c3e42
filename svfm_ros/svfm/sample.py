"""Sampled walks, fast: all paths step together, in numpy, with the fields looked up in tables.

The fields were learned as what happens in one step of ``dt_s``, so paths take the same steps and nothing is lost to a
solver in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from svfm_ros.svfm.belief import Hidden
from svfm_ros.svfm.pathlik import CLIP, NOT_YET
from svfm_ros.svfm.tables import FieldTable
from svfm_ros.svfm.walkmodel import TIME_GAIN, WalkModel

__all__ = ["PathSampler", "SampledWalks"]

Array = NDArray[np.float32]
_FADE = np.float32(1e-9)


@dataclass(frozen=True, slots=True)
class SampledWalks:
    """S paths at every tick from the start on; who has ended stays."""

    xy: NDArray[np.float64]  # (S, T + 1, 2)
    component: NDArray[np.int64]  # (S,), the field each path follows at its end
    ended: NDArray[np.bool_]  # (S,), whether it came to its end at all
    end_xy: NDArray[np.float64]  # (S, 2), where it ended, or was when it was given up


class PathSampler:
    """Everything a path needs of a model, copied out of torch once."""

    def __init__(self, model: WalkModel) -> None:
        config, chain = model.config, model.chain()
        self.config, self.dt_s = config, model.dt_s
        self.table = FieldTable.of(model)
        self._shift = _numpy(model.shift)
        self._gate = [(_numpy(w[0]), _numpy(b[0, 0])) for w, b in model.gate.weights()]
        self._ramp = np.exp(_numpy(chain.ramp))
        self._pace_spread = float(model.log_pace_spread.detach().exp()) if config.paces > 1 else 0.0
        self._keep_v, self._keep_u = float(chain.keep_v.detach()), float(chain.keep_u.detach())
        self._pause, self._resume = float(chain.pause.detach()), float(chain.resume.detach())
        self._switch = chain.switch

    def prior(self, xy: NDArray[np.float64], hour: float) -> NDArray[np.float64]:
        """Share of each field (S, K) for people at positions (S, 2) at a local hour."""
        angle = 2.0 * np.pi * hour / 24.0
        tod = np.broadcast_to(TIME_GAIN * np.array([np.cos(angle), np.sin(angle)], dtype=np.float32), (len(xy), 2))
        x = np.concatenate([(xy.astype(np.float32) - self._shift) / np.float32(self.config.unit_m), tod], axis=1)
        for i, (w, b) in enumerate(self._gate):
            x = (np.tanh(x) if i else x) @ w + b
        shares = np.exp((x - x.max(1, keepdims=True)).astype(float))
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def draw_start(self, xy: NDArray[np.float64], hour: float, rng: np.random.Generator) -> Hidden:
        """What is hidden for people who set off from positions (S, 2) now."""
        rows = len(xy)
        noise = rng.standard_normal((3, rows)).astype(np.float32)
        return Hidden(
            component=_pick(self.prior(xy, hour), rng),
            pace=np.exp(np.float32(self._pace_spread) * noise[0]),
            eps_v=noise[1],
            eps_u=noise[2],
            pausing=rng.random(rows) < self._pause,
            step=0,
        )

    def sample(
        self,
        xy: NDArray[np.float64],
        hidden: Hidden,
        hour: float,
        ticks: int,
        rng: np.random.Generator,
        more_ticks: int = 0,
    ) -> SampledWalks:
        """Walk on from positions (S, 2), all at once; over early when everyone has arrived.

        Who has not arrived after ``ticks`` is followed for ``more_ticks``, only to see where they end.
        """
        rows = _Rows.of(xy, hidden)
        path = np.empty((ticks + 1, len(xy), 2), dtype=np.float32)
        path[0] = xy
        for t, now in self._walk(rows, hidden.step, hour, ticks, rng):
            path[t + 1, :, 0], path[t + 1, :, 1] = now.x, now.y
            if now.ended.all():
                path[t + 2 :] = path[t + 1]
        late = np.flatnonzero(~rows.ended)
        if len(late) and more_ticks:
            rest = rows.take(late)
            for _ in self._walk(rest, hidden.step + ticks, hour, more_ticks, rng):
                pass
            rows.put(late, rest)
        end_xy = np.stack([rows.x, rows.y], axis=1).astype(float)
        return SampledWalks(path.transpose(1, 0, 2).astype(float), rows.component, rows.ended, end_xy)

    def _walk(
        self, rows: "_Rows", step: int, hour: float, ticks: int, rng: np.random.Generator
    ) -> Iterator[tuple[int, "_Rows"]]:
        """Step after step, until everyone has arrived."""
        normal = rng.standard_normal((ticks, 2, len(rows.x)), dtype=np.float32)
        uniform = rng.random((ticks, 3, len(rows.x)), dtype=np.float32)
        seen = self.table.look_up(rows.x, rows.y, rows.component)
        for t in range(ticks):
            self._move(rows, seen, step + t, normal[t])
            seen = self.table.look_up(rows.x, rows.y, rows.component)
            self._decide(rows, seen, step + t, uniform[t])
            yield t, rows
            if rows.ended.all():
                return
            if self._choose_again(rows, uniform[t, 2] < self._switch, hour, rng):
                seen = self.table.look_up(rows.x, rows.y, rows.component)

    def _move(self, rows: "_Rows", seen: Array, step: int, normal: Array) -> None:
        """One step of everyone who has not arrived."""
        ax, ay = seen[:, 0], seen[:, 1]
        length = np.sqrt(ax * ax + ay * ay + _FADE)
        m = length * rows.pace * np.float32(self.dt_s * (self._ramp[step] if step < len(self._ramp) else 1.0))
        floor = np.float32(2.0 * self.config.sensor_m**2)
        sd_u, sd_v = np.sqrt((m * seen[:, 2]) ** 2 + floor), np.sqrt((m * seen[:, 3]) ** 2 + floor)
        if step:
            rows.eps_v = _carried(rows.eps_v, self._keep_v, normal[0])
            rows.eps_u = _carried(rows.eps_u, self._keep_u, normal[1])
        along, across = np.maximum(m + sd_v * rows.eps_v, 0.0), sd_u * rows.eps_u
        if rows.pausing.any():
            still = np.float32(self.config.still_m)
            along = np.where(rows.pausing, still * normal[0], along)
            across = np.where(rows.pausing, still * normal[1], across)
            rows.eps_v, rows.eps_u = (along - m) / sd_v, across / sd_u
        share = ~rows.ended / length  # of the field's vector, so that its direction needs no division of its own
        dx, dy = (along * ax - across * ay) * share, (along * ay + across * ax) * share
        rows.x, rows.y = rows.x + dx, rows.y + dy
        rows.speed = np.sqrt(dx * dx + dy * dy) * np.float32(1.0 / self.dt_s)

    def _decide(self, rows: "_Rows", seen: Array, step: int, uniform: Array) -> None:
        """Who arrives, who pauses, who walks on."""
        if self.config.ends:
            logit = self.table.end_logit(seen, rows.speed)
            if step < len(self._ramp):
                logit = logit + np.float32(NOT_YET)
            rows.ended = rows.ended | (uniform[0] * (1.0 + np.exp(-logit)) < 1.0)
        rows.pausing = np.where(rows.pausing, uniform[1] > self._resume, uniform[1] < self._pause)

    def _choose_again(self, rows: "_Rows", changed: NDArray[np.bool_], hour: float, rng: np.random.Generator) -> bool:
        """Some change their mind, and choose as if they set off here."""
        changed = changed & ~rows.ended
        if not changed.any():
            return False
        here = np.stack([rows.x[changed], rows.y[changed]], axis=1).astype(float)
        rows.component = rows.component.copy()
        rows.component[changed] = _pick(self.prior(here, hour), rng)
        return True


@dataclass(slots=True)
class _Rows:
    """Paths on their way; one value per path."""

    x: Array
    y: Array
    component: NDArray[np.int64]
    pace: Array
    eps_v: Array
    eps_u: Array
    pausing: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    speed: Array

    @classmethod
    def of(cls, xy: NDArray[np.float64], hidden: Hidden) -> "_Rows":
        start = xy.astype(np.float32)
        none = np.zeros(len(xy), dtype=np.bool_)
        still = np.zeros(len(xy), dtype=np.float32)
        noise = hidden.eps_v.astype(np.float32), hidden.eps_u.astype(np.float32)
        pace = hidden.pace.astype(np.float32)
        return cls(start[:, 0], start[:, 1], hidden.component, pace, *noise, hidden.pausing, none, still)

    def take(self, index: NDArray[np.int64]) -> "_Rows":
        """Some of the rows."""
        return _Rows(*(getattr(self, f.name)[index] for f in fields(self)))

    def put(self, index: NDArray[np.int64], others: "_Rows") -> None:
        """Write some of the rows back."""
        for f in fields(self):
            values = getattr(self, f.name).copy()
            values[index] = getattr(others, f.name)
            setattr(self, f.name, values)


def _pick(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """An index for each row of shares (S, K)."""
    index = (rng.random((len(shares), 1)) > shares.cumsum(1)).sum(1)
    return np.asarray(index.clip(max=shares.shape[1] - 1), dtype=np.int64)


def _carried(eps: Array, keep: float, fresh: Array) -> Array:
    """Noise one step later: part of it stays, the rest is fresh."""
    return np.asarray(np.float32(keep) * eps.clip(-CLIP, CLIP) + np.float32(np.sqrt(1.0 - keep**2)) * fresh)


def _numpy(x: object) -> Array:
    return np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)  # type: ignore[attr-defined]
