"""A walk model as one file (safetensors): reading it runs no code, and every size is known before memory is taken."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import read_regular, write_whole
from svfm_ros.clock import zone
from svfm_ros.config.forecast_config import MAX_MODEL_BYTES
from svfm_ros.errors import ConfigError, DataError, short
from svfm_ros.forecasting.footprints import Footprints
from svfm_ros.forecasting.free_walker import FEATURES, HIDDEN, OUTPUTS
from svfm_ros.forecasting.habits import CELLS, DAY_KINDS
from svfm_ros.forecasting.residents import Residents
from svfm_ros.forecasting.walk_model import CHANNELS, WalkModel
from svfm_ros.types import Place, Places

__all__ = ["SCHEMA", "WalkModelFile", "load_walk_model", "places_from", "places_to", "save_walk_model"]

SCHEMA = 7
"""Version of what the file holds; raise it when a field changes its meaning."""

_KIND = "svfm_ros walk model"
_MOST_HEADER = 64 << 20
_LONGEST_FRAME = 255
_PLACES = "places"
_MOST_PLACES = 1000
_FARTHEST_M = 1e9
_LARGEST = 1e12  # of any number in it; sums and squares of larger ones overflow


@dataclass(frozen=True, slots=True)
class WalkModelFile:
    """What the file holds."""

    model: WalkModel
    footprints: Footprints
    residents: Residents
    frame: str = "map"
    time_zone: str = "UTC"
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def model_id(self) -> str:
        """A short name that changes whenever a number of the model does."""
        return self.model.model_id

    def of_resident(self, name: str) -> "WalkModelFile":
        """The same with the habits, the pace and the spread of one resident, who is in ``residents.names``."""
        residents = self.residents.relative_to(name)  # so that asking for a resident once more changes nothing
        return replace(self, model=self.residents.model_of(self.model, name), residents=residents)


def save_walk_model(path: Path, saved: WalkModelFile, *, keeps_previous: bool = False) -> None:
    """Write it atomically, readable by its owner alone: a reader sees the old model or the new one.

    ``keeps_previous`` as in ``write_whole``.
    """
    from safetensors.numpy import save

    prints = saved.footprints
    about = {
        "kind": _KIND,
        "schema": SCHEMA,
        "frame": saved.frame,
        "time_zone": saved.time_zone,
        "metrics": saved.metrics,
        "names": prints.names,
        "residents": saved.residents.names,
    }
    arrays = {
        **saved.model.arrays(),
        **saved.residents.arrays(),
        "walks.xy": prints.local_xy,
        "walks.origin": prints.origin,
        "walks.row": prints.row,
        "walks.walk": prints.walk,
        "walks.start_ns": prints.start_ns,
        "walks.ended": prints.ended,
        "walks.resident": prints.resident,
    }
    whole = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    write_whole(Path(path), save(whole, {"about": json.dumps(about)}), keeps_previous=keeps_previous)


def load_walk_model(path: Path, *, follow_link: bool = True) -> WalkModelFile:
    """Read it, or refuse it with one sentence; ``follow_link`` as in ``read_regular``."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_regular(Path(path), MAX_MODEL_BYTES, follow_link=follow_link)
    header = _header(data, path)
    about = _about(header.pop("__metadata__", None), path)
    if not _tensors_fit(header, len(data) - 8 - int.from_bytes(data[:8], "little")):
        raise _not_whole(path)
    try:
        arrays = load(data)
    except SafetensorError as error:  # such as tensors that overlap
        raise _not_whole(path) from error
    _check_values(arrays, about, path)
    names = tuple(about["names"])
    prints = Footprints(
        arrays["walks.xy"],
        arrays["walks.origin"].astype(float),
        arrays["walks.row"],
        arrays["walks.walk"],
        arrays["walks.start_ns"],
        arrays["walks.ended"].astype(np.bool_),
        names,
        arrays["walks.resident"],
        tuple(about["residents"]),
    )
    model = WalkModel.from_arrays({n: x for n, x in arrays.items() if not n.startswith(("walks.", "residents."))})
    residents = Residents.from_arrays(tuple(about["residents"]), arrays)
    return WalkModelFile(model, prints, residents, about["frame"], about["time_zone"], about["metrics"])


def _header(data: bytes, path: Path) -> dict[str, Any]:
    """The header of a safetensors file: its size in 8 bytes, then JSON."""
    if data.startswith(b"PK"):
        raise DataError(
            f"expected a walk model of schema {SCHEMA} at {path}, got an older one: train it anew (svfm train)"
        )
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size]) if size <= min(len(data), _MOST_HEADER) else None
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected a walk model at {path}, got something else") from error
    if not isinstance(header, dict):
        raise DataError(f"expected a walk model at {path}, got something else")
    return header


