"""A small model of walks along a line, and a store with the walks it came from; made once."""

from functools import cache

import numpy as np

from svfm_ros.pipeline.training_job import Task
from svfm_ros.types import Alignment, Place, Places, Pose2, Walk
from svfm_ros.walks.walk_store import WalkStore

START_NS = 1_793_613_600_000_000_000  # a morning, 10:00 UTC
KITCHEN = Place("kitchen", 4.0, 0.0, 1.0, "#1f77b4")


def walks(count=12, seed=0, first=0):
    """From the origin to the kitchen, at about 1 m/s, ten minutes apart."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(first, first + count):
        t = np.arange(0.0, 4.05, 0.1)
        x = 4.0 * t / 4.0
        y = 0.05 * rng.standard_normal() * np.sin(np.pi * t / 4.0)
        stamps = START_NS + i * 600_000_000_000 + np.round(t * 1e9).astype(np.int64)
        made.append(Walk(f"walk-{i:03d}", "resident", stamps, np.column_stack([x, y, np.zeros_like(t)])))
    return made


def fill_store(path, made):
    store = WalkStore.create(path)
    store.add_all(made)
    store.set_alignments([Alignment(w.walk_id, Pose2(), None, True, "made here") for w in made])
    return store


@cache
def tiny_file():
    """A model file with its place inside."""
    from svfm_ros.pipeline.learn import learn

    return learn(walks(), places=Places((KITCHEN,))).file


def save_tiny(path):
    from svfm_ros.forecasting.model_file import save_walk_model

    save_walk_model(path, tiny_file())
    return path


def quick_task(store, model):
    return Task(store=str(store), model=str(model), niceness=0)
