"""The experiments by name. Each is a function ``run_NAME(quick, tick) -> ExperimentResult`` in its module.

``quick`` means fewer seeds and steps; the targets of the full run do not apply to its results.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from svfm_ros.experiments.experiment import ExperimentResult, Tick

__all__ = ["EXPERIMENTS", "Experiment"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Name and module of an experiment, and what it shows."""

    name: str
    module: str
    shows: str

    def load(self) -> Callable[[bool, Tick], ExperimentResult]:
        """The function that runs it; its module is imported only now."""
        module = importlib.import_module(f"svfm_ros.experiments.{self.module}")
        function: Callable[[bool, Tick], ExperimentResult] = getattr(module, f"run_{self.name}")
        return function


_ALL = (
    Experiment(
        "crossing", "failures", "paths that cross: one field fails, augmented fields and mixtures do not (fig. 1)"
    ),
    Experiment("splitting", "failures", "one start, two ends: only mixtures (fig. 1)"),
    Experiment("scaling", "failures", "one path, many speeds: a single deterministic field fails (fig. 1)"),
    Experiment("circles", "classification", "nested circles: VF, VF+TVLoss, SVFM (figs. 7, 12)"),
    Experiment("moons", "classification", "two moons: VF, VF+TVLoss, SVFM (fig. 12)"),
    Experiment("xor", "classification", "exclusive or: VF, VF+TVLoss, SVFM (fig. 12)"),
    Experiment("grid", "grid_search", "the paper's grid of layers, units, batch and rate (appendix B.1)"),
    Experiment("nfe", "nfe", "function evaluations per instance (figs. 9, 13)"),
    Experiment("cyclic", "cyclic", "the time tuple carries a periodic function on (fig. 8)"),
    Experiment("uncertainty", "three_uncertainties", "mixture, length and direction uncertainty (fig. 4)"),
    Experiment("alignment", "solver_cost", "truncation error as fields align (appendix A.2)"),
    Experiment("frozen", "solver_cost", "function evaluations with frozen noise and without (section 3)"),
    Experiment("behaviour", "behaviour", "200 paths from the couch on the floor plan (fig. 10a)"),
    Experiment("counterfactual", "behaviour", "the same, had it been night (fig. 10b)"),
    Experiment("slam", "slam_maps", "the four maps of the appendix: door, kitchen, landing, study"),
)

EXPERIMENTS = {e.name: e for e in _ALL}
