"""Learn the free walker from many people's tracks, and adapt it to one home.

The population's network is the start and the prior: its weights come with the precision that the population's tracks
give them (diagonal Fisher information), so few local walks move only what they have something to say about.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.forecasting.batched.free_walker_torch import (
    in_frame,
    move_log_densities,
    next_move,
    part_log_densities,
    student_log_densities,
    way_back,
)
from svfm_ros.forecasting.free_walker import FEATURES, GOING, HIDDEN, MEMORY, OUTPUTS, FreeWalker, FreeWalkerPrior

__all__ = ["WalkerStatistics", "adapt", "learn_prior", "pooled_prior", "walker_statistics", "with_sway"]

Array = NDArray[np.float64]

_NAMES = ("w1", "b1", "w2", "b2", "w3", "b3", "log_nu")
_JITTER_M = 0.003
_BATCH = 8192
_GROUPS = 400  # of moves whose gradients say how much is known of each weight
_LEAST_NU = 2.5  # below, sampled moves would be metres long now and then
_FIRST_OUTPUTS = [0.0] * 5 + [0.0, 0.0, 0.8, 0.8, -1.0] * (GOING - 1) + [-2.0, 0.0]
"""Outputs before training: one part goes on steadily, others are wider and rarer, few stand."""
_NEAR_M = 0.5  # someone who was within this distance of one position for ``_REST_TICKS`` stands there
_REST_TICKS = 8  # slow walkers are within it for some ticks, too
_USUAL_SET_OFF, _USUAL_TICKS = 0.06, 25.0
"""Setting off per tick of someone who stands: the middle of six public scenes (0.01 to 0.10), and the ticks of standing
that it counts for beside a home's own."""
_NO_SWAY_MOVES = 20.0  # of someone who stands without noise of their positions, counted beside a home's own moves
_SWAY_ROUNDS = 8
_MOST_LOCAL = 20_000  # moves used to adapt: more say nothing new


@dataclass(frozen=True, slots=True)
class _Samples:
    """Contexts and what followed; M moves."""

    past: Tensor  # (M, MEMORY, 2), the last moves, newest first, metres
    known: Tensor  # (M,), how many of them are known
    move: Tensor  # (M, 2), the next move
    weight: Tensor  # (M,)


def _samples(tracks: Sequence[Array], weights: Sequence[float], rng: np.random.Generator, drop: float) -> _Samples:
    """Every move of every track; contexts are cut short at random with probability ``drop``, half of them mirrored."""
    past, known, move, weight = [], [], [], []
    for xy, w in zip(tracks, weights, strict=True):
        track = np.asarray(xy) + _JITTER_M * rng.standard_normal(np.shape(xy)) * (drop > 0.0)
        moves = np.diff(track, axis=0)
        if drop > 0.0 and rng.random() < 0.5:
            moves = moves * np.array([1.0, -1.0])
        if len(moves) < 2:
            continue
        index = np.arange(1, len(moves))
        padded = np.concatenate([np.zeros((MEMORY, 2)), moves])
        past.append(padded[index[:, None] + MEMORY - 1 - np.arange(MEMORY)])  # (I - 1, MEMORY, 2)
        known.append(np.minimum(index, MEMORY))
        move.append(moves[1:])
        weight.append(np.full(len(index), w))
    count = np.concatenate(known)
    if drop > 0.0:
        cut = rng.random(len(count)) < drop
        count = np.where(cut, rng.integers(1, count + 1), count)
    columns = (np.concatenate(x) for x in (past, move, weight))
    contexts, following, weighted = (torch.as_tensor(x, dtype=torch.float32) for x in columns)
    return _Samples(contexts, torch.as_tensor(count), following, weighted)


def _log_density(w: dict[str, Tensor], s: _Samples) -> Tensor:
    """Log density (M,) of the next moves."""
    return move_log_densities(next_move(w, s.past, s.known), s.move, _LEAST_NU + torch.exp(w["log_nu"]))


