"""The picture of a failure case: sampled paths of each model over time, and the density of where they end."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from svfm_ros.experiments.failure_cases import Case
    from svfm_ros.experiments.failures import Outcome

__all__ = ["draw_case"]

_COLOURS = ("#c0392b", "#2c6fbb")
_WIDTH = 0.35  # of the tallest density, in units of time


def draw_case(case: "Case", outcomes: Mapping[str, "Outcome"]) -> "Figure":
    """One panel per model; the true density is the thin black line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.1 * len(outcomes), 3.2), layout="constrained")
    panels = figure.subplots(1, len(outcomes), sharey=True, squeeze=False)[0]
    for panel, (model, outcome) in zip(panels, outcomes.items(), strict=True):
        _draw_model(panel, case, outcome)
        panel.set_title(f"{model}: {outcome.by_samples:+.3f} nats", fontsize=10)
        panel.set_xlabel("time")
    panels[0].set_ylabel("state")
    figure.suptitle(f"{case.name}: {case.title}", fontsize=11)
    return figure


def _draw_model(panel: "Axes", case: "Case", outcome: "Outcome") -> None:
    ends = outcome.ends
    truths = {s: _true_density(case, s, ends) for s in case.starts}
    tallest = max(t.max() for t in truths.values())
    for start, colour in zip(case.starts, _COLOURS, strict=False):
        alone = outcome.paths[start].shape[1] == 1
        panel.plot(outcome.times, outcome.paths[start], color=colour, alpha=1.0 if alone else 0.25, linewidth=0.8)
        shown = 1.0 + _WIDTH * np.minimum(outcome.densities[start] / tallest, 1.3)
        panel.fill_betweenx(ends, 1.0, shown, color=colour, alpha=0.45, linewidth=0)
        panel.plot(1.0 + _WIDTH * truths[start] / tallest, ends, color="black", linewidth=0.8)
        panel.plot([0.0], [start], "o", color=colour, markersize=5)
    panel.set_xlim(-0.05, 1.05 + 1.3 * _WIDTH)
    panel.set_xticks([0.0, 0.5, 1.0])
    panel.set_ylim(ends[0], ends[-1])
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _true_density(case: "Case", start: float, ends: np.ndarray) -> np.ndarray:
    y = torch.as_tensor(ends).unsqueeze(1)
    density = case.log_density(torch.full_like(y, start), y).exp()
    return np.where((ends > 0) | (case.name != "scaling"), density.numpy(), 0.0)
