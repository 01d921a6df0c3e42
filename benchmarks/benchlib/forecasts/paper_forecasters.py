"""The paper's own models as forecasters: VF and A-VF with Gaussian noise, and the mixtures trained by solving them.

All are trained as in the paper: the field is solved from where walks start, and FLoss (eq. 11) is minimised with Adam;
squared error for a single deterministic field, MDLoss for the mixtures. Each gets the same processor time.
"""

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchlib.forecasts.questions import Question, flattened
from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.losses import forecast_loss, mixture_density_loss, observed_cov, squared_error
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.normaliser import Normaliser
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.solver.rk4 import rk4
from svfm_ros.types import WalkWindows

__all__ = ["PaperForecaster", "paper_forecasters"]

Array = NDArray[np.float64]

_RATE, _CLIP, _BATCH = 1e-2, 10.0, 80
_STRIDE = 2  # of the walks' ticks: one step of the solver while training
_FIELD = ModelConfig(hidden_units=32, activation="tanh", max_speed=3.0, components=1, stochastic=False)
_MIXTURE = ModelConfig(hidden_units=32, activation="tanh", max_speed=2.0, gate="linear")


@dataclass(slots=True)
class PaperForecaster:
    """One of the paper's models; sees where someone is, not where they came from."""

    name: str
    config: ModelConfig
    ticks: int  # as far as it is trained to look
    budget_s: float = 15.0  # processor time of the training
    seed: int = 0
    most_steps: int = 1_000_000  # of the optimiser, if the time allows
    steps: int = 0  # taken
    _model: MixtureModel | None = None
    _scale: Normaliser = field(default_factory=lambda: Normaliser.identity(2))
    _dt_s: float = 1.0
    _spread: Array = field(default_factory=lambda: np.zeros((1, 2, 2)))  # (ticks + 1, 2, 2), root of the covariance

    def fit(self, walks: WalkWindows) -> None:
        """Train until the time is spent."""
        paths = flattened(walks, self.ticks)  # (N, ticks + 1, 2)
        self._dt_s = walks.dt_s
        everything = torch.as_tensor(paths, dtype=torch.float32)
        self._scale = Normaliser.fit(everything.reshape(-1, 2))
        x = self._scale.encode(everything)[:, ::_STRIDE]
        times = torch.arange(x.shape[1]) * (_STRIDE * walks.dt_s)
        model = MixtureModel(self.config, self.seed)
        self._train(model, x, times)
        self._model = model.eval()
        self._spread = self._residuals(paths) if self._single else np.zeros((self.ticks + 1, 2, 2))

    @property
    def _single(self) -> bool:
        return not self.config.stochastic and self.config.components == 1

    def _train(self, model: MixtureModel, x: Tensor, times: Tensor) -> None:
        optimiser = torch.optim.Adam(model.parameters(), lr=_RATE)
        generator = torch.Generator().manual_seed(self.seed)
        began, self.steps = time.process_time(), 0
        while (spent := time.process_time() - began) < self.budget_s and self.steps < self.most_steps:
            optimiser.param_groups[0]["lr"] = _RATE * (1.0 - 0.95 * spent / self.budget_s)
            rows = torch.randperm(len(x), generator=generator)[:_BATCH]
            optimiser.zero_grad(set_to_none=True)
            self._loss(model, x[rows], times).backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            if bool(torch.isfinite(norm)):
                optimiser.step()
            self.steps += 1

    def _loss(self, model: MixtureModel, x: Tensor, times: Tensor) -> Tensor:
        if self._single:
            states = self._follow(model, x[:, 0], times)
            return squared_error(x.transpose(0, 1)[1:], states[1:]).mean()
        return forecast_loss(propagate(model, x[:, 0], times), x[:, 1:].transpose(0, 1), model.floor()).mean()

    @staticmethod
    def _follow(model: MixtureModel, start: Tensor, times: Tensor) -> Tensor:
        """Positions (T + 1, B, 2) of a single field."""
        field = model.realise(model.draw(0, len(start)), torch.zeros(len(start), dtype=torch.long))
        return model.observed(rk4(field, model.pad(start), times).states)

    def _residuals(self, paths: Array) -> Array:
        """Root of the covariance of what the field leaves over, tick by tick."""
        off = paths - self._paths(paths[:, 0], self.ticks)
        cov = np.einsum("nti,ntj->tij", off, off) / len(paths) + 1e-6 * np.eye(2)
        return np.linalg.cholesky(cov)

    @torch.no_grad()
    def _paths(self, starts: Array, ticks: int) -> Array:
        """The paths (B, ticks + 1, 2) of a single field."""
        if self._model is None:
            raise DataError("expected fit before sample")
        start = self._scale.encode(torch.as_tensor(starts, dtype=torch.float32))
        states = self._follow(self._model, start, torch.arange(ticks + 1) * self._dt_s)
        return self._scale.decode(states).transpose(0, 1).double().numpy()

    @torch.no_grad()
    def nll(self, paths: Array, lengths: NDArray[np.int64]) -> float:
        """Minus the log density of positions (N, ticks + 1, 2) given their starts, nats per position, ends left out."""
        if self._model is None:
            raise DataError("expected fit before nll")
        use = np.arange(1, paths.shape[1]) < lengths[:, None]  # (N, ticks)
        if self._single:
            off = (paths - self._paths(paths[:, 0], self.ticks))[:, 1:]
            white = np.einsum("tij,ntj->nti", np.linalg.inv(self._spread[1:]), off)
            log_det = np.log(np.linalg.det(self._spread[1:]))
            return float(((0.5 * (white**2).sum(-1) + log_det) + np.log(2.0 * np.pi))[use].mean())
        x = self._scale.encode(torch.as_tensor(paths, dtype=torch.float32))
        moments = propagate(self._model, x[:, 0], torch.arange(paths.shape[1]) * self._dt_s)
        cov = observed_cov(moments.cov[1:], self._model.floor())
        loss = mixture_density_loss(x[:, 1:].transpose(0, 1), moments.mean[1:], cov, moments.log_weight[1:])
        return float(loss.T.double().numpy()[use].mean() + 2.0 * np.log(self._scale.scale))

    @torch.no_grad()
    def sample(self, question: Question) -> Array:
        """Paths from where they are now."""
        if self._model is None:
            raise DataError("expected fit before sample")
        rng = np.random.default_rng(question.seed)
        if self._single:
            path = self._paths(question.seen[-1:], question.ticks)[0]
            root = self._spread[np.minimum(np.arange(question.ticks + 1), self.ticks)]
            noise = np.einsum("tij,sj->sti", root, rng.standard_normal((question.samples, 2)))
            noise[:, 0] = 0.0
            return np.asarray(path + noise)
        start = self._scale.encode(torch.as_tensor(question.seen[-1], dtype=torch.float32)).expand(question.samples, 2)
        times = torch.arange(question.ticks + 1) * self._dt_s
        states = sample_paths(self._model, start, times, self._model.draw(question.seed, question.samples)).states
        floor = float(self._model.floor()) * self._scale.scale
        paths = self._scale.decode(states).transpose(0, 1).double().numpy()
        paths[:, 1:] += floor * rng.standard_normal((question.samples, 1, 2))
        return np.asarray(paths)


def paper_forecasters(ticks: int, budget_s: float, components: int = 4, seed: int = 0) -> list[PaperForecaster]:
    """The four of them, ``budget_s`` seconds of processor time each."""
    from dataclasses import replace

    mixture = replace(_MIXTURE, components=components)
    return [
        PaperForecaster("VF + Gaussian noise", _FIELD, ticks, budget_s, seed),
        PaperForecaster("A-VF + Gaussian noise", replace(_FIELD, augment=2), ticks, budget_s, seed),
        PaperForecaster("SVFM, pick and stick", mixture, ticks, budget_s, seed),
        PaperForecaster("SVFM, forward filtering", replace(mixture, selection="filter"), ticks, budget_s, seed),
    ]