def _first_move(tracks: Sequence[Array]) -> Array:
    """Scale and degrees of freedom of a move about which nothing is known, by maximum likelihood over a grid."""
    length2 = np.array([np.sum((xy[1] - xy[0]) ** 2) for xy in tracks if len(xy) > 1])
    scales, nus = np.geomspace(0.01, 1.0, 60), np.array([2.5, 4.0, 10.0, 50.0])
    s2 = scales[:, None, None] ** 2
    # along and across are two independent Student-t; the direction is unknown, so the mean square stands for both
    z2 = 0.5 * length2[None, None] / s2
    nu = nus[None, :, None]
    from scipy.special import gammaln

    log_p = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi) - 0.5 * (nu + 1) * np.log1p(z2 / nu)
    total = (2.0 * log_p - np.log(s2)).mean(-1)
    i, j = np.unravel_index(int(np.argmax(total)), total.shape)
    return np.array([scales[i], nus[j]])


def _rests(tracks: Sequence[Array]) -> tuple[int, int]:
    """How often people who stood somewhere left that position, and for how many ticks they stood."""
    left, stood = 0, 0
    for xy in tracks:
        began, here = 0, xy[0]
        for i in range(1, len(xy)):
            ticks = i - began
            if np.hypot(*(xy[i] - here)) > _NEAR_M:
                left += ticks > _REST_TICKS
                began, here = i, xy[i]
            else:
                stood += ticks >= _REST_TICKS
    return left, stood


def _set_off(left: float, stood: float, usual: float = _USUAL_SET_OFF) -> Array:
    """Probability per tick (1,) that someone who stands sets off."""
    return np.array([(left + _USUAL_TICKS * usual) / (stood + _USUAL_TICKS)])


def with_sway(free: FreeWalker, tracks: Sequence[Array]) -> FreeWalker:
    """The free walker with the share of the way back that those who stand in these tracks (T, 2) lead.

    Expectation maximisation: each move counts with the probability that its walker stands, and less in the tails.
    """
    several = [t for t in tracks if len(t) > 2]
    if not several:
        return free
    samples = _samples(several, [1.0] * len(several), np.random.default_rng(0), 0.0)
    w = {name: torch.as_tensor(x, dtype=torch.float32) for name, x in _weights(free).items()}
    nu, expected = _LEAST_NU + torch.exp(w["log_nu"]), next_move(w, samples.past, samples.known)
    going = part_log_densities(expected, samples.move, nu) + expected.log_share
    log_odds = expected.log_share[:, GOING] - torch.logsumexp(going[:, :GOING], -1)
    back = in_frame(way_back(samples.past, samples.known), expected.direction)
    move, scale = in_frame(samples.move, expected.direction), expected.scale[:, GOING]
    widths = []
    for most in (0.0, 1.0):
        share, width = torch.zeros(()), torch.ones(())
        for _ in range(_SWAY_ROUNDS):
            z = (move - share * back) / (width * scale)
            log_p = student_log_densities(z, nu).sum(-1) - torch.log(width * scale).sum(-1)
            stands = torch.sigmoid(log_p + log_odds).unsqueeze(-1)
            weight = stands * (nu + 1.0) / (nu + z.square()) / scale.square()
            pull = (weight * back.square()).sum() + _NO_SWAY_MOVES
            share = ((weight * move * back).sum() / pull).clamp(0.0, most)
            off = (weight * (move - share * back).square()).sum()
            width = torch.sqrt((off + 2.0 * _NO_SWAY_MOVES) / (2.0 * stands.sum() + 2.0 * _NO_SWAY_MOVES))
        widths.append(float(width))
    return replace(free, sway=np.array([float(share), min(widths[1] / widths[0], 1.0)]))


def learn_prior(scenes: Sequence[Sequence[Array]], steps: int = 3000, seed: int = 0) -> FreeWalkerPrior:
    """The population's free walker from tracks (T, 2) on ticks of 0.4 s; every scene weighs the same."""
    rng = np.random.default_rng(seed)
    tracks = [t for scene in scenes for t in scene]
    sizes = [max(sum(len(t) for t in scene), 1) for scene in scenes]
    weights = [float(np.mean(sizes)) / size for scene, size in zip(scenes, sizes, strict=True) for _ in scene]
    w = _fresh(torch.Generator().manual_seed(seed))
    adam = _Adam(list(w.values()), 6e-3, steps)
    generator = torch.Generator().manual_seed(seed)
    samples = None
    for step in range(steps):
        if step % 250 == 0:
            samples = _samples(tracks, weights, rng, 0.4)
        assert samples is not None
        pick = torch.randint(len(samples.known), (min(_BATCH, len(samples.known)),), generator=generator)
        loss = -(_log_density(w, _some(samples, pick)) * samples.weight[pick]).mean()
        adam.step(loss)
    clean = _samples(tracks, weights, rng, 0.0)
    rate = float(np.median([_set_off(*_rests(scene))[0] for scene in scenes]))
    free = _as_free(w, _first_move(tracks), np.array([rate]))
    return FreeWalkerPrior(free, _fisher(w, clean))


