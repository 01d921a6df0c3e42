"""The places of a house: read from ``places.yaml``, or found from where walks end.

A found place keeps its name and its colour: walk ends are assigned to known places first, and new places are numbered
in the order in which they reached the number of visits needed, so that later walks only add to the end of the list.
"""

import colorsys
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import atomic_files
from svfm_ros.config.walk_config import PlacesConfig
from svfm_ros.errors import DataError, short
from svfm_ros.types import Place, Places, Walk

__all__ = [
    "beside_map",
    "colour_of",
    "find_places",
    "find_places_of_walks",
    "is_found",
    "load_places",
    "places_file",
    "places_from_cells",
    "save_places",
]

Array = NDArray[np.float64]

# Okabe and Ito's colours for the colour-blind, without black and yellow, which are hard to see on maps.
_PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_KEYS = ("name", "x", "y", "radius", "colour")
_FARTHEST_M = 1e9  # from the origin of the house
_FOUND_NAME = "place {number}"
_FOUND_PATTERN = re.compile(r"place (\d+)")
_RADIUS_QUANTILE, _RADIUS_FACTOR = 0.95, 1.2  # radius: this quantile of the visits' distances, times this factor


def colour_of(number: int) -> str:
    """The colour ``#rrggbb`` of the n-th place, from 0 on; different for all places of a house."""
    if number < len(_PALETTE):
        return _PALETTE[number]
    golden = (math.sqrt(5) - 1) / 2  # multiples of it spread hues evenly
    red, green, blue = colorsys.hls_to_rgb((number * golden) % 1.0, 0.45, 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def load_places(path: Path) -> Places:
    """Read ``places: [{name, x, y, radius, colour}]``; a place without a colour gets one by its index."""
    sheet = atomic_files.read_yaml(path, "a list of places")
    if not isinstance(sheet, dict) or not isinstance(sheet.get("places"), list):
        raise DataError(f"{path}: expected a list called places")
    return places_from_cells(sheet["places"], str(path))


def places_from_cells(cells: list[Any], where: str) -> Places:
    """Places from mappings with name, x, y, radius and colour; ``where`` is the start of error messages."""
    found = tuple(_place(cell, n, f"{where}, places[{n}]") for n, cell in enumerate(cells))
    name, times = Counter(p.name for p in found).most_common(1)[0] if found else ("", 0)
    if times > 1:
        raise DataError(f"{where}: expected each name once, got {short(name)} twice")
    return Places(found)


def beside_map(map_file: Path) -> Path:
    """The file ``places.yaml`` beside a map, in which the places of that map are named."""
    return Path(map_file).expanduser().absolute().parent / "places.yaml"


def places_file(given: Path | None, map_file: Path | None) -> Path | None:
    """The file of places to use: the given one, otherwise the one beside the map if there is one."""
    if given is None and map_file is not None and beside_map(map_file).is_file():
        return beside_map(map_file)
    return given


def _place(cell: Any, number: int, where: str) -> Place:
    if not isinstance(cell, dict):
        raise DataError(f"{where}: expected {', '.join(_KEYS)}, got {short(cell)}")
    unknown = [key for key in cell if key not in _KEYS]
    missing = [key for key in _KEYS[:-1] if key not in cell]
    if unknown or missing:
        what = f"got {short(unknown[0])}" if unknown else f"{missing[0]} is missing"
        raise DataError(f"{where}: expected {', '.join(_KEYS)}, but {what}")
    x, y, radius = (_number(cell[key], f"{where}: {key}") for key in ("x", "y", "radius"))
    colour = cell.get("colour", colour_of(number))
    if not isinstance(colour, str) or not re.fullmatch("#[0-9a-fA-F]{6}", colour):
        raise DataError(f'{where}: colour: expected "#rrggbb" in quotes, got {short(colour)}')
    if radius <= 0:
        raise DataError(f"{where}: radius: expected more than 0, got {radius}")
    if not isinstance(cell["name"], str) or not cell["name"]:
        raise DataError(f"{where}: name: expected text, got {short(cell['name'])}")
    return Place(cell["name"], x, y, radius, colour)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _FARTHEST_M:
        raise DataError(f"{where}: expected a number of metres, got {short(value)}")
    return float(value)


def save_places(places: Places, path: Path) -> None:
    """Write places so that ``load_places`` gives them back."""
    import yaml

    cells = [{"name": p.name, "x": p.x, "y": p.y, "radius": p.radius_m, "colour": p.colour} for p in places]
    text = yaml.safe_dump({"places": cells}, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)
    try:
        atomic_files.write_whole(Path(path), text.encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from error


def is_found(place: Place) -> bool:
    """Whether a place was found and nobody has named it."""
    return _FOUND_PATTERN.fullmatch(place.name) is not None


def find_places_of_walks(
    walks: Iterable[Walk], known: Places | None = None, config: PlacesConfig | None = None
) -> Places:
    """Places where these walks, all in the house's frame, end; see ``find_places``."""
    ends = [(walk.xy[-1], int(walk.stamps_ns[-1])) for walk in walks]
    return find_places(np.array([xy for xy, _ in ends]).reshape(-1, 2), [stamp for _, stamp in ends], known, config)


def find_places(
    ends_xy: ArrayLike, stamps_ns: ArrayLike, known: Places | None = None, config: PlacesConfig | None = None
) -> Places:
    """The known places, and after them new ones where walks end: positions ``(N, 2)`` at times ``(N,)``.

    Known places keep name, colour and index. Those that nobody has named (``place 1``) move with the walks that end
    there; those that a person named stay where they are.
    """
    config, known = config or PlacesConfig(), known or Places()
    ends, stamps = np.asarray(ends_xy, dtype=float).reshape(-1, 2), np.asarray(stamps_ns, dtype=np.int64)
    if len(ends) != len(stamps) or not np.isfinite(ends).all():
        raise DataError(f"expected finite walk ends with one stamp each, got {len(ends)} and {len(stamps)}")
    order = np.lexsort((ends[:, 1], ends[:, 0], stamps))  # the result does not depend on the order of the walks
    ends, stamps = ends[order], stamps[order]
    owner = known.assign(ends, 0.5 * config.reach_m)
    places = [_moved(place, ends[owner == n], config) for n, place in enumerate(known)]
    for visits in _new_groups(ends[owner < 0], len(ends), config):
        places.append(_new_place(visits, places, config))
    return Places(tuple(places))


def _new_groups(ends: Array, walks: int, config: PlacesConfig) -> list[Array]:
    """Clusters of ends ``(N, 2)`` in order of time, sorted by when each reached the number of visits needed."""
    needed = max(config.min_visits, math.ceil(config.min_share * walks))
    if len(ends) < needed:
        return []
    from sklearn.cluster import MeanShift  # takes a second to import

    # Mean shift finds discs of a given size, as places are; single linkage or DBSCAN would chain neighbours.
    seeds = config.reach_m * np.unique(np.round(ends / config.reach_m), axis=0)
    labels = MeanShift(bandwidth=config.reach_m, seeds=seeds, cluster_all=False).fit_predict(ends)
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels[labels >= 0])]
    large = [group for group in groups if len(group) >= needed]
    # Sorted by the visit that completed the number needed: later walks do not change this order.
    return [ends[group] for group in sorted(large, key=lambda group: int(group[config.min_visits - 1]))]


def _new_place(visits: Array, others: Iterable[Place], config: PlacesConfig) -> Place:
    others = list(others)
    taken = {int(match[1]) for place in others if (match := _FOUND_PATTERN.fullmatch(place.name))}
    number = max(taken, default=0) + 1
    colours = {place.colour.lower() for place in others}
    colour = next(colour for n in itertools.count() if (colour := colour_of(n)) not in colours)
    return _moved(Place(_FOUND_NAME.format(number=number), 0.0, 0.0, 0.0, colour), visits, config)


def _moved(place: Place, visits: Array, config: PlacesConfig) -> Place:
    """A found place moved to the mean of its visits; unchanged if a person named it or it has few visits."""
    if len(visits) < config.min_visits or not is_found(place):
        return place
    middle = np.round(visits.mean(axis=0), 2)  # to the centimetre
    distance = np.linalg.norm(visits - middle, axis=1)
    radius = max(config.min_radius_m, round(_RADIUS_FACTOR * float(np.quantile(distance, _RADIUS_QUANTILE)), 2))
    return replace(place, x=float(middle[0]), y=float(middle[1]), radius_m=radius)
