"""The paper's grid (layers, units, batch size, learning rate), by validation loss on each set of points.

Every combination is trained once, for VF and for SVFM. The chosen one has the lowest validation loss. At the chosen
combination SVFM is also trained with forward filtering, the last choice of the paper's appendix B.1. The other
experiments use 2 layers, 32 units, batches of 100 and a rate of 0.01 for all models and sets.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from svfm_ros.experiments.classifiers import (
    GRID,
    SETS,
    ClassifierSpec,
    GridPoint,
    TrainedClassifier,
    accuracy,
    test_points,
    train_all,
)
from svfm_ros.experiments.experiment import ExperimentResult, Tick
from svfm_ros.targets import Check, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["run_grid"]

_MODELS = ("VF", "SVFM")
_STEPS, _QUICK_STEPS = 200, 10
_ACCURACY = 0.97  # target on test points of the chosen combination


def run_grid(quick: bool, tick: Tick) -> ExperimentResult:
    """Train all combinations and list their validation losses."""
    sets, steps, grid = (SETS[1:2], _QUICK_STEPS, (GRID[0], GridPoint())) if quick else (SETS, _STEPS, GRID)
    keys = [(points, kind) for points in sets for kind in _MODELS]
    specs = [ClassifierSpec(points, kind, steps=steps, point=g) for points, kind in keys for g in grid]
    trained = train_all(specs, tick)
    groups = {k: [t for t in trained if (t.spec.points, t.spec.kind) == k] for k in keys}
    chosen = {key: min(group, key=lambda t: t.valid_loss) for key, group in groups.items()}
    filtered = train_all(
        [
            ClassifierSpec(points, kind, steps=steps, point=best.spec.point, filtering=True)
            for (points, kind), best in chosen.items()
            if kind == "SVFM"
        ],
        tick,
    )
    losses = np.array([[t.valid_loss for t in group] for group in groups.values()]).T  # (grid points, columns)
    return ExperimentResult(
        "grid",
        f"validation loss (nats) over the paper's grid, {steps} steps, one seed; * is the chosen one",
        ("layers", "units", "batch", "rate", *(f"{points} {kind}" for points, kind in keys)),
        tuple(_row(point, row, losses.min(0)) for point, row in zip(grid, losses.tolist(), strict=True)),
        tuple(_check(t) for t in (*chosen.values(), *filtered)),
        lambda: _draw(losses, grid, [f"{points}\n{kind}" for points, kind in keys]),
        tuple(_note(key, groups[key], best, filtered) for key, best in chosen.items()),
    )


def _row(point: GridPoint, losses: list[float], best: np.ndarray) -> tuple[str, ...]:
    cells = (f"{loss:.4f}" + ("*" if loss == low else "") for loss, low in zip(losses, best.tolist(), strict=True))
    return (str(point.layers), str(point.units), str(point.batch), f"{point.rate:g}", *cells)


def _check(trained: TrainedClassifier) -> Check:
    spec = trained.spec
    name = f"{spec.points}, {spec.kind}{' with forward filtering' if spec.filtering else ''}"
    return at_least(f"{name}, chosen: test accuracy", accuracy(trained.model(), test_points(spec)), _ACCURACY)


def _note(
    key: tuple[str, str],
    group: list[TrainedClassifier],
    best: TrainedClassifier,
    filtered: list[TrainedClassifier],
) -> str:
    usual = next(t for t in group if t.spec.point == GridPoint())
    text = (
        f"{key[0]}, {key[1]}: chosen {best.valid_loss:.4f}, combination of the other experiments {usual.valid_loss:.4f}"
    )
    same = [t for t in filtered if (t.spec.points, t.spec.kind) == key]
    return f"{text}, chosen with forward filtering {same[0].valid_loss:.4f}" if same else text


def _draw(losses: np.ndarray, grid: Sequence[GridPoint], columns: list[str]) -> "Figure":
    """Validation losses as a heat map, the chosen combination of each column outlined."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(2.2 + 1.2 * len(columns), 6.4), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(losses, norm=LogNorm(), cmap="viridis_r", aspect="auto")
    for (row, column), loss in np.ndenumerate(losses):
        axis.text(column, row, f"{loss:.3f}", ha="center", va="center", fontsize=8, color="white")
    for column, row in enumerate(losses.argmin(0).tolist()):
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="#c53030", linewidth=2))
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(grid)), [f"{g.layers} × {g.units}, batch {g.batch}, {g.rate:g}" for g in grid])
    axis.set_title("validation loss; red: chosen", fontsize=11)
    figure.colorbar(image, label="nats")
    return figure
