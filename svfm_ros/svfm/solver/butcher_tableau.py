"""Butcher tableau of dopri5 (Dormand and Prince 1980) and its dense output (Shampine 1986)."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["DENSE", "ERROR", "NODES", "STAGES", "Tableau", "tableau"]

NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
"""Times of the stages after the first one, from 0 to 1 within the step."""

_LAST = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)

STAGES: tuple[tuple[float, ...], ...] = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    _LAST,
)
"""Weights of the earlier stages in each stage's state. The last one is the next step's first."""

_FOURTH_ORDER = (1951 / 21600, 0.0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60)

ERROR = tuple(b - low for b, low in zip((*_LAST, 0.0), _FOURTH_ORDER, strict=True))
"""Weights of the difference between the fifth and the fourth order, the error estimate."""

_MIDDLE = (
    6025192743 / 30085553152 / 2,
    0.0,
    51252292925 / 65400821598 / 2,
    -2691868925 / 45128329728 / 2,
    187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2,
    11237099 / 235043384 / 2,
)


def _dense_weights() -> tuple[tuple[float, ...], ...]:
    first = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    final = first[::-1]
    rows = list(zip(first, final, (*_LAST, 0.0), _MIDDLE, strict=True))
    return (
        first,
        tuple(-4 * a + b - 5 * new + 16 * middle for a, b, new, middle in rows),
        tuple(5 * a - 3 * b + 14 * new - 32 * middle for a, b, new, middle in rows),
        tuple(-2 * a + 2 * b - 8 * new + 16 * middle for a, b, new, middle in rows),
    )


DENSE = _dense_weights()
"""Weights of x, x², x³, x⁴ ``(4, 7)``: the quartic with the step's two ends, their slopes and its middle."""


@dataclass(frozen=True, slots=True)
class Tableau:
    """The weights in one dtype on one device."""

    nodes: Tensor  # (6, 1), always float64, like time
    stages: tuple[Tensor, ...]  # vectors of 1 to 6 weights
    error: Tensor  # (7,)
    dense: Tensor  # (4, 7)


@lru_cache(maxsize=16)
def tableau(dtype: torch.dtype, device: torch.device) -> Tableau:
    """The weights for states of that dtype on that device."""
    with torch.inference_mode(False):
        return Tableau(
            nodes=torch.tensor(NODES, dtype=torch.float64, device=device).unsqueeze(1),
            stages=tuple(torch.tensor(row, dtype=dtype, device=device) for row in STAGES),
            error=torch.tensor(ERROR, dtype=dtype, device=device),
            dense=torch.tensor(DENSE, dtype=dtype, device=device),
        )
