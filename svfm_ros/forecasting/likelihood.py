"""The exact likelihood of a whole walk, without solving an equation.

Positions are observed at every step, so each step has a density under every field, and what is hidden (field, pace,
walking or pausing) is a Markov chain. The forward recursion sums over all its courses. All networks are evaluated once,
for all steps of all walks; only the recursion over the small hidden state runs step by step.

A step under field k and pace g is an oriented Gaussian with the moments of the field unit, to first order in its
variances: along the field ``m = dt v e^pace`` with standard deviation ``m sigma_v``, across it 0 with ``m sigma_u``;
the sensor's noise widens both; in the first steps there is less of it, for people set off much alike. The noise is
standardised, and ``eps_i = keep eps_{i-1} + sqrt(1 - keep^2) fresh``: keep = 1 freezes it for the path, keep = 0 draws
it anew each step. It begins with the spread ``begin`` and grows to one from there: what sets two walkers apart adds up
as they go. ``eps_{i-1}`` is what the last observed step says under the same field and pace.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from svfm_ros.forecasting.hidden_chain import CLIP, NOT_YET
from svfm_ros.forecasting.walk_model import Chain, WalkModel

__all__ = [
    "CLIP",
    "NOT_YET",
    "Filtered",
    "StepTerms",
    "WalkBatch",
    "filter_walks",
    "forward",
    "log_likelihood",
    "log_says",
    "step_terms",
]

_LOG_2PI = math.log(2.0 * math.pi)
_MOST_PADDING = 4.0  # padded rows may be so many times as long as what they hold


@dataclass(frozen=True, slots=True)
class WalkBatch:
    """Walks as tensors, padded; ``steps`` is how many moves a row holds, one less than its positions."""

    xy: Tensor  # (N, T, 2), metres
    steps: Tensor  # (N,) int64
    hour: Tensor  # (N,), local hour of the start
    ended: Tensor  # (N,) bool: the walk ends with the row; otherwise it was cut


@dataclass(frozen=True, slots=True)
class StepTerms:
    """What every step says about what is hidden; I = T - 1 moves."""

    log_move: Tensor  # (N, I, K, G), density of the move while walking
    log_still: Tensor  # (N, I), density of the move in a pause
    log_end: Tensor  # (N, I, K), of having ended, or not, after the move
    log_prior: Tensor  # (N, K), before the first move
    log_again: Tensor  # (N, I, K), choosing anew after the move
    eps_v: Tensor  # (N, I, K, G), standardised noise along
    eps_u: Tensor  # (N, I, K, G), and across


@dataclass(frozen=True, slots=True)
class Filtered:
    """Log likelihood of each walk, and the belief right before the next move."""

    log_likelihood: Tensor  # (N,)
    belief: Tensor  # (N, 2, K, G), walking and pausing; sums to one per walk


def log_likelihood(model: WalkModel, walks: WalkBatch, log_held: Tensor | None = None) -> Tensor:
    """Log density of whole walks (N,), given where they start; ``log_held`` (N, K) weighs the first choice."""
    return filter_walks(model, walks, log_held).log_likelihood


def filter_walks(model: WalkModel, walks: WalkBatch, log_held: Tensor | None = None) -> Filtered:
    """The forward recursion over all rows, those of like length at once: one long walk must not make all as long."""
    groups = _of_like_length(walks.steps)
    parts = [_filter(model, _rows(walks, g), None if log_held is None else log_held[g]) for g in groups]
    if len(parts) == 1:
        return parts[0]
    back = torch.argsort(torch.cat(groups))
    return Filtered(torch.cat([p.log_likelihood for p in parts])[back], torch.cat([p.belief for p in parts])[back])


def _filter(model: WalkModel, walks: WalkBatch, log_held: Tensor | None) -> Filtered:
    return forward(step_terms(model, walks), model.chain(), walks.steps, log_held)


def _of_like_length(steps: Tensor) -> list[Tensor]:
    """Row numbers in groups, lengths within a factor of two; all in one where little would be gained."""
    rows = torch.arange(len(steps), device=steps.device)
    if not len(steps) or len(steps) * int(steps.max()) <= _MOST_PADDING * int(steps.sum()):
        return [rows]
    size = torch.log2(steps.clamp_min(1).double()).long()
    return [rows[size == s] for s in torch.unique(size)]


def _rows(walks: WalkBatch, rows: Tensor) -> WalkBatch:
    if len(rows) == len(walks.steps):
        return walks
    steps = walks.steps[rows]
    return WalkBatch(walks.xy[rows, : int(steps.max()) + 1], steps, walks.hour[rows], walks.ended[rows])


def step_terms(model: WalkModel, walks: WalkBatch) -> StepTerms:
    """All network evaluations, in one batch."""
    chain = model.chain()
    rows, times = walks.xy.shape[:2]
    k = model.config.components
    move = walks.xy[:, 1:] - walks.xy[:, :-1]  # (N, I, 2)
    log_move, eps_v, eps_u = _moves(model, chain, walks.xy[:, :-1], move)
    there = walks.xy[:, 1:].reshape(-1, 2)
    length = torch.linalg.vector_norm(move, dim=-1)
    logit = model.end_logit(there, length.reshape(-1) / model.dt_s).view(rows, times - 1, k)
    starting = torch.arange(times - 1, device=move.device) < len(chain.ramp)
    logit = torch.where(starting.view(1, -1, 1), logit + NOT_YET, logit)
    last = torch.arange(times - 1, device=move.device) == (walks.steps - 1).unsqueeze(-1)  # (N, I)
    over = (last & walks.ended.unsqueeze(-1)).unsqueeze(-1)
    hours = (walks.hour.unsqueeze(-1) + torch.arange(1, times, device=move.device) * (model.dt_s / 3600.0)).reshape(-1)
    return StepTerms(
        log_move=log_move,
        log_still=-0.5 * (length / model.config.still_m) ** 2 - 2.0 * math.log(model.config.still_m) - _LOG_2PI,
        log_end=torch.where(over, logsigmoid(logit), logsigmoid(-logit)),
        log_prior=model.log_prior(walks.xy[:, 0], walks.hour),
        log_again=model.log_prior(there, hours).view(rows, times - 1, k),
        eps_v=eps_v,
        eps_u=eps_u,
    )


def _moves(model: WalkModel, chain: Chain, start: Tensor, move: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log density and standardised noise of the moves (N, I, 2) from ``start``: (N, I, K, G) each."""
    params = model.unit(start.reshape(-1, 2))
    sigma_u, sigma_v = torch.sqrt(params.tau_u), torch.sqrt(params.tau_v)
    shape = (*move.shape[:2], model.config.components, 1)
    u = params.mu_u.view(*shape[:3], 2)
    first = min(len(chain.ramp), shape[1])
    ramp, steady = (pad(x[:first], (0, shape[1] - first)).view(1, -1, 1, 1) for x in (chain.ramp, chain.steady))
    m = model.dt_s * params.mu_v.view(shape) * torch.exp(chain.pace + ramp)  # (N, I, K, G)
    along = torch.linalg.vecdot(move.unsqueeze(2), u).unsqueeze(-1)  # (N, I, K, 1)
    across = (move[:, :, None, 1] * u[..., 0] - move[:, :, None, 0] * u[..., 1]).unsqueeze(-1)
    floor = 2.0 * model.config.sensor_m**2
    share = torch.exp(2.0 * steady)
    var_v = ((m * sigma_v.view(shape)) ** 2 + floor) * share
    var_u = ((m * sigma_u.view(shape)) ** 2 + floor) * share
    eps_v, eps_u = (along - m) * torch.rsqrt(var_v), across * torch.rsqrt(var_u)
    log_p = (
        _kept(eps_v, chain.keep_v, chain.begin_v)
        + _kept(eps_u, chain.keep_u, chain.begin_u)
        - 0.5 * torch.log(var_v * var_u)
        - _LOG_2PI
    )
    return log_p, eps_v, eps_u


