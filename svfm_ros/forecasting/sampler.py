"""Sampled walks, fast: all paths step together, compiled, with the fields looked up in tables.

The fields were learned as what happens in one step of ``dt_s``, so paths take the same steps and nothing is lost to a
solver in between.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.field_tables import SPEEDS_MPS
from svfm_ros.forecasting.hidden_chain import CLIP, NOT_YET
from svfm_ros.forecasting.posterior import Hidden
from svfm_ros.forecasting.sampler_kernels import stride
from svfm_ros.forecasting.tabled_model import TabledModel

__all__ = ["PathSampler", "SampledWalks"]

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SampledWalks:
    """S paths at every tick from the start on; who has ended stays."""

    xy: NDArray[np.float64]  # (S, T + 1, 2)
    component: NDArray[np.int64]  # (S,), the field each path follows at its end
    ended: NDArray[np.bool_]  # (S,), whether it came to its end at all
    end_xy: NDArray[np.float64]  # (S, 2), where it ended, or was when it was given up


class PathSampler:
    """Draws paths from a model's tables."""

    def __init__(self, model: TabledModel) -> None:
        self.config, self.dt_s, self.chain, self.table = model.config, model.dt_s, model.chain, model.table

    def prior(self, xy: NDArray[np.float64], hour: float) -> NDArray[np.float64]:
        """Share of each field (S, K) for people at positions (S, 2) at a local hour."""
        return np.exp(self.chain.log_prior(xy, hour))

    def draw_start(self, xy: NDArray[np.float64], hour: float, rng: np.random.Generator) -> Hidden:
        """What is hidden for people who set off from positions (S, 2) now."""
        rows = len(xy)
        noise = rng.standard_normal((3, rows)).astype(np.float32)
        return Hidden(
            component=_pick(self.prior(xy, hour), rng),
            pace=np.exp(np.float32(self.chain.widen * self.chain.pace_spread) * noise[0]),
            eps_v=np.float32(self.chain.begin[0]) * noise[1],
            eps_u=np.float32(self.chain.begin[1]) * noise[2],
            pausing=rng.random(rows) < self.chain.pause,
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
        taken = self._walk(rows, hidden.step, hour, path[1:], rng)
        path[taken + 1 :] = path[taken]
        late = np.flatnonzero(~rows.ended)
        if len(late) and more_ticks:
            rest = rows.take(late)
            self._walk(rest, hidden.step + ticks, hour, np.empty((more_ticks, len(late), 2), dtype=np.float32), rng)
            rows.put(late, rest)
        end_xy = np.stack([rows.x, rows.y], axis=1).astype(float)
        return SampledWalks(path.transpose(1, 0, 2).astype(float), rows.component, rows.ended, end_xy)

    def _walk(self, rows: "_Rows", step: int, hour: float, path: Array, rng: np.random.Generator) -> int:
        """Step after step, until everyone has arrived; ``path`` (T, S, 2) is filled. Returns how many steps it took."""
        ticks = len(path)
        normal = rng.standard_normal((ticks, 2, len(rows.x)), dtype=np.float32)
        uniform = rng.random((ticks, 3, len(rows.x)), dtype=np.float32)
        if not self.chain.switch:
            return self._stride(rows, step, normal, uniform, path)
        for t in range(ticks):
            now = slice(t, t + 1)
            self._stride(rows, step + t, normal[now], uniform[now], path[now])
            if rows.ended.all():
                return t + 1
            self._choose_again(rows, uniform[t, 2] < self.chain.switch, hour, rng)
        return ticks

    def _stride(self, rows: "_Rows", step: int, normal: Array, uniform: Array, path: Array) -> int:
        c, chain = self.config, self.chain
        noise = (2.0 * c.sensor_m**2, c.still_m, *chain.keep, CLIP, chain.widen)
        taken: int = stride(
            self.table.parts,
            SPEEDS_MPS,
            self.dt_s,
            np.stack([chain.ramp, chain.steady]),
            tuple(np.float32(value) for value in noise),
            (chain.pause, chain.resume),
            (c.ends, np.float32(NOT_YET)),
            step,
            rows.parts,
            normal,
            uniform,
            path,
        )
        return taken

    def _choose_again(self, rows: "_Rows", changed: NDArray[np.bool_], hour: float, rng: np.random.Generator) -> None:
        """Some change their mind, and choose as if they set off here."""
        changed = changed & ~rows.ended
        if not changed.any():
            return
        here = np.stack([rows.x[changed], rows.y[changed]], axis=1).astype(float)
        rows.component[changed] = _pick(self.prior(here, hour), rng)


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
        """Copies: paths change as they go."""
        none, still = np.zeros(len(xy), dtype=np.bool_), np.zeros(len(xy), dtype=np.float32)
        floats = (xy[:, 0], xy[:, 1], hidden.pace, hidden.eps_v, hidden.eps_u)
        x, y, pace, eps_v, eps_u = (np.array(values, dtype=np.float32) for values in floats)
        return cls(x, y, hidden.component.copy(), pace, eps_v, eps_u, hidden.pausing.copy(), none, still)

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """As ``stride`` takes them."""
        return (self.x, self.y, self.component, self.pace, self.eps_v, self.eps_u, self.pausing, self.ended, self.speed)

    def take(self, index: NDArray[np.int64]) -> "_Rows":
        """Some of the rows."""
        return _Rows(*(values[index] for values in self.parts))

    def put(self, index: NDArray[np.int64], others: "_Rows") -> None:
        """Write some of the rows back."""
        for mine, theirs in zip(self.parts, others.parts, strict=True):
            mine[index] = theirs


def _pick(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """An index for each row of shares (S, K)."""
    index = (rng.random((len(shares), 1)) > shares.cumsum(1)).sum(1)
    return np.asarray(index.clip(max=shares.shape[1] - 1), dtype=np.int64)
