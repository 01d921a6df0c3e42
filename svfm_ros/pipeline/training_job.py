"""One training in a process of its own; ``python -m svfm_ros.pipeline.training_job`` reads its task from stdin.

It learns from the store's placed walks, judges the new model and the old one on walks that neither has seen, and puts
the new one in the old one's place, in one step, only when it is no worse. What happens is told in lines of JSON.
Whoever is killed at whatever moment, the file is a whole model. No ROS in here.
"""

import contextlib
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from svfm_ros.config.forecast_config import PathTrainConfig, WalkModelConfig
from svfm_ros.config.options import check, from_mapping, option
from svfm_ros.config.walk_config import PlacesConfig, WindowsConfig
from svfm_ros.errors import DataError, SvfmError

if TYPE_CHECKING:
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.types import Places, Walk, WalkWindows
    from svfm_ros.walks.windows import WalkSplit

__all__ = ["Task", "main", "train"]

_PROGRESS_EVERY = 5  # steps


@dataclass(frozen=True, slots=True)
class Task:
    """What to learn from and where to put it."""

    store: str = option("", "folder of the walks")
    model: str = option("", "file of the model")
    places: str = option("", "places.yaml with names, or nothing")
    resident: str = option("", "whose walks; empty: everyone's")
    held_out_share: float = option(0.2, "share of the walks to judge by", low=0.05, high=0.5)
    slack: float = option(0.02, "this much worse is no worse, nats per step", low=0.0)
    niceness: int = option(19, "how far to stand back", low=0, high=19)
    device: str = option("cpu", "where to train: auto, cpu or cuda:N")
    windows: WindowsConfig = field(default_factory=WindowsConfig)
    fields: WalkModelConfig = field(default_factory=WalkModelConfig)
    training: PathTrainConfig = field(default_factory=PathTrainConfig)
    found: PlacesConfig = field(default_factory=PlacesConfig)

    def __post_init__(self) -> None:
        check(self)


class Teller:
    """Lines of JSON to whoever started this; when they are gone there is no one left to work for."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._parent = os.getppid()

    def tell(self, event: str, **figures: Any) -> None:
        """One line."""
        if os.getppid() != self._parent:
            raise SystemExit(0)
        self._out.write(json.dumps({"event": event, **figures}) + "\n")
        self._out.flush()

    def progress(self, step: int, loss: float) -> None:
        """As training calls it."""
        if step % _PROGRESS_EVERY == 0:
            self.tell("progress", step=step, loss=loss)


def train(task: Task, teller: Teller) -> None:
    """Learn, judge, and replace the model if that does not make things worse."""
    from svfm_ros.forecasting.fit import as_batch, held_out_nll, train_paths
    from svfm_ros.forecasting.model_file import Footprints, WalkModelFile, save_walk_model
    from svfm_ros.forecasting.table_file import open_model
    from svfm_ros.svfm.torch_device import pick_device
    from svfm_ros.walks.windows import make_windows, split_by_walk

    walks = _walks(task)
    windows = make_windows(walks, task.windows, _frame(task))
    split = split_by_walk(windows, task.held_out_share)
    judged = as_batch(split.held_out, _ended(split.held_out))
    old = _old(task, split)
    teller.tell("begin", walks=len(walks), held_out=len(split.held_out), steps=task.training.steps)
    trained = train_paths(
        as_batch(split.train),
        windows.dt_s,
        task.fields,
        task.training,
        progress=teller.progress,
        device=pick_device(task.device),
    )
    new_nll = held_out_nll(trained.model, judged)
    old_nll = None if old is None else held_out_nll(old.model, judged)
    places = _places(task, walks, old)
    metrics = {
        "held_out_nll": new_nll,
        "training_nll": trained.nll,
        "walks_seen": len(walks),
        **_as_data(places),
    }
    new = WalkModelFile(trained.model, Footprints.of(split.train), windows.frame, windows.time_zone, metrics)
    accepted = old_nll is None or new_nll <= old_nll + task.slack
    if accepted:
        save_walk_model(Path(task.model), new)
        open_model(Path(task.model))  # puts tables beside it: whoever forecasts with it then needs no torch
    figures = {"held_out_nll": new_nll, "old_nll": old_nll, "training_nll": trained.nll, "seconds": trained.seconds}
    teller.tell("done", accepted=accepted, model_id=new.model_id, walks=len(walks), places=len(places), **figures)


def _walks(task: Task) -> "list[Walk]":
    from svfm_ros.walks.walk_store import WalkStore

    store = WalkStore.open(Path(task.store))
    walks = list(store.placed_walks(task.resident or None))
    if len(walks) < 2:
        raise DataError(f"expected two or more walks with a place in the house, got {len(walks)} of {len(store)}")
    return walks


def _frame(task: Task) -> str:
    from svfm_ros.walks.walk_store import WalkStore

    return WalkStore.open(Path(task.store)).frame


def _ended(windows: "WalkWindows") -> Any:
    """All rows count as ended at their end: the judge must be the same for both models."""
    import numpy as np

    return np.ones(len(windows), dtype=np.bool_)


def _old(task: Task, split: "WalkSplit") -> "WalkModelFile | None":
    """The model in use, if it can be compared; one that cannot be read, or of another tick, is replaced."""
    from svfm_ros.forecasting.model_file import load_walk_model

    try:
        old = load_walk_model(Path(task.model))
    except SvfmError:
        return None
    return old if old.model.dt_s == split.train.dt_s and old.time_zone == split.train.time_zone else None


def _places(task: Task, walks: "list[Walk]", old: "WalkModelFile | None") -> "Places":
    """Named places first, then those known before, then new ones."""
    from svfm_ros.forecasting.model_places import places_from
    from svfm_ros.walks.places import find_places_of_walks, load_places

    known = load_places(Path(task.places)) if task.places else places_from(old.metrics if old else {})
    return find_places_of_walks(walks, known, task.found)


def _as_data(places: "Places") -> dict[str, Any]:
    from svfm_ros.forecasting.model_places import places_to

    return places_to(places)


def _stand_back(niceness: int) -> None:
    """Live nodes come first: their answers are due within milliseconds, a model within minutes."""
    os.nice(niceness)
    with contextlib.suppress(OSError, AttributeError):  # where the system has no such thing
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> int:
    """Do the task on standard input."""
    teller = Teller(sys.stdout)
    try:
        task = from_mapping(Task, json.load(sys.stdin))
        _stand_back(task.niceness)
        train(task, teller)
    except SvfmError as error:
        teller.tell("failed", reason=str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
