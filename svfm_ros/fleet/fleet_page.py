"""The page of all homes as one HTML file: a table to sort and to search, each row with a link to its report.

Names of homes and reasons are data: the script writes them as text, never as markup.
"""

import json
import math
from importlib.resources import files
from typing import Any
from urllib.parse import quote

__all__ = ["render_fleet"]

_COLUMNS = (
    "home resident state reason walks days held_out_nll coverage_50 coverage_90 "
    "wandering wandering_low wandering_high warnings report"
)

_NAMELESS = ("unknown", "resident")  # walks of files and recordings that name nobody


def render_fleet(table: Any) -> str:
    """The page of a ``pyarrow.Table`` of residents; their reports are in the folders homes/NAME beside the page."""
    rows = table.select(_COLUMNS.split()).to_pylist()
    for row in rows:
        row["resident"] = "" if row["resident"] in _NAMELESS else row["resident"]
        row["report"] = f"homes/{quote(row['home'])}/{quote(row['report'])}" if row["report"] else None
    data = json.dumps([{k: _shown(v) for k, v in row.items()} for row in rows], separators=(",", ":"), allow_nan=False)
    page = files("svfm_ros.fleet").joinpath("fleet.html").read_text(encoding="utf-8")
    return page.replace('"data"', data.replace("<", "\\u003c"), 1)


def _shown(value: Any) -> Any:
    """Four digits are enough, and NaN is no JSON."""
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return value