def adapt(
    prior: FreeWalkerPrior, tracks: Sequence[Array], strength: float, steps: int = 160, seed: int = 0
) -> FreeWalker:
    """The free walker of one home: the prior's weights moved by local tracks (T, 2).

    ``strength`` is how many moves of the population the prior counts for.
    """
    rng = np.random.default_rng(seed)
    longest = [t for t in tracks if len(t) > 2]
    if not longest:
        return prior.free
    order = rng.permutation(len(longest))
    chosen, moves = [], 0
    for i in order:
        chosen.append(longest[i])
        moves += len(longest[i])
        if moves > _MOST_LOCAL:
            break
    torch.manual_seed(seed)
    centre = {name: torch.as_tensor(x, dtype=torch.float32) for name, x in _weights(prior.free).items()}
    precision = {name: torch.as_tensor(prior.precision[name], dtype=torch.float32) for name in _NAMES}
    w = {name: x.clone().requires_grad_(True) for name, x in centre.items()}
    samples = _samples(chosen, [1.0] * len(chosen), rng, 0.3)
    adam = _Adam(list(w.values()), 8e-3, steps)
    count = len(samples.known)
    for _ in range(steps):
        pick = torch.randint(count, (min(4096, count),))
        fit = -_log_density(w, _some(samples, pick)).mean()
        away = sum(((w[n] - centre[n]).square() * (precision[n] + 0.02)).sum() for n in _NAMES)
        adam.step(fit + 0.5 * strength / count * away)
    free = _as_free(w, _first_move(chosen), _set_off(*_rests(chosen), float(prior.free.set_off[0])))
    return with_sway(free, chosen)


@dataclass(frozen=True, slots=True)
class WalkerStatistics:
    """What homes say about the population's free walker; the statistics of several homes are added up.

    The log density of a home's moves is quadratic around its own weights, with the Fisher information as curvature. A
    sum of such parabolas is one more, given by the sums of information and of information times weights.
    """

    information: dict[str, Array]  # by the names of the weights, over all moves
    weighted: dict[str, Array]  # information times weights
    first: Array  # (2,), scale and degrees of freedom of a first move, times moves
    rests: Array  # (2,), how often people who stood left, and ticks of standing
    moves: int

    def __add__(self, other: "WalkerStatistics") -> "WalkerStatistics":
        return WalkerStatistics(
            {name: x + other.information[name] for name, x in self.information.items()},
            {name: x + other.weighted[name] for name, x in self.weighted.items()},
            self.first + other.first,
            self.rests + other.rests,
            self.moves + other.moves,
        )


def walker_statistics(free: FreeWalker, tracks: Sequence[Array]) -> WalkerStatistics:
    """Statistics of one home from its free walker and its tracks (T, 2) on the walker's tick."""
    long_enough = [track for track in tracks if len(track) > 2]
    samples = _samples(long_enough, [1.0] * len(long_enough), np.random.default_rng(0), 0.0)
    weights, moves = _weights(free), len(samples.known)
    w = {name: torch.as_tensor(x, dtype=torch.float32).requires_grad_(True) for name, x in weights.items()}
    information = {name: moves * x for name, x in _fisher(w, samples).items()}
    weighted = {name: x * weights[name] for name, x in information.items()}
    return WalkerStatistics(information, weighted, moves * free.first, np.array(_rests(long_enough)), moves)


