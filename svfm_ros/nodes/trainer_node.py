"""Walks in; a model that keeps learning, announced on ``model`` (latched), out.

    ros2 run svfm_ros trainer_node --ros-args -p store:=walks

Training is a process of its own (``training_job``) and never holds up the graph. The model in use is announced at
start-up; it is replaced, and the new one announced, only when the new one is no worse on walks that neither has seen.
``~/train_now`` does not wait for more walks.
"""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nav_msgs.msg import Path as PathMessage
from rclpy.clock import Clock, ClockType
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger

from svfm_ros.config.node_config import LIVE_SECTIONS, TrainerNodeConfig
from svfm_ros.errors import SvfmError
from svfm_ros.nodes.messages.announcement import Announcement
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.diagnostics import WARN, Diagnostics, Health, worst
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.pipeline.device_name import device_name
from svfm_ros.pipeline.training_job import Task
from svfm_ros.pipeline.training_process import Trainer
from svfm_ros.walks.places import load_places
from svfm_ros.walks.walk_store import WalkStore, is_store

__all__ = ["TrainerNode", "main", "make"]

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_WALKS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_STEADY = Clock(clock_type=ClockType.STEADY_TIME)
_LOOK_S = 0.5
_MODEL_NAME = "model.pt"


class TrainerNode(ConfiguredNode[TrainerNodeConfig]):
    """Watches the store and the topic ``walk``."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("trainer_node", TrainerNodeConfig, live_sections=LIVE_SECTIONS["trainer_node"], **node_options)
        config = self.config
        self._device = device_name(config.device)
        if config.places:
            load_places(Path(config.places).expanduser())  # refuse it now rather than at the first training
        self._folder = Path(config.store).expanduser() if config.store else None
        self._model = self._model_path(config)
        self._walks = self._learned = 0
        self._next_look_s = 0.0
        self._announced = ""
        self._problem = ""
        self._trainer = Trainer(self._judge)
        self._publisher = self.create_publisher(String, "model", _LATCHED)
        self._ready = threading.Event()
        threading.Thread(target=self._announce_what_is_there, name="first model", daemon=True).start()
        self.create_subscription(PathMessage, "walk", self._hear, _WALKS)
        self.create_service(Trigger, "~/train_now", self._train_now)
        self.create_timer(_LOOK_S, self._look, clock=_STEADY)
        Diagnostics(self, "training", self._health)

    def close(self) -> None:
        """End a training under way and leave the graph."""
        self._trainer.close()
        super().close()

    @staticmethod
    def _model_path(config: TrainerNodeConfig) -> Path | None:
        if config.model:
            return Path(config.model).expanduser().absolute()
        return Path(config.store).expanduser().absolute() / _MODEL_NAME if config.store else None

    def _announce_what_is_there(self) -> None:
        """The last good model, for those who come first; in a thread of its own, for reading it takes seconds."""
        try:
            if self._model is not None and self._model.exists():
                from svfm_ros.forecasting.table_file import open_model

                file = open_model(self._model)
                self._learned = int(file.metrics.get("walks_seen", 0))
                self._announce(file.model_id, self._learned, file.metrics.get("held_out_nll"))
        except SvfmError as error:
            self.get_logger().error(f"the model is not used: {error}")
        finally:
            self._ready.set()

    def _announce(self, model_id: str, walks: int, held_out_nll: float | None) -> None:
        if not self.context.ok():
            return
        announced = Announcement(str(self._model), model_id, walks, held_out_nll)
        self._publisher.publish(String(data=announced.to_text()))
        self._announced = model_id

    # When to train

    def _hear(self, _message: PathMessage) -> None:
        self._next_look_s = 0.0  # the walk is in the store before it is announced

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + self.config.look_s
            self._count()
        config = self.config
        new = self._walks - self._learned
        rested = now_s - self._trainer.ended_s >= config.min_interval_s and self._ready.is_set()
        if rested and not self._trainer.busy and self._walks >= config.min_walks and new >= config.min_new_walks:
            self._begin()

    def _count(self) -> None:
        """Walks in the store, those of other programs too."""
        if self._folder is None or not is_store(self._folder):
            self._next_look_s = 0.0  # it may come any moment
            return
        try:
            entries = WalkStore.open(self._folder).entries
        except SvfmError as error:
            self._say(str(error))
            return
        self._problem = ""
        self._walks = sum(not self.config.resident or e.resident == self.config.resident for e in entries)

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self.get_logger().error(problem)
        self._problem = problem

    def _begin(self) -> bool:
        config = self.config
        task = Task(
            store=str(self._folder),
            model=str(self._model),
            places=str(Path(config.places).expanduser()) if config.places else "",
            resident=config.resident,
            held_out_share=config.held_out_share,
            slack=config.slack,
            niceness=config.niceness,
            device=config.device,
            windows=config.windows,
            fields=config.fields,
            training=config.training,
            found=config.found,
        )
        if not self._trainer.begin(task):
            return False
        self._learned = self._walks
        self.get_logger().info(f"training on {self._walks} walks")
        return True

    def _train_now(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._count()
        if not self._ready.is_set():
            response.success, response.message = False, "the model is still being read: try again"
        elif self._walks < 2:
            response.success, response.message = False, f"expected two or more walks, got {self._walks}"
        elif self._begin():
            response.success, response.message = True, f"training on {self._walks} walks"
        else:
            response.success, response.message = False, "a training is under way"
        return response

    # From the thread that follows the training

    def _judge(self, done: Mapping[str, Any]) -> None:
        if not self.context.ok():
            return
        new, old = done["held_out_nll"], done["old_nll"]
        against = "" if old is None else f", the old one {old:.3f}"
        verdict = "in use from now on" if done["accepted"] else "not used: it is worse"
        self.get_logger().info(
            f"model {done['model_id']} from {done['walks']} walks in {done['seconds']:.0f} s: "
            f"{new:.3f} nats per step on held-out walks{against}; {verdict}"
        )
        if done["accepted"]:
            self._announce(done["model_id"], done["walks"], new)

    # Diagnostics

    def _health(self) -> Health:
        state = self._trainer.state
        no_store = self._folder is None
        level, reason = worst(
            (bool(self._problem), WARN, self._problem),
            (bool(state.problem), WARN, state.problem),
            (no_store, WARN, "no store is given: there is nothing to learn from"),
            (not no_store and not self._walks, WARN, f"there are no walks in {self._folder}"),
        )
        return Health(
            level,
            reason,
            {
                "state": state.state,
                "step": f"{state.step} of {state.steps}",
                "training_loss": state.loss,
                "walks": self._walks,
                "walks_learned": self._learned,
                "trainings": state.trainings,
                "models_accepted": state.accepted,
                "held_out_nll": state.held_out_nll,
                "model": self._announced or "none",
                "model_path": str(self._model or ""),
                "device": self._device,
            },
        )


make = TrainerNode


def main(args: Sequence[str] | None = None) -> int:
    """Run training in this process."""
    return run_node("trainer_node", TrainerNode, args)


if __name__ == "__main__":
    sys.exit(main())
