"""One training in a process of its own; ``python -m svfm_ros.pipeline.training_job`` reads its task from stdin.

It learns from the store's aligned walks and replaces the model file in one step, unless the model in use describes the
walks that it has not seen better than the new one does with these walks left out. Events are written as lines of JSON.
Killed at any moment, the process leaves a whole model file behind. It is killed with the process that started it: a
model that nobody announces must not replace one in use.
"""

import contextlib
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from svfm_ros.atomic_files import previous_of
from svfm_ros.config.forecast_config import WalkModelConfig, WalkTrainConfig
from svfm_ros.config.options import check, from_mapping, option
from svfm_ros.config.walk_config import PlacesConfig, WindowsConfig
from svfm_ros.errors import DataError, SvfmError
from svfm_ros.pipeline.live.process_control import die_with_parent

if TYPE_CHECKING:
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.types import Walk

__all__ = ["EventWriter", "Task", "main", "train"]


@dataclass(frozen=True, slots=True)
class Task:
    """What to learn from and where to put it."""

    store: str = option("", "folder of the walks")
    model: str = option("", "file of the model")
    places: str = option("", "places.yaml with names, or nothing")
    resident: str = option("", "whose walks; empty: everyone's")
    slack: float = option(0.02, "this much worse on new walks is no worse, nats per step", low=0.0)
    niceness: int = option(19, "niceness of the process", low=0, high=19)
    windows: WindowsConfig = field(default_factory=WindowsConfig)
    fields: WalkModelConfig = field(default_factory=WalkModelConfig)
    training: WalkTrainConfig = field(default_factory=WalkTrainConfig)
    found: PlacesConfig = field(default_factory=PlacesConfig)

    def __post_init__(self) -> None:
        check(self)


class EventWriter:
    """Lines of JSON to the process that started this one; ends this process when that one has gone."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._parent = os.getppid()

    def write(self, event: str, **figures: Any) -> None:
        """One line."""
        if os.getppid() != self._parent:
            raise SystemExit(0)
        self._out.write(json.dumps({"event": event, **figures}) + "\n")
        self._out.flush()

    def progress(self, done: int, total: int) -> None:
        """As ``learn`` calls it."""
        self.write("progress", step=done, steps=total)


def train(task: Task, events: EventWriter) -> None:
    """Learn, compare, and replace the model unless that makes forecasts worse."""
    from svfm_ros.forecasting.model_file import save_walk_model
    from svfm_ros.pipeline.learn import LearnConfig, learn
    from svfm_ros.walks.places import load_places

    walks, frame = _walks(task)
    old = _old(task)
    events.write("begin", walks=len(walks))
    named = load_places(Path(task.places)) if task.places else None
    config = LearnConfig(task.windows, task.fields, task.training, task.found)
    learned = learn(walks, config, places=named or _known_places(old), frame=frame, progress=events.progress)
    new_nll, old_nll = _compared(walks, old, config)
    accepted = old_nll is None or new_nll is None or new_nll <= old_nll + task.slack
    if accepted:
        save_walk_model(Path(task.model), learned.file, keeps_previous=old is not None)  # if it can be read
        if not previous_of(Path(task.model)).exists():  # the first model: should its file be damaged, this copy is used
            save_walk_model(previous_of(Path(task.model)), learned.file)
    events.write(
        "done",
        accepted=accepted,
        model_id=learned.file.model_id,
        walks=len(walks),
        places=len(learned.file.metrics["places"]),
        held_out_nll=learned.left_out_nll,
        new_nll=new_nll,
        old_nll=old_nll,
        seconds=learned.seconds,
    )


def _walks(task: Task) -> "tuple[list[Walk], str]":
    """The aligned walks and their frame."""
    from svfm_ros.walks.walk_store import WalkStore

    store = WalkStore.open(Path(task.store))
    walks = list(store.aligned_walks(task.resident or None))
    if len(walks) < 2:
        raise DataError(f"expected two or more walks with a pose in the house, got {len(walks)} of {len(store)}")
    return walks, store.frame


def _old(task: Task) -> "WalkModelFile | None":
    """The model in use, if it can be compared; one that cannot be read, or of another time step, is replaced."""
    from svfm_ros.forecasting.model_file import load_walk_model

    try:
        old = load_walk_model(Path(task.model))
    except SvfmError:
        return None
    return old if old.model.dt_s == task.windows.dt_s and old.time_zone == task.windows.time_zone else None


def _known_places(old: "WalkModelFile | None") -> Any:
    from svfm_ros.forecasting.model_file import places_from

    return None if old is None else places_from(old.metrics)


def _compared(walks: "list[Walk]", old: "WalkModelFile | None", config: Any) -> "tuple[float | None, float | None]":
    """NLL per step on the walks that the old model has not seen: of a model learnt without them, and of the old one.

    Both are None where there is nothing to compare.
    """
    from svfm_ros.pipeline.learn import learn, nll_per_step
    from svfm_ros.pipeline.walk_input import fingerprint

    if old is None:
        return None, None
    seen = set(old.footprints.names)
    unseen = [w for w in walks if fingerprint(w) not in seen]
    rest = [w for w in walks if fingerprint(w) in seen]
    if not unseen or len(rest) < 2:
        return None, None
    return nll_per_step(learn(rest, config).file, unseen), nll_per_step(old, unseen)


def _lower_priority(niceness: int) -> None:
    """Lower the priority: forecasts are due within milliseconds, a model within minutes."""
    os.nice(niceness)
    with contextlib.suppress(OSError, AttributeError):  # where the system has no such thing
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> int:
    """Do the task on standard input."""
    die_with_parent()
    events = EventWriter(sys.stdout)
    try:
        task = from_mapping(Task, json.load(sys.stdin))
        _lower_priority(task.niceness)
        train(task, events)
    except SvfmError as error:
        events.write("failed", reason=str(error))
        return 2
    except OSError as error:
        events.write("failed", reason=f"cannot use {error.filename or 'the disk'}: {error.strerror}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
