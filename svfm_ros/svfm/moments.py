"""Mean and covariance of the state, component by component, along the path.

A path's noise e = (eps_u, eps_v) is frozen, so the state at any time is a function of e. Sigma points of e are solved
like any path, and their weighted mean and covariance are the moments.

Where noise is redrawn or components switch on the way, the state is carried as ``h = m + C e + r`` with r ~ N(0, R):
at each time of the grid the noise keeps the share its correlation time allows, the components are mixed with the joint
weights of eq. 5 (moment matching: the exact mixture has K^T terms), and new sigma points of (e, r) are computed.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.selection import joint_weights
from svfm_ros.svfm.solver.rk4 import rk4

__all__ = ["Moments", "origin_shares", "propagate", "switch_weights"]

_JITTER = 1e-8


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of the state at each time of the grid, the first included, without observation noise."""

    mean: Tensor  # (T + 1, B, K, dim)
    cov: Tensor  # (T + 1, B, K, dim, dim)
    log_weight: Tensor  # (T + 1, B, K), log pi(t_i)
    moves: (
        Tensor  # (T, B, K, S, D), displacements of the sigma points from one time to the next; of the mean if redrawn
    )
    slopes: Tensor  # (T + 1, B, K, S, D), velocities of the sigma points; of the mean if redrawn
    point_weight: Tensor  # (S,), add up to one


def propagate(model: MixtureModel, x0: Tensor, times: Tensor) -> Moments:
    """Moments from starts (B, dim) along times (T + 1,) or (T + 1, B); differentiable."""
    if x0.ndim != 2 or x0.shape[0] == 0:
        raise DataError(f"expected starts (B, {model.config.dim}) with B >= 1, got shape {tuple(x0.shape)}")
    h0 = model.pad(x0)
    switching = model.config.selection == "filter" and model.config.components > 1
    redrawn = model.config.stochastic and model.config.correlation < math.inf
    if switching or redrawn:
        return _propagate_anew(model, h0, times, switching)
    return _propagate_frozen(model, h0, times)


@dataclass(frozen=True, slots=True)
class _SigmaPoints:
    """Sigma points of n standard normals, the centre first (unscented transform).

    They match means, covariances and, for n <= 3, the fourth moments of each axis. Weights are not negative, so
    covariances stay positive definite.
    """

    reach: float  # distance from the centre
    side: float  # weight of each of the 2n points around
    centre: float  # weight of the one in the middle

    @classmethod
    def of(cls, n: int) -> "_SigmaPoints":
        scale = max(3, n)
        return cls(math.sqrt(scale), 0.5 / scale, 1.0 - n / scale)

    def offsets(self, n: int, like: Tensor) -> Tensor:
        """(2n + 1, n): the centre, then ±reach along each axis."""
        eye = self.reach * torch.eye(n, device=like.device, dtype=like.dtype)
        return torch.cat((eye.new_zeros(1, n), eye, -eye))

    def weights(self, n: int, like: Tensor) -> Tensor:
        """(2n + 1,)."""
        weights = like.new_full((2 * n + 1,), self.side)
        weights[0] = self.centre
        return weights


def _noise_size(model: MixtureModel) -> int:
    """Dimension of the noise: 0, 1 (length) or 1 + D (length and direction)."""
    width = model.config.width
    return 0 if not model.config.stochastic else 1 if width == 1 else width + 1


