"""The gate, read off the walks: who chooses which field, from where, at which hour.

Once the fields stand, each walk says which of them it set out with. Walks that start near each other share their
habits, which may change with the hour (see ``habits``); where few walks start, the habits of all weigh in.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.forecasting.grouping import group_points
from svfm_ros.forecasting.habits import shares_by_hour
from svfm_ros.forecasting.likelihood import WalkBatch, forward, step_terms
from svfm_ros.forecasting.walk_model import ORIGINS, WalkModel

__all__ = ["first_choices", "fit_gate", "set_habits"]


@torch.no_grad()
def first_choices(model: WalkModel, walks: WalkBatch) -> Tensor:
    """Probability (N, K) that each walk set out with each field, from the whole walk."""
    terms, chain = step_terms(model, walks), model.chain()
    k = model.config.components
    only = torch.where(torch.eye(k, dtype=torch.bool), 0.0, -1e6)  # (K, K)
    held = [forward(terms, chain, walks.steps, only[i].expand(len(walks.xy), k)).log_likelihood for i in range(k)]
    return torch.softmax(torch.stack(held, dim=1), dim=1)


def fit_gate(model: WalkModel, walks: WalkBatch, seed: int = 0) -> None:
    """Replace the gate by what the walks say under the fields as they are."""
    set_habits(model, walks, first_choices(model, walks), seed)


@torch.no_grad()
def set_habits(model: WalkModel, walks: WalkBatch, choice: Tensor, seed: int = 0) -> None:
    """Write the gate from choices (N, K)."""
    start = walks.xy[:, 0].double().cpu().numpy()
    hour, chosen = walks.hour.double().cpu().numpy(), choice.double().cpu().numpy()
    origin = group_points(start, model.config.group_m, ORIGINS, seed)
    base = (chosen.sum(0) + 1.0 / chosen.shape[1]) / (len(chosen) + 1.0)
    model.habit_walks.zero_()
    for c in range(int(origin.max()) + 1):
        mine = origin == c
        model.habit_walks[c] = float(mine.sum())
        model.habit_xy[c] = torch.as_tensor(start[mine].mean(0))
        model.habit_log[c] = torch.as_tensor(_log_shares(hour[mine], chosen[mine], base))


def _log_shares(
    hour: NDArray[np.float64], chosen: NDArray[np.float64], base: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.asarray(np.log(shares_by_hour(hour, chosen, base)))