def _kept(eps: Tensor, keep: Tensor, begin: Tensor) -> Tensor:
    """Log density of noise (N, I, K, G) that keeps part of its value from step to step, up to its 2 pi."""
    before = pad(eps[:, :-1].clamp(-CLIP, CLIP), (0, 0, 0, 0, 1, 0))
    first = torch.arange(eps.shape[1], device=eps.device).view(1, -1, 1, 1) == 0
    rest = torch.where(first, begin**2, 1.0 - keep**2)
    return -0.5 * ((eps - keep * before) ** 2 / rest + torch.log(rest))


def forward(terms: StepTerms, chain: Chain, steps: Tensor, log_held: Tensor | None = None) -> Filtered:
    """Sum over all hidden courses, in logarithms: a field may be out of the question and yet the only one left."""
    prior = terms.log_prior if log_held is None else terms.log_prior + log_held
    state = prior.unsqueeze(-1) + chain.log_pace_weight  # (N, K, G)
    state = torch.stack((torch.log1p(-chain.pause) + state, torch.log(chain.pause) + state), dim=1)  # (N, 2, K, G)
    says = log_says(terms)
    for i in range(says.shape[1]):
        after = _next(state + says[:, i], terms.log_again[:, i], chain)
        state = torch.where((i < steps).view(-1, 1, 1, 1), after, state)
    log_p = torch.logsumexp(state.flatten(1), dim=1)
    return Filtered(log_p, torch.exp(state - log_p.view(-1, 1, 1, 1)))


def log_says(terms: StepTerms) -> Tensor:
    """What each move says (N, I, 2, K, G), to those who walk and to those who pause."""
    still = terms.log_still[:, :, None, None].expand_as(terms.log_move)
    return torch.stack((terms.log_move, still), dim=2) + terms.log_end[:, :, None, :, None]


def _next(state: Tensor, again: Tensor, chain: Chain) -> Tensor:
    """What is hidden, one step later: pauses begin and end, a few choose anew (again (N, K))."""
    walking, pausing = state[:, 0], state[:, 1]
    go, stay = torch.log(chain.resume), torch.log1p(-chain.resume)
    on, stop = torch.log1p(-chain.pause), torch.log(chain.pause)
    moved = torch.stack(
        (torch.logaddexp(walking + on, pausing + go), torch.logaddexp(walking + stop, pausing + stay)), 1
    )
    if chain.switch == 0.0:
        return moved
    anew = torch.logsumexp(moved, dim=2, keepdim=True) + again[:, None, :, None]
    return torch.logaddexp(moved + math.log1p(-chain.switch), anew + math.log(chain.switch))
