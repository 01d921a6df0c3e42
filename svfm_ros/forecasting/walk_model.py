"""A model of one person's walks: the mixture of stochastic fields, and what walking adds to it.

A walk unfolds in steps of ``dt_s``. Its walker has a field in mind (where to go: from the gate, at the start and the
time of day), a pace of their own that stays, and noise along and across their way that keeps some of its value from
step to step. They may pause, change their mind (rarely), and they end the walk where walks end. Time of day enters
where it matters, in the choice; the fields themselves see the floor alone, so that few walks are enough to learn them.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.habits import CELLS
from svfm_ros.svfm.fields import FieldNet, FieldParams, StackedMLP

__all__ = ["FIRST_END", "ORIGINS", "Chain", "WalkModel"]

_DAY_H = 24.0
_END_UNITS = 16
_PACE_REACH = 2.4  # the grid of paces spans this many standard deviations to both sides
_REACH_M = 10.0  # floor to both sides of the middle, as long as no walks are known
_RAMP_S = 1.2  # people who start from rest are at full speed after this, seconds
_MAX_SPREAD, _FIRST_SPREAD = 0.35, 0.15
ORIGINS = 24
"""No more groups of starts than this have habits of their own."""
FIRST_END = -3.0
"""Logit of ending at any step, before training."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The numbers of the hidden chain that do not depend on where one is."""

    ramp: Tensor  # (R,), log of the share of their speed that walkers reach in each of their first steps
    steady: Tensor  # (R,), log of the share of the noise in these steps: people set off much alike
    pace: Tensor  # (G,), log of the pace of each grid value
    log_pace_weight: Tensor  # (G,)
    keep_v: Tensor  # (), correlation of the noise along the way from one step to the next
    keep_u: Tensor  # (), the same across
    begin_v: Tensor  # (), spread of the noise along in the first step; from there it grows to one
    begin_u: Tensor  # (), the same across
    pause: Tensor  # (), probability of pausing in the next step
    resume: Tensor  # (), probability of walking on after a step of a pause
    switch: float  # probability of choosing anew


class WalkModel(nn.Module):
    """Fields, gate, endings and chain; positions go in as metres."""

    shift: Tensor  # (2,), middle of the walks, metres
    low: Tensor  # (2,), lower left corner of the floor that walks covered, metres
    high: Tensor  # (2,), upper right corner
    habit_xy: Tensor  # (C, 2), where walks start, metres
    habit_walks: Tensor  # (C,), how many start there; 0 where the row is not in use
    habit_log: Tensor  # (C, CELLS, K), log of the share of each field by the hour

    def __init__(
        self, config: WalkModelConfig, dt_s: float, shift: tuple[float, float] = (0.0, 0.0), seed: int = 0
    ) -> None:
        super().__init__()
        if config.components < 1:
            raise DataError(f"expected a number of components, got {config.components}")
        if not 0.0 < dt_s < math.inf:
            raise DataError(f"expected a time step above 0, got {dt_s}")
        self.config, self.dt_s = config, float(dt_s)
        generator = torch.Generator().manual_seed(seed)
        k = config.components
        self.fields = FieldNet(self._field_config(), generator)
        self.ends = StackedMLP(k, [3, _END_UNITS, 1], "tanh", generator)
        self.log_pace_spread = nn.Parameter(torch.tensor(-2.0))
        self.raw_ramp = nn.Parameter(torch.full((max(1, round(_RAMP_S / dt_s)),), 2.0))
        self.raw_steady = nn.Parameter(torch.full_like(self.raw_ramp, 1.0))
        self.raw_keep = nn.Parameter(torch.tensor([0.5, 0.5]))  # along, across
        self.raw_begin = nn.Parameter(torch.tensor([2.0, 2.0]))  # along, across
        self.raw_pause = nn.Parameter(torch.tensor([-5.0, -1.0]))  # begin, leave
        self.register_buffer("shift", torch.tensor(shift, dtype=torch.float32))
        self.register_buffer("low", self.shift - _REACH_M)
        self.register_buffer("high", self.shift + _REACH_M)
        self.register_buffer("habit_xy", self.shift.repeat(ORIGINS, 1))
        self.register_buffer("habit_walks", torch.eye(1, ORIGINS)[0])  # until walks are known, one origin for all
        self.register_buffer("habit_log", torch.full((ORIGINS, CELLS, k), -math.log(k)))

    def _field_config(self) -> ModelConfig:
        c = self.config
        return ModelConfig(
            components=c.components,
            hidden_layers=c.hidden_layers,
            hidden_units=c.hidden_units,
            activation="tanh",
            max_speed=c.max_speed_mps / c.unit_m,
            max_log_spread=_MAX_SPREAD,
            first_log_spread=_FIRST_SPREAD,
        )

    def features(self, xy: Tensor) -> Tensor:
        """Metres (..., 2) to what networks see."""
        return (xy - self.shift) / self.config.unit_m

    def unit(self, xy: Tensor) -> FieldParams:
        """All K fields at positions (B, 2), in metres per second: params of leading shape (B, K)."""
        params: FieldParams = self.fields(self.features(xy))
        u, v = params.sigma_u, params.sigma_v
        if u is None or v is None:
            raise DataError("expected stochastic fields")
        return FieldParams(params.a.transpose(0, 1) * self.config.unit_m, u.T, v.T)

    def log_prior(self, xy: Tensor, hour: Tensor) -> Tensor:
        """Log pi (B, K) of where someone at positions (B, 2) goes at local hours (B,): the habits of nearby starts."""
        near = -0.5 * torch.cdist(xy, self.habit_xy).square() / self.config.near_m**2  # (B, C)
        near = torch.log_softmax(near.masked_fill(self.habit_walks == 0.0, -math.inf), dim=-1)
        cell = torch.floor(hour * (CELLS / _DAY_H)).long() % CELLS
        habits = self.habit_log[:, cell].transpose(0, 1)  # (B, C, K)
        return torch.logsumexp(near.unsqueeze(-1) + habits, dim=1)

    def end_logit(self, xy: Tensor, speed_mps: Tensor) -> Tensor:
        """Logit (B, K) of the walk ending at positions (B, 2) after a step at those speeds (B,)."""
        if not self.config.ends:
            return xy.new_full((len(xy), self.config.components), -30.0)
        x = torch.cat((self.features(xy), speed_mps.unsqueeze(-1)), dim=-1)
        out: Tensor = self.ends(x)[..., 0]
        return out.T + FIRST_END

    def chain(self) -> Chain:
        """Probabilities per step."""
        grid = torch.linspace(-_PACE_REACH, _PACE_REACH, self.config.paces, device=self.shift.device)
        if self.config.paces == 1:
            grid = torch.zeros_like(grid)
        keep, begin = torch.tanh(self.raw_keep), torch.sigmoid(self.raw_begin)
        pause = torch.sigmoid(self.raw_pause)
        switch = -math.expm1(-self.config.switch_per_s * self.dt_s)
        return Chain(
            ramp=logsigmoid(self.raw_ramp),
            steady=logsigmoid(self.raw_steady),
            pace=grid * torch.exp(self.log_pace_spread),
            log_pace_weight=torch.log_softmax(-0.5 * grid**2, dim=0),
            keep_v=keep[0],
            keep_u=keep[1],
            begin_v=begin[0],
            begin_u=begin[1],
            pause=pause[0],
            resume=pause[1],
            switch=switch,
        )
