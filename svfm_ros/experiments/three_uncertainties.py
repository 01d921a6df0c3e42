"""Three kinds of uncertainty on random fields: which field, how fast, which way (fig. 4).

Length noise leaves the course of a path alone and fans out only where the field turns; direction noise fans out at
once. Measured on two fields with known answers, a straight one and a turning one; shown on random networks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.experiments.experiment import ExperimentResult, Tick
from svfm_ros.svfm.fields import FieldParams, realise
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.noise import Noise
from svfm_ros.svfm.solver.rk4 import rk4
from svfm_ros.targets import Check, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["run_uncertainty"]

_SIGMA = 0.2
_SAMPLES = 2000
_SHOWN = 10
_EARLY, _LATE = 4, 80  # steps of the grid: 5 % of the way, and all of it
_SEED = 3
_COLOURS = ("#2b6cb0", "#c53030", "#276749")

Course = Callable[[Tensor], Tensor]


def run_uncertainty(quick: bool, tick: Tick) -> ExperimentResult:  # noqa: ARG001 (it is quick anyway)
    """Spread across the course, early and late, by kind of noise and of field."""
    rows, checks = [], []
    for kind in ("length", "direction"):
        for name, course in (("straight", _straight), ("turning", _turning)):
            early, late = _spread(course, kind)
            rows.append((f"{kind} noise, {name} field", early, late))
            checks.append(_check(kind, name, early, late))
            tick(f"{kind} noise, {name} field")
    return ExperimentResult(
        "uncertainty",
        f"spread across the course over distance travelled, noise {_SIGMA:g}, {_SAMPLES} paths",
        ("noise and field", "after 5 % of the way", "at the end"),
        tuple(rows),
        tuple(checks),
        _draw,
    )


def _check(kind: str, field: str, early: float, late: float) -> Check:
    if kind == "direction":
        return at_least(f"direction noise, {field} field: fans out at once", early, _SIGMA / 2)
    if field == "straight":
        return at_most("length noise, straight field: never fans out", late, 1e-5)
    return at_least("length noise, turning field: fans out late, ten times more than early", late / early, 10.0)


def _straight(h: Tensor) -> Tensor:
    return torch.tensor([1.0, 0.0], dtype=h.dtype).expand_as(h)


def _turning(h: Tensor) -> Tensor:
    """A quarter of a circle about (0, 1) in unit time, from (0, 0)."""
    off = h - torch.tensor([0.0, 1.0], dtype=h.dtype)
    return torch.stack((-off[:, 1], off[:, 0]), dim=-1) * (torch.pi / 2)


def _spread(course: Course, kind: str) -> tuple[float, float]:
    """Standard deviation across the noiseless course, divided by the distance travelled, early and late."""
    noise = Noise.draw(_SEED, _SAMPLES, 2, dtype=torch.float64)
    eps_u = noise.eps_u if kind == "direction" else torch.zeros_like(noise.eps_u)
    eps_v = noise.eps_v if kind == "length" else torch.zeros_like(noise.eps_v)
    sigma = torch.full((_SAMPLES,), _SIGMA, dtype=torch.float64)

    def field(_t: Tensor, h: Tensor) -> Tensor:
        return realise(FieldParams(course(h), sigma, sigma), eps_u, eps_v, 0.0)

    times = torch.linspace(0.0, 1.0, _LATE + 1, dtype=torch.float64)
    start = torch.zeros(_SAMPLES, 2, dtype=torch.float64)
    paths = rk4(field, start, times).states  # (T + 1, S, 2)
    middle = rk4(lambda _t, h: course(h), start[:1], times).states[:, 0]  # (T + 1, 2)
    return _across(paths, middle, course, _EARLY), _across(paths, middle, course, _LATE)


def _across(paths: Tensor, middle: Tensor, course: Course, at: int) -> float:
    heading = course(middle[at : at + 1])[0]
    side = torch.stack((-heading[1], heading[0])) / heading.norm()
    way = middle[: at + 1].diff(dim=0).norm(dim=-1).sum()
    return float(((paths[at] - paths[at].mean(0)) @ side).std() / way)


def _draw() -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_mixture(left)
    _draw_samples(middle, "length")
    _draw_samples(right, "direction")
    for axis in (left, middle, right):
        axis.set_aspect("equal", "datalim")
    return figure


def _random_model(components: int) -> MixtureModel:
    config = ModelConfig(components=components, activation="tanh", first_log_spread=0.3, max_speed=3.0, time="raw")
    model = MixtureModel(config, seed=_SEED)
    with torch.no_grad():  # fresh weights give gentle fields; larger ones bend
        for parameter in model.fields.parameters():
            parameter.mul_(2.5)
    return model


@torch.no_grad()
def _draw_mixture(axis: "Axes") -> None:
    """All sequences of three fields over three intervals of time, one of them drawn thick."""
    model = _random_model(len(_COLOURS))
    times = torch.linspace(0.0, 0.6, 13)
    fronts = [torch.zeros(1, 2)]
    for campaign in range(3):
        starts = torch.cat(fronts)
        fronts = []
        for k, colour in enumerate(_COLOURS):
            component = torch.full((len(starts),), k)
            paths = rk4(model.realise(Noise.none(len(starts), 2), component), starts, times).states
            axis.plot(paths[..., 0], paths[..., 1], color=colour, alpha=0.35, linewidth=1)
            if campaign == 2 or k == campaign:  # the first branch of each fork, drawn thick
                axis.plot(paths[:, 0, 0], paths[:, 0, 1], color=colour, linewidth=2.4 if k == campaign else 0)
            fronts.append(paths[-1])
        fronts = [torch.cat([fronts[campaign][:1], *fronts])[:27]]
    axis.plot(0, 0, "o", color="#c53030")
    axis.set_title("which field: three choices among three fields")


@torch.no_grad()
def _draw_samples(axis: "Axes", kind: str) -> None:
    model = _random_model(1)
    noise = Noise.draw(_SEED, _SHOWN, 2)
    zero = Noise.none(_SHOWN, 2)
    chosen = Noise(
        0,
        noise.path,
        0,
        noise.eps_u if kind == "direction" else zero.eps_u,
        noise.eps_v if kind == "length" else zero.eps_v,
        noise.u_component,
    )
    field = model.realise(chosen, torch.zeros(_SHOWN, dtype=torch.long))
    paths = rk4(field, torch.zeros(_SHOWN, 2), torch.linspace(0.0, 2.0, 61)).states
    axis.plot(paths[..., 0], paths[..., 1], linewidth=1.2)
    axis.plot(paths[-1, :, 0], paths[-1, :, 1], ".", color="black", markersize=5)
    axis.plot(0, 0, "o", color="#c53030")
    axis.set_title(f"{'how fast' if kind == 'length' else 'which way'}: {_SHOWN} samples of {kind} noise")
