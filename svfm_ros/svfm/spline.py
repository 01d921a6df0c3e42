"""Cubic splines through recorded positions, with the not-a-knot ends of the paper (FLoss, eq. 11)."""

import torch
from torch import Tensor

from svfm_ros.errors import DataError

__all__ = ["CubicSpline"]


class CubicSpline:
    """The not-a-knot cubic through ``values (..., N, D)`` at ``times (N,)`` or ``(..., N)``.

    Gradients flow to the values. Two knots give a line and three a parabola. Before the first and after the last knot
    the end pieces go on.
    """

    def __init__(self, times: Tensor, values: Tensor) -> None:
        _check(times, values)
        self._times = times.to(values.dtype).expand(values.shape[:-1])  # (..., N)
        self._values = values
        gaps = self._times.diff(dim=-1).unsqueeze(-1)  # (..., N - 1, 1)
        rises = values.diff(dim=-2) / gaps  # (..., N - 1, D)
        self._slopes = _slopes(gaps, rises)  # (..., N, D)

    def __call__(self, times: Tensor) -> Tensor:
        """Positions ``(..., M, D)`` at times ``(M,)`` or ``(..., M)``."""
        x, gap, start, end, start_slope, end_slope = self._pieces(times)
        rise = end - start
        bend = gap * (start_slope + end_slope) - 2 * rise
        return start + x * (gap * start_slope + x * (rise - gap * start_slope - bend + x * bend))

    def velocity(self, times: Tensor) -> Tensor:
        """Derivative by time ``(..., M, D)``."""
        x, gap, start, end, start_slope, end_slope = self._pieces(times)
        rise = (end - start) / gap
        bend = start_slope + end_slope - 2 * rise
        return start_slope + x * (2 * (rise - start_slope - bend) + 3 * x * bend)

    def _pieces(self, times: Tensor) -> tuple[Tensor, ...]:
        """Place in the piece from 0 to 1, its length, and values and slopes at its two ends."""
        if times.ndim < 1 or not bool(times.isfinite().all()):
            raise DataError(f"times: expected finite times (M,) or (..., M), got shape {tuple(times.shape)}")
        asked = times.to(self._times).expand(*self._times.shape[:-1], times.shape[-1]).contiguous()
        knots = self._times.contiguous()
        piece = (torch.searchsorted(knots, asked, right=True) - 1).clamp(0, knots.shape[-1] - 2)  # (..., M)
        before, gap = knots.gather(-1, piece), knots.diff(dim=-1).gather(-1, piece)
        x = ((asked - before) / gap).unsqueeze(-1)
        index = piece.unsqueeze(-1).expand(*piece.shape, self._values.shape[-1])
        ends = [a.gather(-2, i) for a in (self._values, self._slopes) for i in (index, index + 1)]
        return (x, gap.unsqueeze(-1), *ends)


def _slopes(gaps: Tensor, rises: Tensor) -> Tensor:
    """Slopes at the knots, from the lengths and mean slopes of the pieces."""
    if rises.shape[-2] == 1:
        return torch.cat([rises, rises], dim=-2)
    if rises.shape[-2] == 2:
        return _parabola(gaps, rises)
    return _solve_tridiagonal(*_not_a_knot(gaps, rises))


def _parabola(gaps: Tensor, rises: Tensor) -> Tensor:
    (g0, g1), (r0, r1) = gaps.unbind(-2), rises.unbind(-2)
    bend = (r1 - r0) / (g0 + g1)
    return torch.stack([r0 - g0 * bend, r0 + g0 * bend, r1 + g1 * bend], dim=-2)


def _not_a_knot(gaps: Tensor, rises: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
    """Lower, middle and upper diagonal and right side, one entry per knot.

    Second derivatives agree at the inner knots, third ones at the second and the last but one.
    """
    g, r = gaps.unbind(-2), rises.unbind(-2)
    n, first, last = len(g), g[0] + g[1], g[-2] + g[-1]
    inner = range(1, n)
    lower = [g[0], *(g[i] for i in inner), last]
    middle = [g[1], *(2 * (g[i - 1] + g[i]) for i in inner), g[-2]]
    upper = [first, *(g[i - 1] for i in inner), g[-1]]
    right = [3 * (g[i] * r[i - 1] + g[i - 1] * r[i]) for i in inner]
    at_start = ((g[0] + 2 * first) * g[1] * r[0] + g[0] ** 2 * r[1]) / first
    at_end = (g[-1] ** 2 * r[-2] + (2 * last + g[-1]) * g[-2] * r[-1]) / last
    return lower, middle, upper, [at_start, *right, at_end]


def _solve_tridiagonal(lower: list[Tensor], middle: list[Tensor], upper: list[Tensor], right: list[Tensor]) -> Tensor:
    """Elimination without pivots, which is safe here: after the first row the middle always outweighs the upper."""
    factors, sides = [upper[0] / middle[0]], [right[0] / middle[0]]
    for i in range(1, len(middle)):
        scale = 1.0 / (middle[i] - lower[i] * factors[-1])
        factors.append(upper[i] * scale)
        sides.append((right[i] - lower[i] * sides[-1]) * scale)
    found = [sides[-1]]
    for factor, side in zip(reversed(factors[:-1]), reversed(sides[:-1]), strict=True):
        found.append(side - factor * found[-1])
    return torch.stack(found[::-1], dim=-2)


def _check(times: Tensor, values: Tensor) -> None:
    if values.ndim < 2 or not values.is_floating_point() or values.shape[-2] < 2:
        raise DataError(
            f"values: expected floats (..., N, D) with N at least 2, got {tuple(values.shape)} {values.dtype}"
        )
    if times.ndim < 1 or times.shape not in (values.shape[-2:-1], values.shape[:-1]):
        raise DataError(
            f"times: expected ({values.shape[-2]},) or {tuple(values.shape[:-1])}, got {tuple(times.shape)}"
        )
    if not (bool(values.detach().isfinite().all()) and bool(times.isfinite().all())):
        raise DataError("expected finite times and values, got NaN or infinity")
    if not bool((times.diff(dim=-1) > 0).all()):
        raise DataError("times: expected times that rise from knot to knot, got some that do not")
