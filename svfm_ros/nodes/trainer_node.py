"""ROS node: trains a model on the walks of a store and announces it on ``model`` (latched).

    ros2 run svfm_ros trainer_node --ros-args -p store:=walks

Training runs in a process of its own (``pipeline.training_job``). The current model is announced at start-up; a new
one replaces it only when its score on held-out walks is not worse. ``~/train_now`` trains at once.
"""

import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nav_msgs.msg import Path as PathMessage
from std_msgs.msg import String
from std_srvs.srv import Trigger

from svfm_ros.config.node_config import LIVE_SECTIONS, TrainerNodeConfig
from svfm_ros.errors import SvfmError
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.diagnostics import WARN, Diagnostics, Health, worst
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.subscriptions import LATCHED, LATCHED_WALKS, STEADY
from svfm_ros.pipeline.live.model_announcement import ModelAnnouncement, SigningKey
from svfm_ros.pipeline.live.model_in_use import model_in_use
from svfm_ros.pipeline.live.training_process import TrainingProcess
from svfm_ros.pipeline.training_job import Task
from svfm_ros.walks.places import load_places, places_file
from svfm_ros.walks.walk_store import WalkStore, is_store

__all__ = ["TrainerNode", "main", "make"]

_CHECK_S = 0.5
_MODEL_NAME = "model.pt"


class TrainerNode(ConfiguredNode[TrainerNodeConfig]):
    """Trains when the store has enough new walks."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("trainer_node", TrainerNodeConfig, live_sections=LIVE_SECTIONS["trainer_node"], **node_options)

    def configure(self) -> None:
        """Check the options and make the publisher."""
        config = self.config
        if config.places:
            load_places(Path(config.places).expanduser())  # raises now rather than at the first training
        self._folder = Path(config.store).expanduser() if config.store else None
        self._model = self._model_path(config)
        self._walks = self._tried = self._learned = 0  # in the store, in the last training, in the model in use
        self._next_count_s = 0.0
        self._announced = ""
        self._problem = ""
        self._training = TrainingProcess(self._report_result)
        self._publisher = self.create_publisher(String, "model", LATCHED)
        self._ready = threading.Event()

    def activate(self) -> None:
        """Announce the current model, and train when there are enough new walks."""
        self._count_walks()
        threading.Thread(target=self._announce_current, name="first model", daemon=True).start()
        self.create_subscription(PathMessage, "walk", self._receive_walk, LATCHED_WALKS)
        self.create_limited_service("train_now", self._train_now)
        self.create_timer(_CHECK_S, self._train_when_due, clock=STEADY)
        Diagnostics(self, "training", self._health)

    def cleanup(self) -> None:
        """Stop the training process."""
        self._training.close()

    @staticmethod
    def _model_path(config: TrainerNodeConfig) -> Path | None:
        if config.model:
            return Path(config.model).expanduser().absolute()
        return Path(config.store).expanduser().absolute() / _MODEL_NAME if config.store else None

    def _announce_current(self) -> None:
        """Announce the model of an earlier run; in a thread of its own, because reading it may take seconds."""
        try:
            if self._model is not None and self._model.exists():
                current = model_in_use(self._model)
                self._tried = current.walks_seen
                self._announce(current.model_id, current.walks_seen, current.held_out_nll)
        except (SvfmError, OSError) as error:
            self.get_logger().error(f"the model is not used: {error}")
        finally:
            self._ready.set()

    def _announce(self, model_id: str, walks: int, held_out_nll: float | None) -> None:
        if not self.context.ok():
            return
        announced = ModelAnnouncement(str(self._model), model_id, walks, held_out_nll)
        key = SigningKey.create(Path(str(self._model)).parent)
        self._publisher.publish(String(data=announced.to_text(key)))
        self._announced, self._learned = model_id, walks

    # When to train

    def _receive_walk(self, _message: PathMessage) -> None:
        self._next_count_s = 0.0  # a walk is stored before it is published

    def _train_when_due(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_count_s:
            self._next_count_s = now_s + self.config.look_s
            self._count_walks()
        config = self.config
        needed_new = config.min_new_walks if self._announced else 1
        paused = now_s - self._training.ended_s >= config.min_interval_s and self._ready.is_set()
        enough = self._walks >= config.min_walks and self._walks - self._tried >= needed_new
        if paused and enough and not self._training.busy:
            self._start_training()

    def _count_walks(self) -> None:
        """Count the walks of the store, with those added by other programs."""
        if self._folder is None or not is_store(self._folder):
            self._next_count_s = 0.0  # check again soon
            return
        try:
            entries = WalkStore.open(self._folder).entries
        except SvfmError as error:
            self._report(str(error))
            return
        self._problem = ""
        self._walks = sum(not self.config.resident or e.resident == self.config.resident for e in entries)

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            self.get_logger().error(problem)
        self._problem = problem

    def _start_training(self) -> bool:
        config = self.config
        task = Task(
            store=str(self._folder),
            model=str(self._model),
            places=str(self._places() or ""),
            resident=config.resident,
            slack=config.slack,
            niceness=config.niceness,
            windows=config.windows,
            fields=config.fields,
            training=config.training,
            found=config.found,
        )
        if not self._training.begin(task):
            return False
        self._tried = self._walks
        self.get_logger().info(f"training on {self._walks} walks")
        return True

    def _places(self) -> Path | None:
        """The file of named places: the given one, otherwise places.yaml in the store if there is one by now."""
        given = Path(self.config.places).expanduser() if self.config.places else None
        return places_file(given, self._folder / "map.yaml" if self._folder else None)

    def _train_now(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._count_walks()
        if not self._ready.is_set():
            response.success, response.message = False, "the model is still being read: try again"
        elif self._walks < 2:
            response.success, response.message = False, f"expected two or more walks, got {self._walks}"
        elif self._start_training():
            response.success, response.message = True, f"training on {self._walks} walks"
        else:
            response.success, response.message = False, "training is running already"
        return response

    # Called by the thread that follows the training process

    def _report_result(self, done: Mapping[str, Any]) -> None:
        if not self.context.ok():
            return
        new, old = done["held_out_nll"], done["old_nll"]
        compared = "" if old is None else f" (the old model: {old:.3f})"
        result = "used from now on" if done["accepted"] else "not used because it is worse"
        self.get_logger().info(
            f"model {done['model_id']} from {done['walks']} walks in {done['seconds']:.0f} s: "
            f"{new:.3f} nats per step on held-out walks{compared}; {result}"
        )
        if done["accepted"]:
            self._announce(done["model_id"], done["walks"], new)

    # Diagnostics

    def _health(self) -> Health:
        state = self._training.state
        no_store = self._folder is None
        level, reason = worst(
            (bool(self._problem), WARN, self._problem),
            (bool(state.problem), WARN, state.problem),
            (no_store, WARN, "the parameter store is not set: there are no walks to train on"),
        )
        return Health(
            level,
            reason,
            {
                "state": state.state,
                "step": f"{state.step} of {state.steps}",
                "walks": self._walks,
                "walks_learned": self._learned,
                "walks_in_training": self._tried,
                "walks_needed": self.config.min_walks,
                "trainings": state.trainings,
                "models_accepted": state.accepted,
                "held_out_nll": state.held_out_nll,
                "model": self._announced or "none",
                "model_path": str(self._model or ""),
            },
        )


make = TrainerNode
main = partial(run_node, "trainer_node", TrainerNode)

if __name__ == "__main__":
    sys.exit(main())
