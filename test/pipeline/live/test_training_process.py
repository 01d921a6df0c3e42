"""Trainings in a process of their own, on a real store: results, failures, one at a time, and the end."""

import os
import queue
import select
import signal
import sys
import threading
import time
from multiprocessing import get_context

import pytest
from tinymodel import fill_store, quick_task, walks

from svfm_ros.forecasting.model_file import load_walk_model
from svfm_ros.pipeline.live.training_process import TrainingProcess


def join_training() -> None:
    """Wait until no thread follows a training any more."""
    for thread in threading.enumerate():
        if thread.name == "training":
            thread.join()


def test_a_training_writes_a_model_and_reports_it(tmp_path):
    store = fill_store(tmp_path / "store", walks())
    results: queue.Queue = queue.Queue()
    process, task = TrainingProcess(results.put), quick_task(store.path, tmp_path / "model.pt")
    assert process.state.state == "idle"
    assert process.begin(task)
    assert process.busy
    assert not process.begin(task)  # one at a time
    join_training()
    result, state = results.get_nowait(), process.state
    assert result["accepted"]
    assert result["model_id"] == load_walk_model(tmp_path / "model.pt").model_id
    assert (state.state, state.problem, state.trainings, state.accepted) == ("idle", "", 1, 1)
    assert state.walks == len(store)
    assert state.step == state.steps > 0
    assert state.held_out_nll == result["held_out_nll"]
    assert process.ended_s > 0.0


def test_a_training_that_fails_says_why_and_leaves_no_model(tmp_path):
    store = fill_store(tmp_path / "store", walks()[:1])
    results: queue.Queue = queue.Queue()
    process = TrainingProcess(results.put)
    assert process.begin(quick_task(store.path, tmp_path / "model.pt"))
    join_training()
    assert results.empty()
    assert "expected two or more walks" in process.state.problem
    assert (process.state.state, process.state.trainings) == ("idle", 0)
    assert not (tmp_path / "model.pt").exists()


def test_after_close_no_training_begins_and_none_goes_on(tmp_path):
    store = fill_store(tmp_path / "store", walks())
    process, task = TrainingProcess(lambda _: None), quick_task(store.path, tmp_path / "model.pt")
    assert process.begin(task)
    process.close()
    join_training()
    assert not process.busy
    assert process.state.problem == ""  # it was ended on purpose
    assert not process.begin(task)


def test_close_ends_a_training_by_sigterm(tmp_path, monkeypatch):
    job = tmp_path / "endless"  # in place of Python: a job that ends on SIGTERM alone, with a code of its own
    job.write_text(
        '#!/bin/sh\ntrap \'exit 7\' TERM\necho \'{"event": "begin", "walks": 3}\'\nwhile :; do sleep 0.01; done\n'
    )
    job.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(job))
    process = TrainingProcess(lambda _: None)
    assert process.begin(quick_task(tmp_path / "store", tmp_path / "model.pt"))
    while process.state.walks != 3:  # the job runs and has set its trap
        time.sleep(0.001)
    running = process._process
    process.close()
    join_training()
    assert running.returncode == 7


def train_until_killed(task, pids):
    process = TrainingProcess(lambda _: None)
    assert process.begin(task)
    while process.state.walks != 3:
        time.sleep(0.001)
    pids.send(process._process.pid)
    signal.pause()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux does it")
def test_a_training_does_not_outlive_who_started_it(tmp_path, monkeypatch):
    job = tmp_path / "endless"  # a training that has nothing to tell: it would not find out by itself
    job.write_text(
        f"#!{sys.executable}\nimport signal\nfrom svfm_ros.pipeline import training_job\n\n"
        "def train(task, events):\n    events.write('begin', walks=3)\n    signal.pause()\n\n"
        "training_job.train = train\ntraining_job.main()\n"
    )
    job.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(job))
    context = get_context("fork")
    received, sent = context.Pipe(duplex=False)
    task = quick_task(tmp_path / "store", tmp_path / "model.pt")
    parent = context.Process(target=train_until_killed, args=(task, sent))
    parent.start()
    handle = os.pidfd_open(received.recv())  # the pid cannot be taken by another process while we look
    parent.kill()
    parent.join()
    ready, _, _ = select.select([handle], [], [], 60.0)
    os.close(handle)
    assert ready, "the training outlived the trainer"
