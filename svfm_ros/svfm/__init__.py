"""The paper's library: neural ODEs with stochastic vector field mixtures (Twomey, Kozłowski, Santos-Rodríguez 2019).

    from svfm_ros import svfm
    model = svfm.MixtureModel(svfm.ModelConfig(components=4))
    batch = svfm.walk_batch(times, positions, steps=20)                            # walks, cubic interpolation
    done = svfm.train(lambda seed: model, svfm.walk_objective, batch, None, svfm.TrainConfig())   # FLoss with MDLoss
    paths = svfm.sample_paths(done.model, starts, times, done.model.draw(0, len(starts)))

``losses`` holds the paper's losses, one function per equation; ``solve`` integrates any field with a step size per row.
The names below are imported at first use. The rest of this folder is private to the package.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svfm_ros.config.svfm_config import ModelConfig, SolverConfig, TrainConfig
    from svfm_ros.svfm import losses
    from svfm_ros.svfm.classifier import Classifier
    from svfm_ros.svfm.model import MixtureModel
    from svfm_ros.svfm.moments import propagate
    from svfm_ros.svfm.objectives import walk_batch, walk_objective
    from svfm_ros.svfm.sampling import sample_paths
    from svfm_ros.svfm.solver.solve import solve
    from svfm_ros.svfm.training import train

__all__ = [
    "Classifier",
    "MixtureModel",
    "ModelConfig",
    "SolverConfig",
    "TrainConfig",
    "losses",
    "propagate",
    "sample_paths",
    "solve",
    "train",
    "walk_batch",
    "walk_objective",
]

_MODULES = {
    "Classifier": "svfm_ros.svfm.classifier",
    "MixtureModel": "svfm_ros.svfm.model",
    "ModelConfig": "svfm_ros.config.svfm_config",
    "SolverConfig": "svfm_ros.config.svfm_config",
    "TrainConfig": "svfm_ros.config.svfm_config",
    "propagate": "svfm_ros.svfm.moments",
    "sample_paths": "svfm_ros.svfm.sampling",
    "solve": "svfm_ros.svfm.solver.solve",
    "train": "svfm_ros.svfm.training",
    "walk_batch": "svfm_ros.svfm.objectives",
    "walk_objective": "svfm_ros.svfm.objectives",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562): the package itself loads without torch."""
    if name == "losses":
        return importlib.import_module("svfm_ros.svfm.losses")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
