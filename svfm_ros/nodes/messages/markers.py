"""A forecast as a person sees it on the map: where they may walk, where that ends, and how sure that is.

Paths are coloured by the place they end at, the fainter the less likely; each endpoint is an ellipse with a name and a
percentage; the entropy stands beside the walker. A what-if is dashed and has a namespace of its own. There is one
LINE_LIST per endpoint: few markers with many points.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from visualization_msgs.msg import Marker

from svfm_ros.nodes.messages.marker_shapes import RGBA, Canvas, Shape
from svfm_ros.types import Forecast, Places, Pose2

__all__ = ["MarkerStyle", "clear_shapes", "endpoint_shapes", "path_shapes"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_ELSEWHERE_RGB = (0.35, 0.35, 0.35)
_TEXT_RGBA: RGBA = (0.05, 0.05, 0.05, 1.0)
_BYTES_PER_POINT = 40  # three doubles and four floats
_LEAST_SHARE = 0.01  # places less likely than this are not named
_ELLIPSE_SIGMAS = 2.0
_THINNEST_M = 0.15  # an ellipse is at least this wide
_PATH_HEIGHT_M, _ELLIPSE_HEIGHT_M, _TEXT_HEIGHT_M = 0.05, 0.03, 0.3


@dataclass(frozen=True, slots=True)
class MarkerStyle:
    """How a forecast is drawn."""

    max_bytes: int = 80_000  # of the paths; fewer paths and coarser ones are drawn when more would not fit
    segments: int = 12  # straight pieces of a path
    width_m: float = 0.03
    text_m: float = 0.22
    lifetime_s: float = 2.0  # markers that are not renewed go away
    dashed: bool = False
    namespace: str = "forecast"

    def what_if(self) -> "MarkerStyle":
        """The same for a what-if."""
        return MarkerStyle(
            self.max_bytes, self.segments, self.width_m, self.text_m, self.lifetime_s, True, f"{self.namespace}/what_if"
        )

    def canvas(self, forecast: Forecast) -> Canvas:
        """The frame, time and lifetime of a drawing."""
        return Canvas(forecast.frame, forecast.stamp_ns, self.lifetime_s)


def clear_shapes() -> list[Shape]:
    """Take away all that was drawn on a topic."""
    return [Shape("", 0, Marker.ARROW, action=Marker.DELETEALL)]


def path_shapes(forecast: Forecast, places: Places, style: MarkerStyle) -> list[Shape]:
    """One list of lines for each endpoint, and the entropy as text; replaces what was drawn before."""
    return [*clear_shapes(), *_paths(forecast, places, style), _entropy(forecast, style)]


def endpoint_shapes(forecast: Forecast, places: Places, style: MarkerStyle) -> list[Shape]:
    """An ellipse, a name and a percentage for each likely endpoint; replaces what was drawn before."""
    return [*clear_shapes(), *(_endpoints(forecast, places, style) if forecast.known else ())]


# Paths


def _paths(forecast: Forecast, places: Places, style: MarkerStyle) -> Iterator[Shape]:
    if not forecast.known or not len(forecast.samples_xy):
        return
    ends = _ends(forecast, places)
    chosen = _choose(ends, _most_paths(style))
    lines = _resampled(forecast.samples_xy[chosen], style.segments * (2 if style.dashed else 1))  # (n, M + 1, 2)
    for place in np.unique(ends[chosen]).tolist():
        mine = lines[ends[chosen] == place]
        starts, stops = mine[:, :-1], mine[:, 1:]  # (m, M, 2)
        if style.dashed:
            starts, stops = starts[:, ::2], stops[:, ::2]
        points = np.stack([starts, stops], axis=2).reshape(-1, 2)
        rgb, opacity = _rgb(places, place), _opacity(np.mean(ends == place))
        colours = np.broadcast_to([*rgb, opacity], (len(points), 4))
        yield Shape(
            f"{style.namespace}/paths",
            place + 1,
            Marker.LINE_LIST,
            height_m=_PATH_HEIGHT_M,
            scale=(style.width_m, 0.0, 0.0),
            colour=(*rgb, opacity),
            points=points,
            colours=colours,
        )


def _ends(forecast: Forecast, places: Places) -> Indices:
    """The place of each sample ``(S,)``: where it ends in the end, if that is told, or where it is last seen."""
    return places.assign(forecast.samples_xy[:, -1]) if forecast.endpoint is None else forecast.endpoint


def _most_paths(style: MarkerStyle) -> int:
    return max(1, style.max_bytes // (_BYTES_PER_POINT * 2 * style.segments))


def _choose(ends: Indices, most: int) -> Indices:
    """At most so many samples, spread evenly over all, with at least one for every endpoint."""
    if len(ends) <= most:
        return np.arange(len(ends))
    order = np.argsort(ends, kind="stable")
    spread = order[np.linspace(0, len(ends) - 1, most).round().astype(int)]
    first = np.unique(ends, return_index=True)[1]
    missing = first[~np.isin(ends[first], ends[spread])]
    return np.unique(np.concatenate([spread, missing]))


def _resampled(paths: Array, segments: int) -> Array:
    """Paths ``(n, K, 2)`` with that many pieces, even in time ``(n, segments + 1, 2)``."""
    steps = paths.shape[1] - 1
    at = np.linspace(0.0, steps, segments + 1)
    low = np.minimum(at.astype(int), max(steps - 1, 0))
    part = (at - low)[:, None]
    high = np.minimum(low + 1, steps)
    return np.asarray(paths[:, low] * (1.0 - part) + paths[:, high] * part)


def _opacity(share: float) -> float:
    """Faint for the unlikely, solid for the likely; never so faint that it is lost on the map."""
    return 0.15 + 0.75 * float(share)


def _rgb(places: Places, index: int) -> tuple[float, float, float]:
    return places.places[index].rgb if index >= 0 else _ELSEWHERE_RGB


def _entropy(forecast: Forecast, style: MarkerStyle) -> Shape:
    if forecast.known:
        text = f"{forecast.entropy:.2f} nats, {forecast.walks} walks"
    else:
        text = "no walk on record came near here"
    text = _prefix(style) + text
    start = forecast.samples_xy[:, 0].mean(axis=0) if len(forecast.samples_xy) else np.zeros(2)
    above = 2.0 if style.dashed else 1.0  # the what-if's line stands over the live one's
    return _text(f"{style.namespace}/entropy", 0, start + np.array([0.0, 1.6 * above * style.text_m]), text, style)


def _prefix(style: MarkerStyle) -> str:
    return "what if: " if style.dashed else ""


# Endpoints


def _endpoints(forecast: Forecast, places: Places, style: MarkerStyle) -> Iterator[Shape]:
    arrived = places.assign(forecast.samples_xy[:, -1])  # whoever is still on the way says nothing about the spot
    for name, share in forecast.shares.items():
        index = places.names.index(name) if name in places.names else -1
        last = forecast.samples_xy[arrived == index, -1]  # (m, 2)
        if share < _LEAST_SHARE or (not len(last) and index < 0):
            continue
        middle, axes, turn = _ellipse(last) if len(last) else _disc(places, index)
        rgb = _rgb(places, index)
        yield Shape(
            f"{style.namespace}/endpoints",
            index + 1,
            Marker.CYLINDER,
            Pose2(float(middle[0]), float(middle[1]), turn),
            _ELLIPSE_HEIGHT_M,
            (axes[0], axes[1], 0.02),
            (*rgb, (0.25 if style.dashed else 0.5) * (0.5 + 0.5 * share)),
        )
        label = f"{_prefix(style)}{name.replace('_', ' ')} {share:.0%}"
        below = -1.6 * style.text_m if style.dashed else 0.0
        yield _text(f"{style.namespace}/names", index + 1, middle + np.array([0.0, below]), label, style)


def _ellipse(points: Array) -> tuple[Array, tuple[float, float], float]:
    """Middle, full lengths of the axes at two sigmas, and the turn of the longer one."""
    middle = points.mean(axis=0)
    spread = np.cov(points.T) if len(points) > 1 else np.zeros((2, 2))
    values, vectors = np.linalg.eigh(spread)
    lengths = 2.0 * _ELLIPSE_SIGMAS * np.sqrt(np.maximum(values, 0.0))
    wide, narrow = max(float(lengths[1]), _THINNEST_M), max(float(lengths[0]), _THINNEST_M)
    return middle, (wide, narrow), math.atan2(vectors[1, 1], vectors[0, 1])


def _disc(places: Places, index: int) -> tuple[Array, tuple[float, float], float]:
    place = places.places[index]
    return place.xy, (2.0 * place.radius_m, 2.0 * place.radius_m), 0.0


def _text(namespace: str, number: int, xy: Array, text: str, style: MarkerStyle) -> Shape:
    pose = Pose2(float(xy[0]), float(xy[1]), 0.0)
    size = (0.0, 0.0, style.text_m)
    return Shape(namespace, number, Marker.TEXT_VIEW_FACING, pose, _TEXT_HEIGHT_M, size, _TEXT_RGBA, text=text)
