"""Differential equations whose answer is known."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Problem:
    name: str
    field: Callable[[Tensor, Tensor], Tensor]
    h0: Tensor  # (B, D) at time 0
    horizon: float
    exact: Callable[[Tensor], Tensor]  # time (B,) or () -> states (B, D)

    def at(self, times: Tensor) -> Tensor:
        """Exact states (T, B, D) at times (T,)."""
        return torch.stack([self.exact(t) for t in times])

    def times(self, n: int = 2) -> Tensor:
        return torch.linspace(0.0, self.horizon, n, dtype=torch.float64)


class Oscillators:
    """x'' = -w² x, one w per row."""

    def __init__(self, w: Tensor) -> None:
        self.w = w

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        assert len(t) == len(h) == len(self.w)
        return torch.stack([h[:, 1], -(self.w**2) * h[:, 0]], dim=1)

    def take(self, rows: Tensor) -> "Oscillators":
        return Oscillators(self.w[rows])

    def exact(self, h0: Tensor, t: Tensor | float) -> Tensor:
        angle = self.w * t
        x = h0[:, 0] * torch.cos(angle) + h0[:, 1] / self.w * torch.sin(angle)
        v = -h0[:, 0] * self.w * torch.sin(angle) + h0[:, 1] * torch.cos(angle)
        return torch.stack([x, v], dim=1)


class PaidRows:
    """A field that counts the rows it was ever asked for, here and in its parts."""

    def __init__(self, field: Callable[[Tensor, Tensor], Tensor], count: list[int] | None = None) -> None:
        self.field, self.count = field, [0] if count is None else count

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        self.count[0] += len(h)
        return self.field(t, h)

    def take(self, rows: Tensor) -> "PaidRows":
        take = getattr(self.field, "take", None)
        return PaidRows(self.field if take is None else take(rows), self.count)


def decay(n: int = 5) -> Problem:
    h0 = torch.linspace(-2.0, 3.0, 2 * n, dtype=torch.float64).reshape(n, 2)
    return Problem("decay", lambda t, h: -h, h0, 4.0, lambda t: h0 * torch.exp(-t))


def logistic(n: int = 5) -> Problem:
    h0 = torch.linspace(0.02, 1.5, n, dtype=torch.float64)[:, None]
    return Problem("logistic", lambda t, h: h * (1 - h), h0, 6.0, lambda t: 1 / (1 + (1 / h0 - 1) * torch.exp(-t)))


def rotation(n: int = 5) -> Problem:
    """A turning plane whose rate changes: h' = cos(t) J h."""
    h0 = torch.stack([torch.linspace(0.5, 2.0, n), torch.zeros(n)], dim=1).double()

    def field(t: Tensor, h: Tensor) -> Tensor:
        return torch.cos(t)[:, None] * torch.stack([-h[:, 1], h[:, 0]], dim=1)

    def exact(t: Tensor) -> Tensor:
        c, s = torch.cos(torch.sin(t)), torch.sin(torch.sin(t))
        return h0 @ torch.stack([torch.stack([c, s]), torch.stack([-s, c])])

    return Problem("rotation", field, h0, 7.0, exact)


def oscillators(n: int = 5, slow: float = 0.3, fast: float = 4.0) -> Problem:
    w = torch.logspace(math.log10(slow), math.log10(fast), n, dtype=torch.float64)
    h0 = torch.stack([torch.ones(n), torch.linspace(-1, 1, n)], dim=1).double()
    field = Oscillators(w)
    return Problem("oscillators", field, h0, 3.0, lambda t: field.exact(h0, t))


def forced(n: int = 5) -> Problem:
    """h' = -h + sin(3 t): a field of time and state."""
    h0 = torch.linspace(-1, 1, n, dtype=torch.float64)[:, None]

    def particular(t: Tensor) -> Tensor:
        return (torch.sin(3 * t) - 3 * torch.cos(3 * t)) / 10

    def exact(t: Tensor) -> Tensor:
        zero = torch.zeros((), dtype=torch.float64)
        return particular(t) + (h0 - particular(zero)) * torch.exp(-t)

    return Problem("forced", lambda t, h: torch.sin(3 * t)[:, None] - h, h0, 5.0, exact)


def all_problems() -> list[Problem]:
    return [decay(), logistic(), rotation(), oscillators(), forced()]