def pooled_prior(base: FreeWalkerPrior, total: WalkerStatistics, strength: float) -> FreeWalkerPrior:
    """The population's free walker from the statistics of its homes; ``base`` counts for ``strength`` moves."""
    centre, share = _weights(base.free), total.moves / (total.moves + strength)
    precision = {
        name: share * total.information[name] / total.moves + (1.0 - share) * base.precision[name] for name in _NAMES
    }
    held = {name: strength * base.precision[name] for name in _NAMES}
    w = {
        name: torch.as_tensor(
            (held[name] * centre[name] + total.weighted[name]) / (held[name] + total.information[name] + 1e-12)
        )
        for name in _NAMES
    }
    first = share * total.first / total.moves + (1.0 - share) * base.free.first
    set_off = _set_off(total.rests[0], total.rests[1], float(base.free.set_off[0]))
    return FreeWalkerPrior(_as_free(w, first, set_off), precision)


class _Adam:
    """Adam with a rate that rises over the first tenth and falls to zero.

    ``torch.optim`` loads torch's compiler first, which takes longer than adapting to a home.
    """

    def __init__(self, weights: list[Tensor], rate: float, steps: int) -> None:
        self._weights, self._rate, self._steps, self._step = weights, rate, steps, 0
        self._mean = [torch.zeros_like(w) for w in weights]
        self._square = [torch.zeros_like(w) for w in weights]

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of ``loss``, whose norm is cut at 1."""
        grads = torch.autograd.grad(loss, self._weights)
        norm = float(torch.sqrt(sum((g.square().sum() for g in grads), torch.zeros(()))))
        self._step += 1
        share = self._step / self._steps
        rate = self._rate * min(1.0, 10.0 * share) * 0.5 * (1.0 + float(np.cos(np.pi * share)))
        with torch.no_grad():
            for w, g, m, v in zip(self._weights, grads, self._mean, self._square, strict=True):
                g = g / max(1.0, norm)
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.99).addcmul_(g, g, value=0.01)
                scale = (1.0 - 0.9**self._step, 1.0 - 0.99**self._step)
                w.sub_(rate * (m / scale[0]) / ((v / scale[1]).sqrt() + 1e-8))


def _some(s: _Samples, pick: Tensor) -> _Samples:
    return _Samples(s.past[pick], s.known[pick], s.move[pick], s.weight[pick])


def _fresh(generator: torch.Generator) -> dict[str, Tensor]:
    def layer(i: int, o: int, scale: float = 1.0) -> Tensor:
        weights: Tensor = scale * torch.randn(i, o, generator=generator) / i**0.5
        return weights.requires_grad_(True)

    return {
        "w1": layer(FEATURES, HIDDEN),
        "b1": torch.zeros(HIDDEN, requires_grad=True),
        "w2": layer(HIDDEN, HIDDEN),
        "b2": torch.zeros(HIDDEN, requires_grad=True),
        "w3": layer(HIDDEN, OUTPUTS, 0.1),
        "b3": torch.tensor(_FIRST_OUTPUTS, requires_grad=True),
        "log_nu": torch.zeros(2, requires_grad=True),
    }


def _fisher(w: dict[str, Tensor], samples: _Samples) -> dict[str, Array]:
    """Mean square of the gradient of the log density of one move, weight by weight."""
    total = {name: torch.zeros_like(x) for name, x in w.items()}
    size = 16
    rng = np.random.default_rng(0)
    for _ in range(_GROUPS):
        pick = torch.as_tensor(rng.integers(len(samples.known), size=size))
        grads = torch.autograd.grad(_log_density(w, _some(samples, pick)).sum(), list(w.values()))
        for (name, _), g in zip(w.items(), grads, strict=True):
            total[name] += g.square() / (_GROUPS * size)
    return {name: x.numpy().astype(float) for name, x in total.items()}


def _weights(free: FreeWalker) -> dict[str, Array]:
    found = {name: getattr(free, name) for name in _NAMES[:-1]}
    return {**found, "log_nu": np.log(np.maximum(free.nu - _LEAST_NU, 1e-3))}


def _as_free(w: dict[str, Tensor], first: Array, set_off: Array) -> FreeWalker:
    x = {name: v.detach().numpy().astype(float) for name, v in w.items()}
    nu = _LEAST_NU + np.exp(x.pop("log_nu"))
    weights = {name: np.ascontiguousarray(v) for name, v in x.items()}
    return FreeWalker(**weights, nu=nu, first=np.asarray(first), set_off=set_off)
