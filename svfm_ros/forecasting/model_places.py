"""Places that travel inside a model's file, so that model and places are swapped together."""

from collections.abc import Mapping
from typing import Any

from svfm_ros.types import Place, Places

__all__ = ["places_from", "places_to"]

_KEY = "places"


def places_to(places: Places) -> dict[str, Any]:
    """What to add to the metrics of a model's file."""
    cells = [{"name": p.name, "x": p.x, "y": p.y, "radius_m": p.radius_m, "colour": p.colour} for p in places]
    return {_KEY: cells}


def places_from(metrics: Mapping[str, Any]) -> Places:
    """The places of a model's file; none where it does not say."""
    return Places(tuple(Place(**cell) for cell in metrics.get(_KEY, ())))
