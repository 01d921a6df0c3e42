"""Walks from one start to two destinations, and a model of them; made once."""

from functools import cache

import numpy as np

from svfm_ros.types import Place, Places, Walk

MONDAY_NS = 1_793_613_600_000_000_000  # 2026-11-02, 10:00 UTC
KITCHEN, STUDY, ATTIC = (5.0, 0.0), (2.5, 4.0), (-4.0, -1.0)
PLACES = Places((Place("kitchen", *KITCHEN, 0.8, "#1f77b4"), Place("study", *STUDY, 0.8, "#d62728")))
CORNER = (2.5, 0.0)
ROUTES = {"kitchen": ((0.0, 0.0), KITCHEN), "study": ((0.0, 0.0), CORNER, STUDY), "attic": ((0.0, 0.0), ATTIC)}


def walk_along(route, seed, number, shift=(0.0, 0.0)):
    """A walk along straight lines at about 1 m/s, positions every 0.1 s with 5 mm of noise, one every ten minutes."""
    rng = np.random.default_rng([seed, number])
    corners = np.array(ROUTES[route]) + 0.05 * rng.standard_normal((len(ROUTES[route]), 2))
    reached = np.append(0.0, np.cumsum(np.hypot(*np.diff(corners, axis=0).T)))
    t = np.arange(0.0, reached[-1] / (1.0 + 0.1 * rng.standard_normal()), 0.1)
    along = t / t[-1] * reached[-1]
    xy = np.stack([np.interp(along, reached, corners[:, i]) for i in (0, 1)], axis=1)
    xy += 0.005 * rng.standard_normal(xy.shape) + shift
    stamps = MONDAY_NS + number * 600_000_000_000 + np.round(t * 1e9).astype(np.int64)
    return Walk(f"{route}-{seed}-{number}", "ada", stamps, np.column_stack([xy, np.zeros(len(t))]))


def walks(count=16, seed=0, shift=(0.0, 0.0)):
    """Every other walk to the kitchen, the others to the study."""
    return [walk_along(("kitchen", "study")[i % 2], seed, i, shift) for i in range(count)]


def to_the_attic(count=5, seed=0):
    """Walks to where nobody went before."""
    return [walk_along("attic", seed, 50 + i) for i in range(count)]


@cache
def model_file():
    """A model of 16 walks."""
    from svfm_ros.pipeline.learn import learn

    return learn(walks(), places=PLACES).file
