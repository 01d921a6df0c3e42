"""A walk model as one file (safetensors): reading it runs no code, and every size is known before memory is taken."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import write_whole
from svfm_ros.clock import zone
from svfm_ros.errors import ConfigError, DataError
from svfm_ros.forecasting.footprints import Footprints
from svfm_ros.forecasting.free_walker import FEATURES, HIDDEN
from svfm_ros.forecasting.habits import CELLS, DAY_KINDS
from svfm_ros.forecasting.walk_model import CHANNELS, WalkModel
from svfm_ros.types import Place, Places

__all__ = ["SCHEMA", "WalkModelFile", "load_walk_model", "places_from", "places_to", "save_walk_model"]

SCHEMA = 4
"""Version of what the file holds; raise it when a field changes its meaning."""

_KIND = "svfm_ros walk model"
_MOST_BYTES = 1 << 30
_MOST_HEADER = 64 << 20
_PLACES = "places"


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
        """A short name that changes whenever a number of the model does."""
        return self.model.model_id


def save_walk_model(path: Path, saved: WalkModelFile) -> None:
    """Write it atomically, readable by its owner alone: a reader sees the old model or the new one."""
    from safetensors.numpy import save

    prints = saved.footprints
    about = {
        "kind": _KIND,
        "schema": SCHEMA,
        "frame": saved.frame,
        "time_zone": saved.time_zone,
        "metrics": saved.metrics,
        "names": prints.names,
    }
    arrays = {
        **saved.model.arrays(),
        "walks.xy": prints.local_xy,
        "walks.origin": prints.origin,
        "walks.row": prints.row,
        "walks.walk": prints.walk,
        "walks.start_ns": prints.start_ns,
        "walks.ended": prints.ended,
    }
    whole = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    write_whole(Path(path), save(whole, {"about": json.dumps(about)}))


def load_walk_model(path: Path) -> WalkModelFile:
    """Read it, or refuse it with one sentence."""
    from safetensors import SafetensorError, safe_open

    _check_file(Path(path))
    try:
        with safe_open(str(path), framework="np") as opened:
            about = _about(opened.metadata(), path)
            shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
            kinds = {name: str(opened.get_slice(name).get_dtype()) for name in shapes}
            _check_shapes(shapes, kinds, path)
            arrays = {name: opened.get_tensor(name) for name in shapes}
    except DataError:
        raise
    except (SafetensorError, OSError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"expected a walk model at {path}, got something else") from error
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
    )
    model = WalkModel.from_arrays({n: x for n, x in arrays.items() if not n.startswith("walks.")})
    return WalkModelFile(model, prints, about["frame"], about["time_zone"], about["metrics"])


def _check_file(path: Path) -> None:
    try:
        info = path.stat()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    if not path.is_file():
        raise DataError(f"expected a walk model at {path}, got no regular file")
    if info.st_size > _MOST_BYTES:
        raise DataError(
            f"expected a walk model of at most {_MOST_BYTES >> 20} MB at {path}, got {info.st_size >> 20} MB"
        )
    with path.open("rb") as file:
        first = file.read(9)
    if first.startswith(b"PK"):
        raise DataError(
            f"expected a walk model of schema {SCHEMA} at {path}, got an older one: train it anew (svfm train)"
        )
    if len(first) < 9 or first[8:9] != b"{" or int.from_bytes(first[:8], "little") > min(info.st_size, _MOST_HEADER):
        raise DataError(f"expected a walk model at {path}, got something else")


def _about(metadata: Mapping[str, str] | None, path: Path) -> dict[str, Any]:
    """What the header says about the model, every part of it of the right type."""
    try:
        about = json.loads((metadata or {})["about"])
    except (KeyError, ValueError, RecursionError) as error:
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
        and isinstance(about.get("time_zone"), str)
        and isinstance(about.get("metrics"), dict)
        and isinstance(about.get("names"), list)
        and all(isinstance(name, str) for name in about["names"])
    )
    if not right:
        raise DataError(f"expected a whole walk model at {path}, got one whose parts do not fit together")
    places_from(about["metrics"])
    try:
        zone(about["time_zone"])
    except ConfigError as error:
        raise DataError(f"expected a known time zone in {path}, got {about['time_zone']!r}") from error
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
    "steps": (10,),
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
    "free.w3": (HIDDEN, 4),
    "free.b3": (4,),
    "free.nu": (2,),
    "free.first": (2,),
    "walks.xy": ("M", 2),
    "walks.origin": (2,),
    "walks.row": ("M",),
    "walks.walk": ("N",),
    "walks.start_ns": ("N",),
    "walks.ended": ("N",),
}
"""Shape of every array; equal letters are equal numbers, none of them zero."""

_INTEGERS = {"walks.row", "walks.walk", "walks.start_ns"}


def _check_shapes(shapes: Mapping[str, tuple[int, ...]], kinds: Mapping[str, str], path: Path) -> None:
    """Names, types and shapes, before anything is read."""
    sizes: dict[str, int] = {}
    fits = set(shapes) == set(_FIXED)
    for name, wanted in _FIXED.items():
        got = shapes.get(name, ())
        fits = fits and len(got) == len(wanted)
        for want, have in zip(wanted, got, strict=False):
            known = want if isinstance(want, int) else sizes.setdefault(want, have)
            fits = fits and have == known and have > 0
        kind = kinds.get(name, "")
        allowed = ("I64",) if name in _INTEGERS else ("BOOL",) if name == "walks.ended" else ("F64", "F32")
        fits = fits and kind in allowed
    if not fits:
        raise DataError(f"expected a whole walk model at {path}, got one whose parts do not fit together")


def _check_values(arrays: Mapping[str, NDArray[np.generic]], about: Mapping[str, Any], path: Path) -> None:
    for name, x in arrays.items():
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise DataError(f"expected finite numbers in {path}, got NaN or infinity in {name}")
    grid, tables = arrays["grid"], arrays["tables"]
    rows, walks = len(arrays["walks.walk"]), len(about["names"])
    fits = (
        float(arrays["dt_s"][0]) > 0.0
        and float(grid[2]) > 0.0
        and (int(grid[3]), int(grid[4])) == tables.shape[1:3]
        and min(tables.shape[1:3]) >= 2
        and _within(arrays["walks.row"], rows)
        and _within(arrays["walks.walk"], walks)
        and bool((arrays["steps"][[0, 1, 2, 5, 6]] > 0.0).all())  # type: ignore[operator]
        and _shares(arrays["tables"][..., 5:])
        and _shares(arrays["switches"])
        and _shares(arrays["habits.shares"])
        and _shares(arrays["habits.free"])
        and bool((arrays["free.nu"] > 0.0).all())  # type: ignore[operator]
        and bool((arrays["free.first"] > 0.0).all())  # type: ignore[operator]
        and bool((arrays["ramp"] > 0.0).all())  # type: ignore[operator]
        and bool((arrays["steady"] > 0.0).all())  # type: ignore[operator]
        and bool((tables[..., 2:5] >= 0.0).all())  # type: ignore[operator]
    )
    if not fits:
        raise DataError(f"expected a whole walk model at {path}, got one whose parts do not fit together")


def _within(index: NDArray[np.generic], count: int) -> bool:
    return bool(index.min() >= 0 and index.max() < count)  # type: ignore[operator]


def _shares(x: NDArray[np.generic]) -> bool:
    return bool(((x >= 0.0) & (x <= 1.0 + 1e-6)).all())  # type: ignore[operator]


def places_to(places: Places) -> dict[str, Any]:
    """The places of the house, to be added to the metrics of a model's file."""
    cells = [{"name": p.name, "x": p.x, "y": p.y, "radius_m": p.radius_m, "colour": p.colour} for p in places]
    return {_PLACES: cells}


def places_from(metrics: Mapping[str, Any]) -> Places:
    """The places of a model's file; none where it does not say."""
    cells = metrics.get(_PLACES, ())
    try:
        return Places(tuple(_place(cell) for cell in cells))
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(
            "expected places with name, x, y, radius_m and colour in the model, got something else"
        ) from error


def _place(cell: Mapping[str, Any]) -> Place:
    name, colour = cell["name"], cell["colour"]
    if not isinstance(name, str) or not isinstance(colour, str) or len(bytes.fromhex(colour[1:])) != 3:
        raise TypeError(name)
    x, y, radius = (float(cell[key]) for key in ("x", "y", "radius_m"))
    if not np.isfinite([x, y, radius]).all():
        raise ValueError(name)
    return Place(name, x, y, radius, colour)
