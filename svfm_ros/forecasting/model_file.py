"""A trained walk model in one file, with all that a forecast needs to know about the walks it rests on."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.config.options import from_mapping, to_mapping
from svfm_ros.errors import ConfigError, DataError
from svfm_ros.forecasting.footprints import Footprints
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.svfm.tensor_file import read_tensors, write_tensors

__all__ = ["SCHEMA", "Footprints", "WalkModelFile", "load_walk_model", "save_walk_model"]

SCHEMA = 3
"""Version of what the file holds; raise it when a field changes its meaning."""

_KIND = "svfm_ros walk model"


@dataclass(frozen=True, slots=True)
class WalkModelFile:
    """What the file holds."""

    model: WalkModel
    footprints: Footprints
    frame: str = "map"
    time_zone: str = "UTC"
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def model_id(self) -> str:
        """A short name that changes whenever a weight does."""
        digest = hashlib.blake2b(digest_size=6)
        for name, x in sorted(self.model.state_dict().items()):
            digest.update(name.encode() + x.detach().cpu().numpy().tobytes())
        return digest.hexdigest()


def save_walk_model(path: Path, saved: WalkModelFile) -> None:
    """Write it atomically: a reader sees the old model or the new one."""
    model = saved.model
    write_tensors(
        Path(path),
        {
            "kind": _KIND,
            "schema": SCHEMA,
            "config": to_mapping(model.config),
            "dt_s": model.dt_s,
            "weights": {name: x.detach().cpu() for name, x in model.state_dict().items()},
            "footprints": torch.as_tensor(saved.footprints.xy),
            "footprint_walk": torch.as_tensor(saved.footprints.walk),
            "frame": saved.frame,
            "time_zone": saved.time_zone,
            "metrics": saved.metrics,
        },
    )


def load_walk_model(path: Path, device: torch.device | str = "cpu") -> WalkModelFile:
    """Read it, or refuse it with one sentence."""
    payload = read_tensors(Path(path), _KIND, device)
    schema = payload.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise DataError(f"expected a walk model of schema {SCHEMA} at {path}, got {schema}: update svfm_ros")
    if schema < SCHEMA:
        raise DataError(f"expected a walk model of schema {SCHEMA} at {path}, got {schema}: train it anew (svfm train)")
    try:
        model = WalkModel(from_mapping(WalkModelConfig, payload["config"]), payload["dt_s"])
        model.load_state_dict(payload["weights"])
        steps = Footprints(payload["footprints"].cpu().numpy(), payload["footprint_walk"].cpu().numpy())
        found = WalkModelFile(
            model.to(device).eval(), steps, payload["frame"], payload["time_zone"], payload["metrics"]
        )
    except (KeyError, TypeError, AttributeError, RuntimeError, ConfigError) as error:
        raise DataError(f"expected a whole walk model at {path}, got one whose parts do not fit together") from error
    if not all(bool(torch.isfinite(x).all()) for x in model.state_dict().values()):
        raise DataError(f"expected finite weights in {path}, got NaN or infinity")
    return found
