"""The gate, fitted to its end: who chooses which field, from where, at which hour.

The gate is small and its walks are few, so it is fitted on its own once the fields stand, with L-BFGS, and how strongly
it may depend on place and hour is decided by walks left out. Habits that change sharply at ten in the evening are found
where the walks show them; where there is no such thing, the gate stays flat.
"""

import torch
from torch import Tensor

from svfm_ros.svfm.fields import StackedMLP
from svfm_ros.svfm.pathlik import WalkBatch, forward, step_terms
from svfm_ros.svfm.walkmodel import WalkModel

__all__ = ["first_choices", "fit_gate"]

_DECAYS = (0.03, 0.3, 1.0, 3.0, 10.0)
_FOLDS = 5
_ROUNDS = 40
_FEWEST = 10  # walks; below, the flattest gate is taken


@torch.no_grad()
def first_choices(model: WalkModel, walks: WalkBatch) -> Tensor:
    """Probability (N, K) that each walk set out with each field, from the whole walk."""
    terms, chain = step_terms(model, walks), model.chain()
    k = model.config.components
    only = torch.where(torch.eye(k, dtype=torch.bool), 0.0, -1e6)  # (K, K)
    held = [forward(terms, chain, walks.steps, only[i].expand(len(walks.xy), k)).log_likelihood for i in range(k)]
    return torch.softmax(torch.stack(held, dim=1), dim=1)


def fit_gate(model: WalkModel, walks: WalkBatch, seed: int = 0) -> float:
    """Replace the gate's weights; gives the decay that walks left out preferred."""
    target = first_choices(model, walks)
    x = model.gate_features(walks.xy[:, 0], walks.hour).detach()
    generator = torch.Generator().manual_seed(seed)
    decay = _DECAYS[-1]
    if model.config.components > 1 and len(x) >= _FEWEST:
        fold = torch.randperm(len(x), generator=generator) % _FOLDS
        decay = min(_DECAYS, key=lambda d: _left_out(model, x, target, fold, d, seed))
    model.gate.load_state_dict(_fitted(model, x, target, decay, seed).state_dict())
    return decay


def _left_out(model: WalkModel, x: Tensor, target: Tensor, fold: Tensor, decay: float, seed: int) -> float:
    total = 0.0
    for f in range(_FOLDS):
        gate = _fitted(model, x[fold != f], target[fold != f], decay * (1.0 - 1.0 / _FOLDS), seed)
        with torch.no_grad():
            total += float(_cross_entropy(gate, x[fold == f], target[fold == f]))
    return total


def _fitted(model: WalkModel, x: Tensor, target: Tensor, decay: float, seed: int) -> StackedMLP:
    gate = model.new_gate(torch.Generator().manual_seed(seed))
    solver = torch.optim.LBFGS(gate.parameters(), max_iter=_ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        squares = torch.stack([w.square().sum() for w, _ in gate.weights()]).sum()
        value: Tensor = _cross_entropy(gate, x, target) + decay * squares
        value.backward()
        return value

    solver.step(loss)
    return gate


def _cross_entropy(gate: StackedMLP, x: Tensor, target: Tensor) -> Tensor:
    return -(target * torch.log_softmax(gate(x)[0], dim=-1)).sum()
