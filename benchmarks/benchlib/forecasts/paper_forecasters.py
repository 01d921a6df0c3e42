"""The paper's models as forecasters: VF and A-VF with Gaussian noise, and SVFM with both kinds of selection.

All are trained as in the paper: the field is solved from the start of each walk, and FLoss (eq. 11) is minimised with
Adam; squared error for a single deterministic field, MDLoss for the mixtures. Every fifth walk is held out for
validation. Training ends when the validation loss has not improved for ten validations, and the best weights are kept.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchlib.forecasts.questions import Question, flattened
from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.losses import forecast_loss, mixture_density_loss, observed_cov, squared_error
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.objectives import Normaliser
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.solver.rk4 import rk4
from svfm_ros.svfm.training import TrainReport, seeded, train
from svfm_ros.types import WalkWindows

__all__ = ["PaperForecaster", "paper_forecasters"]

Array = NDArray[np.float64]

_MOST_STEPS = 5000  # far more than any of them needs
_BATCH, _CHECK_EVERY, _PATIENCE = 80, 50, 10
_VALID_EVERY = 5  # every fifth walk is for validation
_STRIDE = 2  # of the walks' ticks: one step of the solver while training
_FIELD = ModelConfig(hidden_units=32, activation="tanh", max_speed=3.0, components=1, stochastic=False)
_MIXTURE = ModelConfig(hidden_units=32, activation="tanh", max_speed=2.0, gate="linear")


@dataclass(slots=True)
class PaperForecaster:
    """One of the paper's models; its input is the current position, not the walk so far."""

    name: str
    config: ModelConfig
    ticks: int  # length of the paths it is trained on
    most_steps: int = _MOST_STEPS  # of the optimiser, if validation keeps improving
    seed: int = 0
    report: TrainReport | None = None  # of the last training
    _model: MixtureModel | None = None
    _scale: Normaliser = field(default_factory=lambda: Normaliser((0.0, 0.0), 1.0))
    _dt_s: float = 1.0
    _spread: Array = field(default_factory=lambda: np.zeros((1, 2, 2)))  # (ticks + 1, 2, 2), root of the covariance

    def fit(self, walks: WalkWindows) -> None:
        """Train until the validation loss stops improving."""
        paths = flattened(walks, self.ticks)  # (N, ticks + 1, 2)
        self._dt_s = walks.dt_s
        everything = torch.as_tensor(paths, dtype=torch.float32)
        self._scale = Normaliser.fit(everything.reshape(-1, 2))
        x = self._scale.encode(everything)[:, ::_STRIDE]
        times = torch.arange(x.shape[1]) * (_STRIDE * walks.dt_s)
        self._model = self._train(x, times)
        self._spread = self._residuals(paths) if self._single else np.zeros((self.ticks + 1, 2, 2))

    @property
    def _single(self) -> bool:
        return not self.config.stochastic and self.config.components == 1

    def _train(self, x: Tensor, times: Tensor) -> MixtureModel:
        held_out = torch.arange(len(x)) % _VALID_EVERY == _VALID_EVERY - 1
        velocities = (x[:, -1] - x[:, 0]) / times[-1]
        trained = train(
            lambda seed: seeded(MixtureModel(self.config, seed), velocities, seed),
            lambda model, batch, _seed: self._loss(model, batch[0], times),
            (x[~held_out],),
            (x[held_out],) if bool(held_out.any()) else None,
            TrainConfig(self.seed, self.most_steps, _BATCH, check_every=_CHECK_EVERY, patience=_PATIENCE),
        )
        self.report = trained.report
        return trained.model

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


def paper_forecasters(
    ticks: int, most_steps: int = _MOST_STEPS, components: int = 4, seed: int = 0
) -> list[PaperForecaster]:
    """The four of them, each with at most ``most_steps`` steps of the optimiser."""
    mixture = replace(_MIXTURE, components=components)
    configs = {
        "VF + Gaussian noise": _FIELD,
        "A-VF + Gaussian noise": replace(_FIELD, augment=2),
        "SVFM, pick and stick": mixture,
        "SVFM, forward filtering": replace(mixture, selection="filter"),
    }
    return [PaperForecaster(name, config, ticks, most_steps, seed) for name, config in configs.items()]