def _about(metadata: Any, path: Path) -> dict[str, Any]:
    """What the header says about the model, every part of it of the right type."""
    try:
        about = json.loads(metadata["about"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"expected a walk model at {path}, got something else") from error
    if not isinstance(about, dict) or about.get("kind") != _KIND:
        raise DataError(f"expected a walk model at {path}, got something else")
    schema = about.get("schema")
    if not isinstance(schema, int) or schema != SCHEMA:
        older = isinstance(schema, int) and schema < SCHEMA
        advice = "train it anew (svfm train)" if older else "update svfm_ros"
        raise DataError(f"expected a walk model of schema {SCHEMA} at {path}, got {schema}: {advice}")
    right = (
        isinstance(about.get("frame"), str)
        and len(about["frame"]) <= _LONGEST_FRAME
        and isinstance(about.get("time_zone"), str)
        and isinstance(about.get("metrics"), dict)
        and isinstance(about["metrics"].get("walks_seen", 0), int)
        and isinstance(about["metrics"].get("held_out_nll", 0.0), int | float | None)
        and isinstance(about.get("names"), list)
        and all(isinstance(name, str) for name in about["names"])
        and isinstance(about.get("residents"), list)
        and all(isinstance(name, str) for name in about["residents"])
        and len(set(about["residents"])) == len(about["residents"])
    )
    if not right:
        raise _not_whole(path)
    places_from(about["metrics"])
    try:
        zone(about["time_zone"])
    except ConfigError as error:
        raise DataError(f"expected a known time zone in {path}, got {short(about['time_zone'])}") from error
    return about


_FIXED: dict[str, tuple[int | str, ...]] = {
    "dt_s": (1,),
    "origin": (2,),
    "grid": (5,),
    "tables": ("K", "NX", "NY", len(CHANNELS)),
    "ends_xy": ("K", 2),
    "ramp": ("R",),
    "steady": ("R",),
    "still": (2,),
    "steps": (16,),
    "switches": (5,),
    "set_off": ("K",),
    "habits.origin_xy": ("C", 2),
    "habits.origin_walks": ("C",),
    "habits.shares": ("C", DAY_KINDS, CELLS, "K"),
    "habits.free": ("C", DAY_KINDS, CELLS),
    "habits.support": ("C", DAY_KINDS, CELLS),
    "habits.base": (CELLS, "K"),
    "habits.scalars": (2,),
    "free.w1": (FEATURES, HIDDEN),
    "free.b1": (HIDDEN,),
    "free.w2": (HIDDEN, HIDDEN),
    "free.b2": (HIDDEN,),
    "free.w3": (HIDDEN, OUTPUTS),
    "free.b3": (OUTPUTS,),
    "free.nu": (2,),
    "free.first": (2,),
    "free.set_off": (1,),
    "free.sway": (2,),
    "walks.xy": ("M", 2),
    "walks.origin": (2,),
    "walks.row": ("M",),
    "walks.walk": ("N",),
    "walks.start_ns": ("N",),
    "walks.ended": ("N",),
    "walks.resident": ("N",),
    "residents.shares": ("P", "C", DAY_KINDS, CELLS, "K"),
    "residents.free": ("P", "C", DAY_KINDS, CELLS),
    "residents.support": ("P", "C", DAY_KINDS, CELLS),
    "residents.base": ("P", CELLS, "K"),
    "residents.pace": ("P", 3),
}
"""Shape of every array; equal letters are equal numbers, none of them zero."""

_POSITIVE = ("still", "ramp", "steady", "free.nu", "free.first")
_COUNTS = ("habits.origin_walks", "habits.support", "residents.support")
_SHARES: tuple[str, ...] = (
    "residents.shares",
    "residents.free",
    "residents.base",
    "habits.shares",
    "habits.free",
    "habits.base",
)
_SHARES += ("switches", "set_off", "free.set_off", "free.sway")
_LEAST_STEP_S, _LONGEST_STEP_S = 0.01, 10.0
_LARGEST_STEP = 100.0  # of the numbers of the step density
_INTEGERS = {"walks.row", "walks.walk", "walks.start_ns", "walks.resident"}
_ITEM_BYTES = {"F64": 8, "F32": 4, "I64": 8, "BOOL": 1}


def _tensors_fit(header: Mapping[str, Any], body_bytes: int) -> bool:
    """Whether every tensor has its name, type and shape, and its bytes are in the file; before any is read."""
    sizes: dict[str, int] = {}
    return set(header) == set(_FIXED) and all(
        _tensor_fits(name, header[name], wanted, sizes, body_bytes) for name, wanted in _FIXED.items()
    )


def _tensor_fits(name: str, tensor: Any, wanted: tuple[int | str, ...], sizes: dict[str, int], body_bytes: int) -> bool:
    """The same for one tensor; ``sizes`` keeps the numbers that the letters of ``_FIXED`` stand for."""
    if not isinstance(tensor, dict):
        return False
    kind, shape, offsets = tensor.get("dtype"), tensor.get("shape"), tensor.get("data_offsets")
    allowed = ("I64",) if name in _INTEGERS else ("BOOL",) if name == "walks.ended" else ("F64", "F32")
    if kind not in allowed or not _counts(shape, len(wanted)) or not _counts(offsets, 2):
        return False
    pairs = zip(wanted, shape, strict=True)
    expected = [want if isinstance(want, int) else sizes.setdefault(want, n) for want, n in pairs]
    claimed = math.prod(shape) * _ITEM_BYTES[str(kind)]
    return shape == expected and min(shape) > 0 and offsets[1] - offsets[0] == claimed and offsets[1] <= body_bytes


def _counts(numbers: Any, length: int) -> TypeGuard[list[int]]:
    """Whether this is a list of so many whole numbers, none below zero."""
    return isinstance(numbers, list) and len(numbers) == length and all(type(n) is int and n >= 0 for n in numbers)


def _not_whole(path: Path) -> DataError:
    return DataError(f"expected a whole walk model at {path}, got one whose parts do not fit together")


def _check_values(arrays: Mapping[str, NDArray[np.generic]], about: Mapping[str, Any], path: Path) -> None:
    for name, x in arrays.items():
        if x.dtype.kind == "f" and not (np.abs(x) <= _LARGEST).all():  # type: ignore[operator]
            raise DataError(f"expected numbers up to {_LARGEST:g} in {path}, got others, NaN or infinity in {name}")
    grid, tables = arrays["grid"], arrays["tables"]
    rows, walks = len(arrays["walks.walk"]), len(about["names"])
    pace = arrays["residents.pace"]
    fits = (
        _LEAST_STEP_S <= float(arrays["dt_s"][0]) <= _LONGEST_STEP_S
        and float(grid[2]) > 0.0
        and (int(grid[3]), int(grid[4])) == tables.shape[1:3]
        and min(tables.shape[1:3]) >= 2
        and _within(arrays["walks.row"], rows)
        and _within(arrays["walks.walk"], walks)
        and _within(arrays["walks.resident"], len(about["residents"]))
        and len(about["residents"]) == len(pace)
        and bool((np.abs(pace[:, 0]) < 3.0).all())  # type: ignore[operator]
        and all(_positive(x) for x in (*(arrays[n] for n in _POSITIVE), np.delete(arrays["steps"], [2, 3, 5, 6])))
        and bool((np.abs(arrays["steps"]) <= _LARGEST_STEP).all())  # type: ignore[operator]
        and all(_shares(arrays[name]) for name in _SHARES)
        and all(_shares(x) for x in (tables[..., 7:], pace[:, 2], arrays["habits.scalars"][0]))
        and _positive(pace[:, 1])
        and _positive(arrays["habits.scalars"][1])
        and _positive(arrays["free.sway"][1])
        and all(bool((x >= 0.0).all()) for x in (tables[..., 2:5], *(arrays[name] for name in _COUNTS)))  # type: ignore[operator]
    )
    if not fits:
        raise _not_whole(path)


def _within(index: NDArray[np.generic], count: int) -> bool:
    return bool(index.min() >= 0 and index.max() < count)  # type: ignore[operator]


def _positive(x: NDArray[np.generic]) -> bool:
    return bool((x > 0.0).all())  # type: ignore[operator]


def _shares(x: NDArray[np.generic]) -> bool:
    return bool(((x >= 0.0) & (x <= 1.0 + 1e-6)).all())  # type: ignore[operator]


def places_to(places: Places) -> dict[str, Any]:
    """The places of the house, to be added to the metrics of a model's file."""
    cells = [{"name": p.name, "x": p.x, "y": p.y, "radius_m": p.radius_m, "colour": p.colour} for p in places]
    return {_PLACES: cells}


def places_from(metrics: Mapping[str, Any]) -> Places:
    """The places of a model's file; none where it does not say."""
    try:
        places = Places(tuple(_place(cell) for cell in metrics.get(_PLACES, ())))
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(
            "expected places with name, x, y, radius_m and colour in the model, got something else"
        ) from error
    if len(places) > _MOST_PLACES or len(set(places.names)) < len(places):
        raise DataError(f"expected at most {_MOST_PLACES} places in the model, each name once, got {len(places)}")
    return places


def _place(cell: Mapping[str, Any]) -> Place:
    name, colour = cell["name"], cell["colour"]
    if not isinstance(name, str) or not isinstance(colour, str) or len(bytes.fromhex(colour[1:])) != 3:
        raise TypeError(name)
    x, y, radius = (float(cell[key]) for key in ("x", "y", "radius_m"))
    if not name or not (max(abs(x), abs(y), radius) <= _FARTHEST_M and radius > 0.0):
        raise ValueError(name)
    return Place(name, x, y, radius, colour)
