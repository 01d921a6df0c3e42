"""A walk model as tensors on a device: its tables, habits, filters and free walker, each for many rows at once.

Every function here computes what the compiled one that its docstring names computes; nothing waits for the device.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from svfm_ros.forecasting.batched.free_walker_torch import NextMove, in_frame, next_move
from svfm_ros.forecasting.field_step import CLIP, LEAST_MPS, USUAL_M
from svfm_ros.forecasting.forward import FREE_ENDS, HALF_KNOWN, HAZARDS
from svfm_ros.forecasting.free_walker import GOING
from svfm_ros.forecasting.habits import FAR_M, is_weekend, quarter_of
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = [
    "FieldHere",
    "HabitsNow",
    "TensorModel",
    "draw_index",
    "relative_move_of",
    "taken_up_of",
]


@dataclass(frozen=True, slots=True)
class HabitsNow:
    """Habits of B walkers, each at their hour of their day, by origin; the last origin stands for all walks."""

    shares: Tensor  # (B, C + 1, K)
    free: Tensor  # (B, C + 1)

    @property
    def choices(self) -> Tensor:
        """Probabilities (2, B, C + 1, 1 + K) of free walking and each field; 0: takes up a habit, 1: sets off."""
        free = self.free.unsqueeze(-1)
        joins = torch.cat([torch.zeros_like(free), self.shares], -1)
        return torch.stack([joins, torch.cat([free, (1.0 - free) * self.shares], -1)])


@dataclass(frozen=True, slots=True)
class FieldHere:
    """What ``field_here`` returns; all of one shape."""

    ux: Tensor
    uy: Tensor
    speed: Tensor
    support: Tensor
    spread: Tensor  # (..., 2), along and across
    offset: Tensor


class TensorModel:
    """A walk model on a device, in single precision; positions are relative to the model's origin."""

    def __init__(self, model: WalkModel, device: str) -> None:
        """Copy the model to the device."""
        self.model, self.device = model, torch.device(device)
        # The meta device, where tensors have shapes but no numbers, has no generator.
        self.generator = None if self.device.type == "meta" else torch.Generator(self.device)
        k, nx, ny, _ = model.tables.shape
        self._fields = self.put(model.tables[..., :HAZARDS]).reshape(k * nx * ny, HAZARDS)
        self.hazards = self.put(model.tables[..., HAZARDS:]).reshape(k * nx * ny, 4)
        at_node = model.tables[..., HAZARDS + 2 :].transpose(1, 2, 3, 0)  # the ends of all fields side by side
        self._all_ends = self.put(np.ascontiguousarray(at_node)).reshape(nx * ny, 2 * k)
        gains = model.steps.gains
        self._gains = self.put(np.column_stack([gains.along, gains.across]))  # (G, 5): p, q, q before, r, r before
        self._variances = self.put(np.column_stack([gains.along_var, gains.across_var]))  # (G, 2)
        self.ramp = self.put(np.column_stack([np.append(model.ramp, 1.0), np.append(model.steady, 1.0)]))
        self.set_off = self.put(model.set_off)
        self._net = {name: self.put(x) for name, x in model.free.arrays().items()}
        self._nu, self._ahead = self._net["nu"], self.put([1.0, 0.0])
        self._first_share = self.put(np.log([1.0] + [1e-30] * GOING))
        self._first_scale, self._first_nu = (float(x) for x in model.free.first)
        habits = model.habits
        self._origin_xy, self._shares, self._free = map(self.put, (habits.origin_xy, habits.shares, habits.free))
        self._base = self.put(habits.base)

    def seed(self, seed: int) -> None:
        """Begin all draws anew from a seed."""
        if self.generator is not None:
            self.generator.manual_seed(seed)

    def put(self, x: ArrayLike) -> Tensor:
        """Real numbers on the device."""
        return torch.as_tensor(np.asarray(x, dtype=np.float32), device=self.device)

    def put_whole(self, x: ArrayLike) -> Tensor:
        """Whole numbers on the device."""
        return torch.as_tensor(np.asarray(x, dtype=np.int64), device=self.device)

    def habits_at(self, hours: ArrayLike, days: ArrayLike) -> HabitsNow:
        """The habits of B walkers at local hours (B,) of days since 1970-01-01 (B,)."""
        cell = self.put_whole([quarter_of(h) for h in np.atleast_1d(hours)])
        kind = self.put_whole(is_weekend(np.atleast_1d(days)))
        shares = torch.cat([self._shares[:, kind, cell], self._base[cell].unsqueeze(0)])  # (C + 1, B, K)
        free = self._free[:, kind, cell]
        base_free = torch.full_like(free[:1], self.model.habits.base_free)
        return HabitsNow(shares.transpose(0, 1).contiguous(), torch.cat([free, base_free]).transpose(0, 1).contiguous())

    def origin_weights(self, xy: Tensor) -> Tensor:
        """What ``Habits.weights`` returns: (..., C + 1) for positions (..., 2)."""
        squared = (xy.unsqueeze(-2) - self._origin_xy).square().sum(-1)
        nearest = squared.amin(-1, keepdim=True)
        near = torch.exp(-0.5 * (squared - nearest) / self.model.habits.near_m**2)
        local = torch.exp(-math.log(2.0) * nearest / FAR_M**2)
        return torch.cat([near / near.sum(-1, keepdim=True) * local, 1.0 - local], -1)

    def _corner(self, xy: Tensor) -> tuple[Tensor, Tensor]:
        """The cell's four nodes (..., 4) as indices into one field's table, and their bilinear weights (..., 4)."""
        g = self.model.grid
        fx = ((xy[..., 0] - g.low_x) / g.cell_m).clamp(0.0, g.nx - 1.001)
        fy = ((xy[..., 1] - g.low_y) / g.cell_m).clamp(0.0, g.ny - 1.001)
        ix, iy = fx.long(), fy.long()
        ax, ay, first = fx - ix, fy - iy, ix * g.ny + iy
        nodes = torch.stack([first, first + 1, first + g.ny, first + g.ny + 1], -1)
        bx, by = 1.0 - ax, 1.0 - ay
        return nodes, torch.stack([bx * by, bx * ay, ax * by, ax * ay], -1)

    def look_up(self, table: Tensor, field: Tensor, xy: Tensor) -> Tensor:
        """Bilinear values (..., C) of a table (K * NX * NY, C) of fields (...,) at positions (..., 2)."""
        nodes, weights = self._corner(xy)
        g = self.model.grid
        rows = table[nodes + (field * (g.nx * g.ny)).unsqueeze(-1)]  # (..., 4, C)
        return (rows * weights.unsqueeze(-1)).sum(-2)

    def field_here(self, field: Tensor, xy: Tensor) -> FieldHere:
        """What fields (...,) hold at positions (..., 2); compare ``field_here`` of ``forward.py``."""
        vx, vy, support, along, across, middle_x, middle_y = self.look_up(self._fields, field, xy).unbind(-1)
        speed = torch.sqrt(vx * vx + vy * vy) + 1e-9
        ux, uy = vx / speed, vy / speed
        spread, offset = torch.stack([along, across], -1), uy * middle_x - ux * middle_y
        return FieldHere(ux, uy, speed.clamp(min=LEAST_MPS), support, spread, offset)

    def free_end(self, xy: Tensor, stood: Tensor) -> Tensor:
        """Probability (R,) that a free walk ends at (R, 2): that of the free walker, or half the fields' highest."""
        nodes, weights = self._corner(xy)
        each = (self._all_ends[nodes] * weights.unsqueeze(-1)).sum(-2)  # (R, 2 K)
        moving, still = (FREE_ENDS * each.reshape(len(xy), 2, self.model.components).amax(-1)).unbind(-1)
        s = self.model.switches
        return torch.where(stood, still.clamp(min=s.free_end_still), moving.clamp(min=s.free_end))

    def predict(
        self, state: Tensor, expected_m: Tensor, calm: Tensor, here: FieldHere, position_var: Tensor | float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centre and scale (..., 2) of y and z and degrees of freedom; compare ``predict``."""
        n = self.model.steps
        walks = n.prior_walks + here.support
        mean_too = (1.0 + 1.0 / walks) * calm * calm
        noise = (n.sensor_var + position_var) / (expected_m * expected_m)
        prior = torch.stack([torch.full_like(walks, n.prior_walks * p) for p in (n.prior_along, n.prior_across)], -1)
        relative = (prior + here.support.unsqueeze(-1) * here.spread) / walks.unsqueeze(-1)
        learnt = self._variances[state[..., 5].long().clamp(max=len(self._variances) - 1)]
        variance = relative * mean_too.unsqueeze(-1) * learnt + noise.unsqueeze(-1)
        p, q, q_before, r, r_before, _ = state.unbind(-1)
        centre_v = p + n.keep_pace * q - n.back_pace * q_before
        back = n.restore * here.offset * (expected_m / USUAL_M)
        centre_u = n.keep_direction * r - n.back_direction * r_before - back
        return torch.stack([centre_v, centre_u], -1), torch.sqrt(variance), n.nu + n.nu_per_walk * here.support

    def update(self, state: Tensor, relative: Tensor, centre: Tensor, scale: Tensor, stood: Tensor) -> Tensor:
        """The filters (..., KEPT) after a move; compare ``update``."""
        off = torch.maximum(torch.minimum(relative - centre, CLIP * scale), -CLIP * scale)
        g = self._gains[state[..., 5].long().clamp(max=len(self._gains) - 1)]
        p, q, _, r, _, count = state.unbind(-1)
        v, u = off.unbind(-1)
        c_v, c_u = centre.unbind(-1)
        pace = (p + g[..., 0] * v, c_v - p + g[..., 1] * v, q + g[..., 2] * v)
        moved = torch.stack([*pace, c_u + g[..., 3] * u, r + g[..., 4] * u, count + 1.0], -1)
        zero = torch.zeros_like(p)
        return torch.where(stood.unsqueeze(-1), torch.stack([p, zero, zero, zero, zero, count], -1), moved)

    def free_move(self, moves: Tensor, known: Tensor) -> tuple[NextMove, Tensor]:
        """The mixture of the next free move, and its degrees of freedom (..., 2); compare ``free_predict``."""
        found = next_move(self._net, moves, known)
        none = (known == 0)[..., None]
        nothing = none.unsqueeze(-1)
        expected = NextMove(
            torch.where(none, self._ahead, found.direction),
            torch.where(none, self._first_share, found.log_share),
            torch.where(nothing, 0.0, found.centre),
            torch.where(nothing, self._first_scale, found.scale),
        )
        return expected, torch.where(none, self._first_nu, self._nu)

    def uniform(self, *shape: int) -> Tensor:
        """Draws between 0 and 1."""
        return torch.rand(shape, generator=self.generator, device=self.device)

    def order(self, count: int) -> Tensor:
        """The numbers 0 to ``count`` - 1 in random order."""
        return self.uniform(count).argsort().to(torch.float32)

    def normal(self, *shape: int) -> Tensor:
        """Draws of a standard normal."""
        return torch.randn(shape, generator=self.generator, device=self.device)


def relative_move_of(move: Tensor, here: FieldHere, expected_m: Tensor) -> Tensor:
    """Y and z (..., 2) of a move; compare ``relative_move``."""
    along, across = (in_frame(move, torch.stack([here.ux, here.uy], -1)) / expected_m.unsqueeze(-1)).unbind(-1)
    return torch.stack([along - 1.0, across], -1)


def taken_up_of(walks: Tensor) -> Tensor:
    """Compare ``taken_up``."""
    return walks / (walks + HALF_KNOWN)


def draw_index(chances: Tensor, uniform: Tensor) -> Tensor:
    """Indices drawn with probabilities in proportion to ``chances`` (..., N) for uniform numbers (..., M)."""
    reached = chances.cumsum(-1)
    below = reached.unsqueeze(-2) <= (uniform * reached[..., -1:]).unsqueeze(-1)
    return below.sum(-1).clamp(max=chances.shape[-1] - 1)
