"""Runs one training at a time in a process of its own and follows its progress. No ROS in here."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from svfm_ros.config.options import to_mapping
from svfm_ros.pipeline.training_job import Task

__all__ = ["TrainingProcess", "TrainingState"]

_STOP_TIMEOUT_S = 3.0
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class TrainingState:
    """Progress of the current training, or result of the last one."""

    state: str = "idle"  # or: training
    step: int = 0
    steps: int = 0
    walks: int = 0
    trainings: int = 0  # completed
    accepted: int = 0  # models that were not worse than the one before
    held_out_nll: float = float("nan")
    problem: str = ""


class TrainingProcess:
    """``on_done`` is called with the result of each completed training, accepted or not, from a thread of its own."""

    def __init__(self, on_done: Callable[[Mapping[str, Any]], None]) -> None:
        self._on_done = on_done
        self._lock = threading.Lock()
        self._state = TrainingState()
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self.ended_s = -1e9  # when the last training ended, monotonic

    @property
    def state(self) -> TrainingState:
        """The current state."""
        with self._lock:
            return self._state

    @property
    def busy(self) -> bool:
        """Whether a training is running."""
        return self.state.state == "training"

    def begin(self, task: Task) -> bool:
        """Start a training; False when one is running."""
        with self._lock:
            if self._closed or self._state.state == "training":
                return False
            self._change(state="training", step=0, problem="")
        threading.Thread(target=self._follow, args=[task], name="training", daemon=True).start()
        return True

    def close(self) -> None:
        """Terminate the running training; the current model stays."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _change(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)

    def _follow(self, task: Task) -> None:
        done: Mapping[str, Any] | None = None
        try:
            problem, done = self._run(task)
        except OSError as error:
            problem = f"training cannot be started: {error.strerror}"
        with self._lock:
            self.ended_s = time.monotonic()
            self._change(state="idle", problem="" if self._closed else problem)
            self._process = None
        if done is not None:
            self._on_done(done)

    def _run(self, task: Task) -> tuple[str, Mapping[str, Any] | None]:
        """Returns the problem (empty: none) and the result of a completed training."""
        command = [sys.executable, "-m", "svfm_ros.pipeline.training_job"]
        one_thread = dict.fromkeys(_THREADS, "1")
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **one_thread}
        )
        with self._lock:
            self._process = process
            if self._closed:
                process.terminate()
        if process.stdin is None or process.stdout is None:
            raise OSError("no pipes")
        with process.stdin:
            json.dump(to_mapping(task), process.stdin)
        problem, done = "", None
        for line in process.stdout:
            event = json.loads(line)
            problem = problem or self._take(event)
            done = event if event["event"] == "done" else done
        code = process.wait()
        return problem or ("" if done else f"training ended with code {code}"), done

    def _take(self, event: Mapping[str, Any]) -> str:
        kind = event["event"]
        if kind == "failed":
            return str(event["reason"])
        with self._lock:
            if kind == "begin":
                self._change(walks=event["walks"])
            elif kind == "progress":
                self._change(step=event["step"], steps=event["steps"])
            elif kind == "done":
                accepted = self._state.accepted + bool(event["accepted"])
                self._change(trainings=self._state.trainings + 1, accepted=accepted, held_out_nll=event["held_out_nll"])
        return ""
