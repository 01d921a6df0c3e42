"""From a model's networks to tables and plain numbers: the last that a forecast needs torch for."""

import numpy as np
import torch
from numpy.typing import NDArray

from svfm_ros.forecasting.field_tables import SPEEDS_MPS, FieldTable
from svfm_ros.forecasting.hidden_chain import HiddenChain
from svfm_ros.forecasting.tabled_model import TabledModel
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = ["tabulate"]

_CELL_M = 0.05
_MOST_CELLS = 240  # along an axis; larger floors get larger cells
_MARGIN_M = 1.0  # floor around the walks that is in the table; beyond it, its edge counts


def tabulate(model: WalkModel) -> TabledModel:
    """The same model, looked up instead of computed."""
    return TabledModel(model.config, model.dt_s, HiddenChain.of(model), _table(model))


def _table(model: WalkModel) -> FieldTable:
    """Evaluate all networks over the floor, once."""
    low = model.low.cpu().numpy().astype(float) - _MARGIN_M
    size = model.high.cpu().numpy().astype(float) + _MARGIN_M - low
    cell_m = max(_CELL_M, float(size.max()) / _MOST_CELLS)
    nx, ny = (int(n) for n in np.ceil(size / cell_m) + 1)
    x, y = np.meshgrid(low[0] + cell_m * np.arange(nx), low[1] + cell_m * np.arange(ny), indexing="ij")
    nodes = torch.as_tensor(np.stack([x, y], axis=-1).reshape(-1, 2), dtype=torch.float32, device=model.shift.device)
    rows = _evaluate(model, nodes)  # (nodes, K, 10)
    cells = np.ascontiguousarray(rows.transpose(1, 0, 2).reshape(-1, rows.shape[-1]))
    return FieldTable(cells, low.astype(np.float32), cell_m, (model.config.components, nx, ny))


@torch.inference_mode()
def _evaluate(model: WalkModel, nodes: torch.Tensor) -> NDArray[np.float32]:
    params = model.unit(nodes)
    spreads = torch.stack((torch.sqrt(params.tau_u), torch.sqrt(params.tau_v)), dim=-1)
    ends = [model.end_logit(nodes, nodes.new_full((len(nodes),), float(v))) for v in SPEEDS_MPS]
    return np.asarray(torch.cat((params.a, spreads, torch.stack(ends, dim=-1)), dim=-1).cpu().numpy())
