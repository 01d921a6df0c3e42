"""A forecast as markers: sampled paths, the places they end at, and a sentence beside the walker.

Paths have the colour of the place they end at, with the share of that place as opacity. Each place has an ellipse, and
above it a name and a percentage, the likeliest in larger letters. Paths of the free walker, which follows no recorded
habit, are grey. There is one LINE_LIST per place: few markers with many points. A what-if is dashed and fainter, in a
namespace of its own, and has percentages only where they differ.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from visualization_msgs.msg import Marker

from svfm_ros.nodes.messages.marker_shapes import RGBA, Canvas, Shape
from svfm_ros.types import Forecast, Places, Pose2
from svfm_ros.wording import counted, percent, readable, unknown, with_share

__all__ = ["MarkerStyle", "clear_shapes", "endpoint_shapes", "path_shapes"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_ELSEWHERE, _FREE = -1, -2  # in the place of a place's index
_GREY_RGB = (0.35, 0.35, 0.35)
_FREE_RGB = (0.6, 0.6, 0.6)
_FAINT = 0.2  # opacity of paths that end in no place
_TEXT_RGBA: RGBA = (0.05, 0.05, 0.05, 1.0)
_BYTES_PER_POINT = 40  # three doubles and four floats
_MIN_SHARE = 0.01  # places with a lower share get no marker
_MIN_DIFFERENCE = 0.05  # of a share, for a what-if to name the place
_ELLIPSE_SIGMAS = 2.0
_MIN_AXIS_M = 0.15
_PATH_HEIGHT_M, _ELLIPSE_HEIGHT_M, _TEXT_HEIGHT_M = 0.05, 0.03, 0.3
_LINE_SPACING = 1.6  # of texts, over their height
_SMALL, _LARGE = 0.65, 1.25  # height of small text and of the likeliest place, over that of the other
_WHAT_IF = 0.4  # opacity of a what-if, over that of the same live
_CHARACTER_WIDTH = 0.55  # over its height
_SPACE_WIDTH = 0.3  # over the height of text
_CERTAINTY = ((0.9, "very likely"), (0.6, "likely"), (0.4, "maybe"))  # from a share of so much on
_UNFAMILIAR = 0.5


@dataclass(frozen=True, slots=True)
class MarkerStyle:
    """Sizes, lifetime and namespace of the markers."""

    max_bytes: int = 80_000  # of all paths; fewer paths are drawn where they would need more
    segments: int = 12  # straight lines of a path
    width_m: float = 0.03
    text_m: float = 0.26
    lifetime_s: float = 2.0
    dashed: bool = False
    namespace: str = "forecast"

    def what_if(self) -> "MarkerStyle":
        """The style of a what-if: dashed paths, smaller text, a namespace of its own."""
        return replace(self, text_m=0.75 * self.text_m, dashed=True, namespace=f"{self.namespace}/what_if")

    def canvas(self, forecast: Forecast) -> Canvas:
        """Frame, stamp and lifetime of the markers of a forecast."""
        return Canvas(forecast.frame, forecast.stamp_ns, self.lifetime_s)


def clear_shapes() -> list[Shape]:
    """A marker that deletes all others of its topic."""
    return [Shape("", 0, Marker.ARROW, action=Marker.DELETEALL)]


def path_shapes(
    forecast: Forecast, places: Places, style: MarkerStyle, compared: Forecast | None = None
) -> list[Shape]:
    """Lines for each place and a sentence, with figures in small below it; replaces earlier markers.

    A what-if has its text only where it differs from the ``compared`` live forecast.
    """
    text = [] if compared is not None and not _differing(forecast, compared) else _headline(forecast, style)
    return [*clear_shapes(), *_paths(forecast, places, style), *text]


def endpoint_shapes(
    forecast: Forecast, places: Places, style: MarkerStyle, compared: Forecast | None = None
) -> list[Shape]:
    """Ellipse, name and percentage of each likely place; replaces earlier markers.

    A what-if has only the places whose share differs from that of the ``compared`` live forecast by 5 points.
    """
    named = set(forecast.shares) if compared is None else _differing(forecast, compared)
    return [*clear_shapes(), *(_endpoints(forecast, places, style, named) if forecast.known else ())]


def _differing(forecast: Forecast, compared: Forecast) -> set[str]:
    if not forecast.known or not compared.known:
        return set(forecast.shares)
    names = set(forecast.shares) | set(compared.shares)
    difference = {n: abs(forecast.shares.get(n, 0.0) - compared.shares.get(n, 0.0)) for n in names}
    return {n for n, d in difference.items() if d >= _MIN_DIFFERENCE}


# Paths


def _paths(forecast: Forecast, places: Places, style: MarkerStyle) -> Iterator[Shape]:
    if not forecast.known or not len(forecast.samples_xy):
        return
    groups = _groups(forecast, places)
    chosen = _choose(groups, max(1, style.max_bytes // (_BYTES_PER_POINT * 2 * style.segments)))
    lines = _resampled(forecast.samples_xy[chosen], style.segments * (2 if style.dashed else 1))  # (n, M + 1, 2)
    for group in np.unique(groups[chosen]).tolist():
        mine = lines[groups[chosen] == group]
        starts, stops = mine[:, :-1], mine[:, 1:]  # (m, M, 2)
        if style.dashed:
            starts, stops = starts[:, ::2], stops[:, ::2]
        points = np.stack([starts, stops], axis=2).reshape(-1, 2)
        rgb = _rgb(places, group)
        opacity = 0.15 + 0.75 * float(np.mean(groups == group)) if group >= 0 else _FAINT
        opacity *= _WHAT_IF if style.dashed else 1.0
        colours = np.broadcast_to([*rgb, opacity], (len(points), 4))
        yield Shape(
            f"{style.namespace}/paths",
            group + 2,
            Marker.LINE_LIST,
            height_m=_PATH_HEIGHT_M,
            scale=(style.width_m, 0.0, 0.0),
            colour=(*rgb, opacity),
            points=points,
            colours=colours,
        )


def _groups(forecast: Forecast, places: Places) -> Indices:
    """For each sample ``(S,)`` the index of the place it ends at, -1: in no place, -2: a sample of the free walker."""
    ends = forecast.ends_in(places)
    return np.where(forecast.component < 0, _FREE, ends)


def _choose(groups: Indices, most: int) -> Indices:
    """At most ``most`` samples, evenly spread over all, with at least one of every group."""
    if len(groups) <= most:
        return np.arange(len(groups))
    order = np.argsort(groups, kind="stable")
    spread = order[np.linspace(0, len(groups) - 1, most).round().astype(int)]
    first = np.unique(groups, return_index=True)[1]
    missing = first[~np.isin(groups[first], groups[spread])]
    return np.unique(np.concatenate([spread, missing]))


def _resampled(paths: Array, segments: int) -> Array:
    """Paths ``(n, K, 2)`` as so many segments of equal duration ``(n, segments + 1, 2)``."""
    steps = paths.shape[1] - 1
    at = np.linspace(0.0, steps, segments + 1)
    low = np.minimum(at.astype(int), max(steps - 1, 0))
    part = (at - low)[:, None]
    high = np.minimum(low + 1, steps)
    return np.asarray(paths[:, low] * (1.0 - part) + paths[:, high] * part)


def _rgb(places: Places, group: int) -> tuple[float, float, float]:
    return places.places[group].rgb if group >= 0 else _FREE_RGB if group == _FREE else _GREY_RGB


# Text beside the walker


def _headline(forecast: Forecast, style: MarkerStyle) -> list[Shape]:
    """The forecast in words above or below the walker, where fewer paths go, and its figures in small below the words.

    A what-if has its words farther out.
    """
    start, end = forecast.samples_xy[:, [0, -1]].mean(axis=0) if len(forecast.samples_xy) else np.zeros((2, 2))
    side = -1.0 if end[1] > start[1] else 1.0
    namespace, line_m = f"{style.namespace}/summary", _LINE_SPACING * style.text_m

    def at(lines: float) -> Array:
        return np.asarray(start + np.array([0.0, lines * line_m]))

    if style.dashed:
        return [_text(namespace, 0, at(3.3 * side), f"what if: {_sentence(forecast)}", style)]
    said = [_text(namespace, 0, at(1.5 if side > 0.0 else -0.85), _sentence(forecast), style)]
    if forecast.known and forecast.entropy is not None:
        figures = f"entropy {forecast.entropy:.2f} nats, {counted(forecast.walks, 'walk')}"
        small = replace(style, text_m=_SMALL * style.text_m)
        said.append(_text(namespace, 1, at(0.85 if side > 0.0 else -1.5), figures, small))
    return said


def _sentence(forecast: Forecast) -> str:
    """The forecast in a few words: ``very likely: kitchen``."""
    if not forecast.known:
        return unknown(forecast.reason)
    if forecast.unfamiliar >= _UNFAMILIAR:
        return f"an unfamiliar walk ({percent(forecast.unfamiliar)})"
    likely = sorted(forecast.shares.items(), key=lambda item: -item[1])[:2]
    for least, words in _CERTAINTY:
        if likely and likely[0][1] >= least:
            return f"{words}: {readable(likely[0][0])}"
    return "undecided: " + " or ".join(readable(name) for name, _ in likely) if likely else "undecided"


# Endpoints


def _endpoints(forecast: Forecast, places: Places, style: MarkerStyle, named: set[str]) -> Iterator[Shape]:
    last_xy = forecast.samples_xy[:, -1]  # (S, 2)
    arrived = places.assign(last_xy)  # samples still on their way do not count
    labels: list[tuple[int, Array, str, float]] = []
    for name, share in forecast.shares.items():
        index = places.names.index(name) if name in places.names else _ELSEWHERE
        here = last_xy[arrived == index]  # (m, 2)
        if share < _MIN_SHARE or name not in named or (index < 0 and not len(here)):
            continue
        middle, axes, angle = _ellipse(here) if len(here) else _disc(places, index)
        if index >= 0:
            yield _ellipse_shape(index, middle, axes, angle, _rgb(places, index), share, style)
            middle = middle + _beside(axes, angle, style)
        else:
            middle = here[np.argmin(np.linalg.norm(here - np.median(here, axis=0), axis=1))]  # one of the endpoints
        text = f"what if {percent(share)}" if style.dashed else with_share(name, share)
        labels.append((index, middle, text, _LARGE if share == max(forecast.shares.values()) else 1.0))
    large = replace(style, text_m=_LARGE * style.text_m)
    spread = _apart([(at, text) for _, at, text, _ in labels], large)
    for (index, _, text, size), xy in zip(labels, spread, strict=True):
        sized = replace(style, text_m=(size if index >= 0 else _SMALL) * style.text_m)
        yield _text(f"{style.namespace}/names", index + 2, xy, text, sized)


def _ellipse_shape(
    index: int,
    middle: Array,
    axes: tuple[float, float],
    angle: float,
    rgb: tuple[float, float, float],
    share: float,
    style: MarkerStyle,
) -> Shape:
    opacity = (_WHAT_IF if style.dashed else 1.0) * (0.25 + 0.25 * share)
    pose = Pose2(float(middle[0]), float(middle[1]), angle)
    scale = (axes[0], axes[1], 0.02)
    namespace = f"{style.namespace}/endpoints"
    return Shape(namespace, index + 2, Marker.CYLINDER, pose, _ELLIPSE_HEIGHT_M, scale, (*rgb, opacity))


def _beside(axes: tuple[float, float], angle: float, style: MarkerStyle) -> Array:
    """From the middle of an ellipse to where its name stands: above it, or below it for a what-if."""
    half_m = 0.5 * math.hypot(axes[0] * math.sin(angle), axes[1] * math.cos(angle))
    return np.array([0.0, (half_m + 0.7 * style.text_m) * (-1.0 if style.dashed else 1.0)])


def _apart(labels: list[tuple[Array, str]], style: MarkerStyle) -> list[Array]:
    """Positions of texts, moved up (down for a what-if) until none covers an earlier one."""
    step = np.array([0.0, -style.text_m if style.dashed else style.text_m])
    drawn: list[tuple[Array, str]] = []
    for at, text in labels:
        xy = np.asarray(at, dtype=float)
        while any(_overlap(xy, text, other, words, style.text_m) for other, words in drawn):
            xy = xy + step
        drawn.append((xy, text))
    return [xy for xy, _ in drawn]


def _overlap(a: Array, a_text: str, b: Array, b_text: str, text_m: float) -> bool:
    width_m = 0.5 * _CHARACTER_WIDTH * text_m * (len(a_text) + len(b_text))
    return bool(abs(a[0] - b[0]) < width_m and abs(a[1] - b[1]) < text_m)


def _ellipse(points: Array) -> tuple[Array, tuple[float, float], float]:
    """Mean, lengths of both axes (4 standard deviations, metres) and angle of the longer axis of points ``(m, 2)``."""
    middle = points.mean(axis=0)
    covariance = np.cov(points.T) if len(points) > 1 else np.zeros((2, 2))
    values, vectors = np.linalg.eigh(covariance)
    lengths = 2.0 * _ELLIPSE_SIGMAS * np.sqrt(np.maximum(values, 0.0))
    longer, shorter = max(float(lengths[1]), _MIN_AXIS_M), max(float(lengths[0]), _MIN_AXIS_M)
    return middle, (longer, shorter), math.atan2(vectors[1, 1], vectors[0, 1])


def _disc(places: Places, index: int) -> tuple[Array, tuple[float, float], float]:
    place = places.places[index]
    return place.xy, (2.0 * place.radius_m, 2.0 * place.radius_m), 0.0


def _text(namespace: str, number: int, xy: Array, text: str, style: MarkerStyle) -> Shape:
    pose = Pose2(float(xy[0]), float(xy[1]), 0.0)
    size = (_SPACE_WIDTH * style.text_m, style.text_m, style.text_m)  # rviz2 takes the width of a space from scale.x
    return Shape(namespace, number, Marker.TEXT_VIEW_FACING, pose, _TEXT_HEIGHT_M, size, _TEXT_RGBA, text=text)
