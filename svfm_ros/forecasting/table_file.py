"""A model's file as a forecast needs it, with tables in place of networks, kept beside the model once they were made.

Reading the tables takes a fraction of a second, loading torch takes seconds: a live forecast that was killed is back
sooner this way. The file is only a copy: one that is damaged, that belongs to another model or to another version of
this program is made anew.
"""

import contextlib
import hashlib
import io
import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from svfm_ros.atomic_files import write_whole
from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.config.options import from_mapping, to_mapping
from svfm_ros.errors import SvfmError
from svfm_ros.forecasting.field_tables import FieldTable
from svfm_ros.forecasting.footprints import Footprints
from svfm_ros.forecasting.hidden_chain import HiddenChain
from svfm_ros.forecasting.tabled_model import TabledModel

if TYPE_CHECKING:
    from svfm_ros.forecasting.model_file import WalkModelFile

__all__ = ["ForecastFile", "open_model", "tables_path"]

_VERSION = 2  # raise it when a table or a number changes its meaning
_CHAIN_ARRAYS = ("ramp", "steady", "log_pace", "log_pace_weight", "habit_xy", "habit_shares")


@dataclass(frozen=True, slots=True)
class ForecastFile:
    """What a forecast needs of a model's file; no torch in it."""

    model: TabledModel
    footprints: Footprints
    model_id: str
    frame: str = "map"
    time_zone: str = "UTC"
    metrics: dict[str, Any] = field(default_factory=dict)


def open_model(path: Path, device: str = "cpu") -> "ForecastFile | WalkModelFile":
    """The model at ``path``: with its networks where a GPU computes them, else as tables, made where there are none."""
    if _may_be_gpu(device):
        from svfm_ros.svfm.torch_device import pick_device

        chosen = pick_device(device)
        if chosen.type != "cpu":
            from svfm_ros.forecasting.model_file import load_walk_model

            return load_walk_model(path, chosen)
    return _read_tables(path) or _make_tables(path)


def tables_path(model: Path) -> Path:
    """Where the tables of a model are kept."""
    return model.with_name(f".{model.name}.tables")


def _may_be_gpu(device: str) -> bool:
    """Whether it is worth loading torch to see."""
    return device != "cpu" and (device != "auto" or any(Path("/dev").glob("nvidia[0-9]*")))


def _make_tables(path: Path) -> ForecastFile:
    from svfm_ros.forecasting.model_file import load_walk_model
    from svfm_ros.forecasting.tabulate import tabulate

    file = load_walk_model(path)
    made = ForecastFile(
        tabulate(file.model), file.footprints, file.model_id, file.frame, file.time_zone, dict(file.metrics)
    )
    with contextlib.suppress(OSError):  # in a folder that may only be read they are made each time
        write_whole(tables_path(path), _packed(made, _digest(path)))
    return made


def _read_tables(path: Path) -> ForecastFile | None:
    """The tables beside a model, if there are any and they are its own."""
    try:
        with np.load(tables_path(path), allow_pickle=False) as packed:
            arrays = {name: packed[name] for name in packed.files}
        sheet = json.loads(arrays.pop("sheet").tobytes())
        if sheet["version"] != _VERSION or sheet["model"] != _digest(path):
            return None
        return _unpacked(sheet, arrays)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, SvfmError):
        return None


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _packed(file: ForecastFile, digest: str) -> bytes:
    model, chain = file.model, asdict(file.model.chain)
    sheet = {
        "version": _VERSION,
        "model": digest,
        "model_id": file.model_id,
        "frame": file.frame,
        "time_zone": file.time_zone,
        "metrics": file.metrics,
        "config": to_mapping(model.config),
        "dt_s": model.dt_s,
        "cell_m": model.table.cell_m,
        "shape": model.table.shape,
        "chain": {name: value for name, value in chain.items() if name not in _CHAIN_ARRAYS},
    }
    body = io.BytesIO()
    np.savez(
        body,
        sheet=np.frombuffer(json.dumps(sheet).encode(), dtype=np.uint8),
        cells=model.table.cells,
        low=model.table.low,
        footprints=file.footprints.xy,
        footprint_walk=file.footprints.walk,
        **{name: chain[name] for name in _CHAIN_ARRAYS},
    )
    return body.getvalue()


def _unpacked(sheet: dict[str, Any], arrays: dict[str, Any]) -> ForecastFile:
    parts: dict[str, Any] = {**sheet["chain"], **{name: arrays[name] for name in _CHAIN_ARRAYS}}
    chain = HiddenChain(**{**parts, "keep": tuple(parts["keep"]), "begin": tuple(parts["begin"])})
    k, nx, ny = sheet["shape"]
    table = FieldTable(arrays["cells"], arrays["low"], sheet["cell_m"], (k, nx, ny))
    model = TabledModel(from_mapping(WalkModelConfig, sheet["config"]), sheet["dt_s"], chain, table)
    steps = Footprints(arrays["footprints"], arrays["footprint_walk"])
    return ForecastFile(model, steps, sheet["model_id"], sheet["frame"], sheet["time_zone"], sheet["metrics"])
