"""Where people go by the hour, from few walks: habits that hold for a while and change at some hours of the day.

The day is a circle of quarters of an hour. Between changes habits are constant: each origin has shares of its own,
drawn from a Dirichlet distribution around what is expected there. When habits change is a matter of the person's day,
so the hours are the same for all origins. All ways to cut the circle are summed over exactly (a forward and a backward
recursion over the place of the last change), weighed by how well the walks of each piece go together
(Dirichlet-multinomial evidence). How often habits change and how far they are from what is expected are weighed by the
same evidence.

The mean is sharp where walks show a change, flat where they do not, and never zero. ``draw`` gives habits from the
posterior: what may be true besides the mean.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.forecasting.fit.usual_numbers import RHYTHM, Population
from svfm_ros.forecasting.habits import CELLS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HourPosterior", "counts_by_hour", "fit_hours"]

Array = NDArray[np.float64]

_CHANGES = (1.0, 3.0, 8.0)  # a day, on average
_CONCENTRATIONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)  # how many walks the expected shares count for in each piece


def counts_by_hour(
    hours: ArrayLike, origin: NDArray[np.int64], choice: ArrayLike, origins: int, cells: int = CELLS
) -> Array:
    """Choices (N, K) counted by piece of the day and origin, (cells, origins, K); hours (N,) are local."""
    hour, chosen = np.asarray(hours, dtype=float), np.asarray(choice, dtype=float)
    if hour.ndim != 1 or chosen.ndim != 2 or len(chosen) != len(hour) or len(origin) != len(hour):
        raise DataError(
            f"expected hours (N,), origins (N,), choices (N, K), got {hour.shape}, {np.shape(origin)}, {chosen.shape}"
        )
    counts = np.zeros((cells, origins, chosen.shape[1]))
    np.add.at(counts, (np.floor(hour / 24.0 * cells).astype(np.int64) % cells, origin), chosen)
    return counts


@dataclass(frozen=True, slots=True)
class _Cut:
    """Recursions over all ways to cut the circle, for one rate of changes and one concentration."""

    log_z: float
    never: float  # log probability of no change at all, not normalised
    inner: Array  # (n, n + 1), of each piece with a change at its end
    last: Array  # (s, p), of the piece from p on that leads back to the first change s
    ahead: Array  # (s, p): all up to a change at p
    behind: Array  # (s, p): all from a change at p on


@dataclass(frozen=True, slots=True)
class HourPosterior:
    """Shares of K choices by piece of the day for O origins, given the walks."""

    counts: Array  # (cells, O, K)
    base: Array  # (cells, O, K), what is expected
    raw: Array  # (G, 2), logarithms of the rate of changes and of the concentration
    weights: Array  # (G,), posterior of each pair of rate and concentration
    cuts: "tuple[_Cut, ...]"  # (G,)
    mean: Array  # (O, cells, K)

    @property
    def rhythm(self) -> dict[str, float]:
        """Posterior means of the numbers that homes share a prior over."""
        return dict(zip(RHYTHM, (self.weights @ self.raw).tolist(), strict=True))

    def draw(self, rng: np.random.Generator) -> Array:
        """Habits from the posterior (O, cells, K)."""
        g = int(rng.choice(len(self.weights), p=self.weights))
        cells, origins, fields = self.counts.shape
        out = np.empty((origins, cells, fields))
        for first, length in _draw_pieces(self.cuts[g], rng):
            where = (first + np.arange(length)) % cells
            alpha = math.exp(self.raw[g, 1]) * self.base[where].mean(0)
            gamma = rng.standard_gamma(self.counts[where].sum(0) + alpha) + 1e-300
            out[:, where] = (gamma / gamma.sum(1, keepdims=True))[:, None]
        return out


def fit_hours(counts: Array, base: Array, population: Population | None = None) -> HourPosterior:
    """The posterior of habits from counts (cells, O, K) and what is expected (cells, O, K), whose shares count.

    ``population`` says how often habits change in a day, and how far they are from what is expected, in other homes.
    """
    if base.shape != counts.shape:
        raise DataError(f"expected a base of the shape of the counts {counts.shape}, got {base.shape}")
    base = base / base.sum(-1, keepdims=True)
    pieces = _pieces(counts)  # (cells, cells + 1, O, K)
    around = _pieces(base) / np.maximum(np.arange(len(counts) + 1), 1)[:, None, None]
    grid = [(rate, strength) for strength in _CONCENTRATIONS for rate in _CHANGES]
    evidence = {strength: _evidence(pieces, strength * around, strength) for strength in _CONCENTRATIONS}
    cuts = tuple(_cut(evidence[strength], rate / len(counts)) for rate, strength in grid)
    raw = np.log(np.array(grid))  # (G, 2), in the order of RHYTHM
    log_z = np.array([cut.log_z for cut in cuts]) + _log_prior(raw, population or {})
    weight = np.exp(log_z - log_z.max())
    weight /= weight.sum()
    total = pieces.sum(-1, keepdims=True)
    mean = np.zeros(counts.shape)
    for strength in _CONCENTRATIONS:
        mine = [g for g, (_, s) in enumerate(grid) if s == strength]
        each: Array = np.asarray(sum(weight[g] * _piece_weights(cuts[g]) for g in mine))
        mean += _mean(each, (pieces + strength * around) / (total + strength))
    mean /= mean.sum(-1, keepdims=True)
    return HourPosterior(counts, base, raw, weight, cuts, np.ascontiguousarray(mean.transpose(1, 0, 2)))


def _log_prior(raw: Array, population: Population) -> Array:
    """Log probability (G,) of each pair of numbers (G, 2) in a population, up to a constant."""
    total = np.zeros(len(raw))
    for column, name in enumerate(RHYTHM):
        if name in population:
            mean, precision = population[name]
            total -= 0.5 * precision * (raw[:, column] - mean) ** 2
    return total


def _pieces(counts: Array) -> Array:
    """How often each choice was made in every piece of the circle: by its first cell and its length."""
    running = np.concatenate([np.zeros((1, *counts.shape[1:])), np.cumsum(np.concatenate([counts, counts]), axis=0)])
    first, length = np.ix_(np.arange(len(counts)), np.arange(len(counts) + 1))
    return np.asarray(running[first + length] - running[first])


def _evidence(pieces: Array, alpha: Array, strength: float) -> Array:
    """Log probability (cells, cells + 1) of the choices of each piece, the habits of all origins unknown."""
    from scipy.special import gammaln  # slow to load, and forecasts do without it

    seen = pieces > 0.0  # most choices of most pieces were never made, and logarithms of the gamma function are slow
    each = np.zeros(pieces.shape)
    each[seen] = gammaln(pieces[seen] + alpha[seen]) - gammaln(alpha[seen])
    return np.asarray((gammaln(strength) - gammaln(strength + pieces.sum(-1)) + each.sum(-1)).sum(-1))


def _cut(evidence: Array, rate: float) -> _Cut:
    """Recursions over the pieces of the circle.

    Each border between cells is a change with probability ``rate``. ``s`` is the first change of the day; pieces go on
    from there, and the last one passes midnight back to it.
    """
    n = len(evidence)
    change, none = np.log(rate), np.log1p(-rate)
    inner = evidence + none * (np.arange(n + 1) - 1.0) + change  # a piece with a change at its end
    s, p = np.ix_(np.arange(n), np.arange(n))
    last = np.where(p >= s, evidence[p, np.minimum(s + n - p, n)] + none * (n - 1.0 - p), -np.inf)  # (s, p)
    ahead = np.full((n, n), -np.inf)
    ahead[np.arange(n), np.arange(n)] = change + none * np.arange(n)
    behind = last.copy()
    _recursions(inner, ahead, behind)
    never = float(evidence[0, n] + n * none)
    log_z = float(np.logaddexp(never, np.logaddexp.reduce(np.diagonal(ahead) + np.diagonal(behind))))
    return _Cut(log_z, never, inner, last, ahead, behind)


@kernel
def _recursions(inner, ahead, behind):  # type: ignore[no-untyped-def]
    """Add all pieces between changes to ``ahead`` (s, p) and ``behind`` (s, p), which hold those without any."""
    n = len(inner)
    for s in range(n):
        for q in range(s + 1, n):
            high = -np.inf
            for p in range(s, q):
                high = max(high, ahead[s, p] + inner[p, q - p])
            total = 0.0
            for p in range(s, q):
                total += math.exp(ahead[s, p] + inner[p, q - p] - high)
            ahead[s, q] = high + math.log(total)
        for p in range(n - 2, s - 1, -1):
            high = behind[s, p]
            for q in range(p + 1, n):
                high = max(high, inner[p, q - p] + behind[s, q])
            total = math.exp(behind[s, p] - high)
            for q in range(p + 1, n):
                total += math.exp(inner[p, q - p] + behind[s, q] - high)
            behind[s, p] = high + math.log(total)


def _piece_weights(cut: _Cut) -> Array:
    """Probability of every piece to be one between two changes (cells, cells + 1)."""
    n = len(cut.inner)
    weight = np.zeros((n, n + 1))
    weight[0, n] = np.exp(cut.never - cut.log_z)
    _weigh(cut.inner, cut.last, cut.ahead, cut.behind, cut.log_z, weight)
    return weight


@kernel
def _weigh(inner, last, ahead, behind, log_z, weight):  # type: ignore[no-untyped-def]
    """Add the probabilities of pieces that end before midnight, and of those that lead back to the first change."""
    n = len(inner)
    for s in range(n):
        for p in range(s, n):
            for q in range(p + 1, n):
                weight[p, q - p] += math.exp(ahead[s, p] + inner[p, q - p] + behind[s, q] - log_z)
            weight[p, s + n - p] += math.exp(ahead[s, p] + last[s, p] - log_z)


def _draw_pieces(cut: _Cut, rng: np.random.Generator) -> "Sequence[tuple[int, int]]":
    """First cell and length of the pieces of one way to cut the circle, drawn from the posterior."""
    n = len(cut.inner)
    first = np.append(np.diagonal(cut.ahead) + np.diagonal(cut.behind), cut.never) - cut.log_z
    s = int(rng.choice(n + 1, p=_normalised(first)))
    if s == n:
        return [(0, n)]
    found, p = [], s
    while True:
        after = np.arange(p + 1, n)
        options = np.append(cut.inner[p, after - p] + cut.behind[s, after], cut.last[s, p])
        pick = int(rng.choice(len(options), p=_normalised(options)))
        if pick == len(after):
            found.append((p, s + n - p))
            return found
        found.append((p, int(after[pick]) - p))
        p = int(after[pick])


def _normalised(log_p: Array) -> Array:
    p = np.exp(log_p - log_p.max())
    return np.asarray(p / p.sum())


def _mean(weight: Array, shares: Array) -> Array:
    """Shares of each cell (cells, ...): those of the pieces (cells, cells + 1, ...) that hold it, weighed."""
    n = len(weight)
    edges = np.zeros((2 * n + 1, *shares.shape[2:]))
    for length in range(1, n + 1):
        value = weight[:, length].reshape(-1, *[1] * (shares.ndim - 2)) * shares[:, length]
        edges[:n] += value
        edges[length : n + length] -= value
    summed = np.cumsum(edges, axis=0)[:-1]
    return np.asarray(np.maximum(summed[:n] + summed[n:], 0.0))
