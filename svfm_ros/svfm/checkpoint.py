"""A trained model in one file: weights, config, normaliser, schema version, metrics, and what its maker adds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from svfm_ros.config.options import from_mapping, to_mapping
from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import ConfigError, DataError
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.normaliser import Normaliser
from svfm_ros.svfm.tensor_file import read_tensors, write_tensors

__all__ = ["SCHEMA", "Checkpoint", "load_checkpoint", "save_checkpoint"]

SCHEMA = 1
"""Version of what a checkpoint holds; raise it when a field changes its meaning."""

_KIND = "svfm_ros model"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the file holds; ``extra`` is plain data or tensors that belong to the model but not to its networks."""

    model: MixtureModel
    normaliser: Normaliser
    metrics: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    model_id: str = ""


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write it atomically."""
    model, normaliser = checkpoint.model, checkpoint.normaliser
    payload = {
        "kind": _KIND,
        "schema": SCHEMA,
        "config": to_mapping(model.config),
        "weights": {name: x.detach().cpu() for name, x in model.state_dict().items()},
        "normaliser": {"shift": list(normaliser.shift), "scale": normaliser.scale},
        "metrics": checkpoint.metrics,
        "extra": checkpoint.extra,
        "model_id": checkpoint.model_id,
    }
    write_tensors(path, payload)


def load_checkpoint(path: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """Read it, or refuse it with one sentence: damaged, newer than this program, or not a checkpoint at all."""
    payload = read_tensors(path, _KIND, device)
    schema = payload.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise DataError(f"expected a checkpoint of schema {SCHEMA} or older at {path}, got {schema}: update svfm_ros")
    try:
        model = _revived(payload).to(device)
        normaliser = Normaliser(tuple(payload["normaliser"]["shift"]), payload["normaliser"]["scale"])
        return Checkpoint(model, normaliser, payload["metrics"], payload["extra"], payload["model_id"])
    except (KeyError, TypeError, RuntimeError, ConfigError) as error:
        raise DataError(f"expected a whole checkpoint at {path}, got one whose parts do not fit together") from error


def _revived(payload: dict[str, Any]) -> MixtureModel:
    model = MixtureModel(from_mapping(ModelConfig, payload["config"]))
    weights = payload["weights"]
    if any(not bool(torch.isfinite(x).all()) for x in weights.values()):
        raise DataError("expected finite weights, got NaN or infinity")
    dtype = weights["fields.net.weight0"].dtype
    model.to(dtype).load_state_dict(weights)
    return model.eval()
