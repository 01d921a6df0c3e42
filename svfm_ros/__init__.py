"""Forecasts of where the wearer of a 2D LiDAR will walk next: SLAM, walks, a learned model, probabilities of places.

The public names, loaded on first use (importing this package imports neither numpy nor torch):

=================  ====================================================================================
walks              ``read_walks``, ``write_walks``, ``simulate``, ``Walk``, ``WalkStore``
model              ``train``, ``load_model``, ``Model``, ``Forecast``, ``evaluate``
pictures           ``draw_forecast``, ``write_report``
scans              ``read_scans``, ``run_slam``, ``Slam``, ``Scan``, ``load_map``
=================  ====================================================================================

    import svfm_ros as svfm

    model = svfm.train(svfm.simulate(walks=200))
    print(model.forecast((2.3, 1.5), at="2026-11-16T14:00").shares)

``svfm_ros.svfm`` is the library of the paper on its own: vector field mixtures, losses, solvers, training.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svfm_ros.api import (
        Model,
        draw_forecast,
        evaluate,
        load_model,
        read_scans,
        read_walks,
        run_slam,
        simulate,
        train,
        write_report,
        write_walks,
    )
    from svfm_ros.mapio import load_map
    from svfm_ros.slam.slam import Slam
    from svfm_ros.types import Forecast, Scan, Walk
    from svfm_ros.walks.walk_store import WalkStore

    __version__: str

__all__ = [
    "Forecast",
    "Model",
    "Scan",
    "Slam",
    "Walk",
    "WalkStore",
    "draw_forecast",
    "evaluate",
    "load_map",
    "load_model",
    "read_scans",
    "read_walks",
    "run_slam",
    "simulate",
    "train",
    "write_report",
    "write_walks",
]

_MODULES = {
    "Forecast": "svfm_ros.types",
    "Scan": "svfm_ros.types",
    "Walk": "svfm_ros.types",
    "Slam": "svfm_ros.slam.slam",
    "WalkStore": "svfm_ros.walks.walk_store",
    "load_map": "svfm_ros.mapio",
}
"""Modules of the public names; those that are not listed are in ``svfm_ros.api``."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name == "__version__":
        from svfm_ros.installed_files import version

        return version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES.get(name, "svfm_ros.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__all__", "__doc__", "__version__"])
