"""What an experiment leaves behind: a table, figures held against their bars, and a picture."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.targets import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ExperimentResult", "Tick", "save_figure"]

Tick = Callable[[str], None]
"""Called now and then with what is being done; moves the progress bar."""


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """One experiment of the paper, done again."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    checks: tuple[Check, ...]
    draw: Callable[[], "Figure"]
    notes: tuple[str, ...] = field(default=())  # what a reader of the table must know: a miss and its reason


def save_figure(figure: "Figure", stem: Path) -> tuple[Path, Path]:
    """Write ``stem.png`` and ``stem.svg``."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    figure.savefig(png, dpi=130)
    figure.savefig(svg)
    return png, svg