def _split_noise(e: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Noise (..., n) as eps_u (..., D) and eps_v (...)."""
    if e.shape[-1] == 0:
        return e.new_zeros(*e.shape[:-1], width), e.new_zeros(e.shape[:-1])
    if e.shape[-1] == 1:
        return e.new_zeros(*e.shape[:-1], width), e[..., 0]
    return e[..., 1:], e[..., 0]


def _walk(model: MixtureModel, h: Tensor, e: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
    """Sigma points h (K, B, S, D) with noise e (S, n) along the times: states and slopes (T + 1, K, B, S, D)."""
    k, b, s, width = h.shape
    eps_u, eps_v = _split_noise(e, width)  # (S, D), (S,)
    eps_u, eps_v = eps_u.repeat(b, 1), eps_v.repeat(b)  # (B * S, D), (B * S,)
    if times.ndim == 2:
        times = times.repeat_interleave(s, dim=1)
    out = rk4(lambda t, x: model.velocity_each(t, x, eps_u, eps_v), h.reshape(k, b * s, width), times)
    shape = (len(times), k, b, s, width)
    return out.states.view(shape), out.slopes.view(shape)


def _propagate_frozen(model: MixtureModel, h0: Tensor, times: Tensor) -> Moments:
    """One set of sigma points, solved from start to end."""
    n, k = _noise_size(model), model.config.components
    points = _SigmaPoints.of(n)
    e = points.offsets(n, h0)  # (S, n)
    start = h0[None, :, None, :].expand(k, -1, len(e), -1)
    states, slopes = _walk(model, start, e, times)
    weights = points.weights(n, h0)
    seen = model.observed(states)
    mean = torch.einsum("s,tkbsi->tbki", weights, seen)
    off = seen - mean.transpose(1, 2).unsqueeze(3)  # (T + 1, K, B, S, dim)
    cov = torch.einsum("s,tkbsi,tkbsj->tbkij", weights, off, off)
    log_weight = model.log_prior(times[0], h0).expand(len(times), -1, -1)
    moves = states.diff(dim=0).transpose(1, 2)
    return Moments(mean, cov, log_weight, moves, slopes.transpose(1, 2), weights)


@dataclass(frozen=True, slots=True)
class _Gaussians:
    """One Gaussian per component: h = mean + gain e + r, r ~ N(0, rest)."""

    mean: Tensor  # (K, B, D)
    gain: Tensor  # (K, B, D, n)
    rest: Tensor  # (K, B, D, D)

    def cov(self) -> Tensor:
        return self.gain @ self.gain.mT + self.rest


def _propagate_anew(model: MixtureModel, h0: Tensor, times: Tensor, switching: bool) -> Moments:
    """New sigma points at every time of the grid."""
    k, n, width = model.config.components, _noise_size(model), model.config.width
    now = _Gaussians(h0.expand(k, -1, -1), h0.new_zeros(k, *h0.shape, n), h0.new_zeros(k, *h0.shape, width))
    log_weight = model.log_prior(times[0], h0)
    states, moves, weights = [now], [], [log_weight]
    for i in range(1, len(times)):
        arrived = _advance(model, now, times[i - 1 : i + 1])
        moves.append(arrived.mean - states[-1].mean)  # before switching: a switch moves no path
        now = _keep(arrived, model.keep(times[i] - times[i - 1]))
        if switching:
            joint = switch_weights(model, times[i], now.mean, log_weight.exp())
            now, log_weight = _mixed(now, joint), joint.sum(1).clamp_min(1e-12).log()
        states.append(now)
        weights.append(log_weight)
    mean = torch.stack([s.mean for s in states]).transpose(1, 2)
    cov = torch.stack([s.cov() for s in states]).transpose(1, 2)
    dim = model.config.dim
    still = h0.new_zeros(len(h0), width)  # zero noise: the median field
    slopes = [model.velocity_each(t, s.mean, still, still[:, 0]) for t, s in zip(times, states, strict=True)]
    move, slope = (torch.stack(x).transpose(1, 2).unsqueeze(3) for x in (moves, slopes))
    return Moments(mean[..., :dim], cov[..., :dim, :dim], torch.stack(weights), move, slope, mean.new_ones(1))


def _advance(model: MixtureModel, now: _Gaussians, times: Tensor) -> _Gaussians:
    """The Gaussians one time later."""
    n, width = now.gain.shape[-1], now.mean.shape[-1]
    points = _SigmaPoints.of(n + width)
    offsets = points.offsets(n + width, now.mean)  # (S, n + D)
    eye = torch.eye(width, device=now.mean.device, dtype=now.mean.dtype)
    root = torch.linalg.cholesky(now.rest + _JITTER * eye)
    spread = torch.cat((now.gain, root), dim=-1)  # (K, B, D, n + D)
    start = now.mean.unsqueeze(2) + torch.einsum("kbij,sj->kbsi", spread, offsets)
    states, _ = _walk(model, start, offsets[:, :n], times)
    end, weights = states[-1], points.weights(n + width, now.mean)
    mean = torch.einsum("s,kbsi->kbi", weights, end)
    off = end - mean.unsqueeze(2)
    gain = torch.einsum("s,kbsi,sj->kbij", weights, off, offsets[:, :n])
    cov = torch.einsum("s,kbsi,kbsj->kbij", weights, off, off)
    return _Gaussians(mean, gain, cov - gain @ gain.mT)


def _keep(now: _Gaussians, keep: Tensor) -> _Gaussians:
    """Decorrelate the noise: the variance that e no longer explains moves to ``rest``."""
    keep = keep.reshape(-1, 1, 1)  # (1, 1, 1) or (B, 1, 1)
    return _Gaussians(now.mean, keep * now.gain, now.rest + (1.0 - keep * keep) * (now.gain @ now.gain.mT))


def switch_weights(model: MixtureModel, t: Tensor, mean: Tensor, belief: Tensor) -> Tensor:
    """P(was j, is k) (B, K, K) of eq. 5; Psi and psi are evaluated at the state of j in (K, B, D), belief is (B, K)."""
    k, b, width = mean.shape
    flat, seen = mean.reshape(k * b, width), t.repeat(k) if t.ndim else t
    own = torch.arange(k, device=mean.device)
    transition = model.log_transition(seen, flat).exp().view(k, b, k, k)[own, :, own]  # (K, B, K): row j at state j
    emission = model.log_emission(seen, flat).exp().view(k, b, k)[own, :, own]  # (K, B)
    return joint_weights(transition.transpose(0, 1), emission.T, belief)


def origin_shares(joint: Tensor) -> Tensor:
    """P(was j | is k) (B, J, K) of joint probabilities (B, J, K)."""
    return joint / joint.sum(1, keepdim=True).clamp_min(1e-12)


def _mixed(now: _Gaussians, joint: Tensor) -> _Gaussians:
    """Each component as the Gaussian with the moments of the mixture that switches into it."""
    share = origin_shares(joint)
    mean = torch.einsum("bjk,jbi->kbi", share, now.mean)
    gain = torch.einsum("bjk,jbin->kbin", share, now.gain)
    off = now.mean.unsqueeze(1) - mean.unsqueeze(0)  # (J, K, B, D)
    cov = torch.einsum("bjk,jbil->kbil", share, now.cov()) + torch.einsum("bjk,jkbi,jkbl->kbil", share, off, off)
    return _Gaussians(mean, gain, cov - gain @ gain.mT)
