"""A walk model as tables and plain numbers, and what the steps of a walk say under it. No torch in here.

Loading torch takes seconds; a live forecast that starts again after a crash cannot wait for it. ``seeing`` has the same
with networks, ``pathlik`` says what the terms mean; tests hold the two against each other.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.forecasting.field_tables import FieldTable
from svfm_ros.forecasting.hidden_chain import CLIP, NOT_YET, HiddenChain
from svfm_ros.forecasting.posterior import SeenSteps, check_positions

__all__ = ["TabledModel", "see_in_table"]

Array = NDArray[np.float64]

_TINY = 1e-12
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True)
class TabledModel:
    """All that a forecast needs of a model."""

    config: WalkModelConfig
    dt_s: float
    chain: HiddenChain
    table: FieldTable


def see_in_table(model: TabledModel, xy: Array) -> SeenSteps:
    """What the moves between positions ``xy`` (T, 2) say, T at least 2."""
    check_positions(xy)
    move = np.diff(xy, axis=0)  # (I, 2)
    log_move, eps_v, eps_u = _moves(model, xy[:-1], move)
    length = np.linalg.norm(move, axis=1)
    still_m = model.config.still_m
    log_still = -0.5 * (length / still_m) ** 2 - 2.0 * np.log(still_m) - _LOG_2PI  # (I,)
    log_on = _log_goes_on(model, xy[1:], length / model.dt_s)  # (I, K)
    says = np.stack([log_move, np.broadcast_to(log_still[:, None, None], log_move.shape)], axis=1)
    says = np.ascontiguousarray(says + log_on[:, None, :, None])  # (I, 2, K, G)
    return SeenSteps(xy, says, eps_v[-1].clip(-CLIP, CLIP), eps_u[-1].clip(-CLIP, CLIP))


def _looked_up(model: TabledModel, xy: Array) -> NDArray[np.float32]:
    """What every field says at positions (I, 2): (I, K, 10)."""
    k = model.table.shape[0]
    x, y = (np.repeat(xy[:, i].astype(np.float32), k) for i in (0, 1))
    return model.table.look_up(x, y, np.tile(np.arange(k), len(xy))).reshape(len(xy), k, -1)


def _moves(model: TabledModel, start: Array, move: Array) -> tuple[Array, Array, Array]:
    """Log density and standardised noise of the moves (I, 2): (I, K, G) each."""
    chain, rows = model.chain, _looked_up(model, start).astype(float)
    speed = np.sqrt((rows[..., :2] ** 2).sum(-1) + _TINY)  # (I, K)
    u = rows[..., :2] / speed[..., None]
    ramp, steady = (_in_first_steps(x, len(move)) for x in (chain.ramp, chain.steady))
    m = model.dt_s * speed[..., None] * np.exp(chain.log_pace) * ramp  # (I, K, G)
    along = (move[:, None] * u).sum(-1)[..., None]
    across = (move[:, None, 1] * u[..., 0] - move[:, None, 0] * u[..., 1])[..., None]
    floor = 2.0 * model.config.sensor_m**2
    var_u, var_v = (((m * rows[..., i, None]) ** 2 + floor) * steady**2 for i in (2, 3))
    eps_v, eps_u = (along - m) / np.sqrt(var_v), across / np.sqrt(var_u)
    log_p = (
        _kept(eps_v, chain.keep[0], chain.begin[0])
        + _kept(eps_u, chain.keep[1], chain.begin[1])
        - 0.5 * np.log(var_v * var_u)
        - _LOG_2PI
    )
    return log_p, eps_v, eps_u


def _in_first_steps(shares: NDArray[np.float32], moves: int) -> Array:
    """Shares (R,) of the first moves, one afterwards: (I, 1, 1)."""
    out = np.ones(moves)
    out[: len(shares)] = shares[:moves]
    return out[:, None, None]


def _kept(eps: Array, keep: float, begin: float) -> Array:
    """Log density of noise (I, K, G) that keeps part of its value from step to step, up to its 2 pi."""
    before = np.zeros_like(eps)
    before[1:] = eps[:-1].clip(-CLIP, CLIP)
    rest = np.full((len(eps), 1, 1), 1.0 - keep**2)
    rest[0] = begin**2
    return np.asarray(-0.5 * ((eps - keep * before) ** 2 / rest + np.log(rest)))


def _log_goes_on(model: TabledModel, there: Array, speed_mps: Array) -> Array:
    """Log of the probability (I, K) that the walk did not end after each move."""
    rows = _looked_up(model, there)
    k = rows.shape[1]
    logit = FieldTable.end_logit(rows.reshape(-1, rows.shape[-1]), np.repeat(speed_mps, k).astype(np.float32))
    logit = logit.astype(float).reshape(len(there), k)
    logit[: len(model.chain.ramp)] += NOT_YET
    return -np.logaddexp(0.0, logit)
