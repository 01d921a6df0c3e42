"""Correlative scan matching by branch and bound (Hess et al. 2016).

The target is a pyramid of score grids. The score at a coarse level is an upper bound for all poses of its block, so the
search returns the same best pose as an exhaustive search over all cells and angles. Used by scan matching, loop
closure, relocalisation and the alignment of walks.

Written by hand because it is faster than the library of the same method: on the 1,061 s of scans of Freiburg 079, SLAM
takes 11 s with it, yag-slam (the matcher of Karto, compiled) 108 s (``benchmarks/slam.py``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.geometry import wrap_angle
from svfm_ros.slam.matching.pyramid import Pyramid, pyramid_from_grid
from svfm_ros.types import Pose2

__all__ = [
    "Fit",
    "Pyramid",
    "Window",
    "ambiguity",
    "pyramid_from_grid",
    "search",
    "search_blocks",
    "search_sectors",
    "thinned",
]

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Window:
    """Search window: ``centre``, plus or minus ``reach_m`` in x and y and ``turn_rad`` in heading.

    Penalties make the search prefer poses near the centre: score lost per square metre and per square radian, at most
    ``most_penalty`` each, so that a clear match outweighs a wrong prior.
    """

    centre: Pose2
    reach_m: float
    turn_rad: float = np.pi
    penalty_per_m2: float = 0.0
    penalty_per_rad2: float = 0.0
    most_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    """The best pose found; ``score`` is the mean over the points, 1 when each lies in an occupied cell."""

    T_target_source: Pose2
    score: float


def search(pyramid: Pyramid, points: Array, window: Window, min_score: float = 0.0) -> Fit | None:
    """The best pose of source ``points`` (N, 2) inside the window, or None when none scores above ``min_score``."""
    fits = search_sectors(pyramid, points, window, 1, min_score)
    return fits[0] if fits else None


def search_sectors(
    pyramid: Pyramid, points: Array, window: Window, sectors: int, min_score: float = 0.0, margin: float = np.inf
) -> list[Fit]:
    """The best pose in each of several sectors of the turn, best first.

    Those not above ``min_score``, and those that score ``margin`` less than the best of all, are left out.
    """
    return _search(pyramid, points, window, sectors, False, min_score, margin, sectors)


def search_blocks(
    pyramid: Pyramid, points: Array, window: Window, sectors: int, min_score: float, margin: float, most: int
) -> list[Fit]:
    """The best poses, at most one for each sector of the turn and each block of the pyramid's top level, best first.

    Alternatives at other positions are found as well as those with another heading; at most ``most`` are returned.
    """
    return _search(pyramid, points, window, sectors, True, min_score, margin, most)


def _search(
    pyramid: Pyramid,
    points: Array,
    window: Window,
    sectors: int,
    by_block: bool,
    min_score: float,
    margin: float,
    most: int,
) -> list[Fit]:
    if len(points) == 0:
        return []
    found = _branch_and_bound(
        pyramid.levels,
        pyramid.origin,
        pyramid.resolution_m,
        pyramid.unknown,
        np.ascontiguousarray(points),
        window.centre.as_array(),
        _angles(points, pyramid.resolution_m, window.turn_rad),
        sectors,
        by_block,
        window.reach_m,
        window.penalty_per_m2,
        window.penalty_per_rad2,
        window.most_penalty,
        min_score,
        margin,
        most,
    )
    found = found[np.argsort(-found[:, 0], kind="stable")]
    centre = window.centre
    return [
        Fit(Pose2(centre.x + dx, centre.y + dy, float(wrap_angle(centre.theta + turn))), score)
        for score, dx, dy, turn in found.tolist()
    ]


def thinned(points: Array, most: int) -> Array:
    """At most ``most`` of the points, evenly spaced in their order."""
    return points if len(points) <= most else points[np.arange(most) * (len(points) - 1) // max(most - 1, 1)]


def ambiguity(pyramid: Pyramid, points: Array, best: Pose2, window: Window, softness: float) -> tuple[Array, Array]:
    """Mean offset ``(2,)`` and covariance ``(2, 2)`` of x and y over the window of poses that score nearly as well.

    They have the best heading; the covariance is that around the best pose.

    The weight of a pose is ``exp((score - best score) / softness)``, penalties included. The variance that the grid's
    resolution adds is subtracted, so that a sharp peak gives zero.
    """
    mean, moments = _moments(
        pyramid.levels[0],
        pyramid.origin,
        pyramid.resolution_m,
        pyramid.unknown,
        np.ascontiguousarray(points),
        best.as_array(),
        window.centre.as_array(),
        window.reach_m,
        window.penalty_per_m2,
        window.most_penalty,
        softness,
    )
    return mean, _subtracted(moments, pyramid.resolution_m**2)


@kernel
def _angles(points: Array, resolution_m: float, turn_rad: float) -> Array:
    """Turns to try: a step moves the far points (nine tenths lie nearer) by one cell."""
    nth = int(0.9 * (len(points) - 1))
    far_m = np.sort(np.sqrt(points[:, 0] ** 2 + points[:, 1] ** 2))[nth]
    step = min(max(resolution_m / max(far_m, 1e-3), np.radians(0.25)), np.radians(3.0))
    count = int(np.ceil(turn_rad / step))
    return np.asarray(np.arange(-count, count + 1) * (turn_rad / max(count, 1)), dtype=np.float64)


@kernel
def _cells(points: Array, centre: Array, angles: Array, origin: Array, resolution_m: float) -> Ints:
    """Column and row of every point for every angle, at the window's centre: ``(A, N, 2)``."""
    cells = np.empty((len(angles), len(points), 2), dtype=np.int32)
    for a in range(len(angles)):
        c, s = np.cos(centre[2] + angles[a]), np.sin(centre[2] + angles[a])
        for i in range(len(points)):
            x = centre[0] + c * points[i, 0] - s * points[i, 1]
            y = centre[1] + s * points[i, 0] + c * points[i, 1]
            cells[a, i, 0] = int(np.floor((x - origin[0]) / resolution_m))
            cells[a, i, 1] = int(np.floor((y - origin[1]) / resolution_m))
    return cells


@kernel
def _mean_score(level: Bytes, unknown: int, cells: Ints, ox: int, oy: int) -> float:
    height, width = level.shape
    total = 0
    for i in range(len(cells)):
        c, r = cells[i, 0] + ox, cells[i, 1] + oy
        if 0 <= c < width and 0 <= r < height:
            total += level[r, c]
        else:
            total += unknown
    return total / (255.0 * len(cells))


@kernel
def _nearest(o: int, size: int) -> int:
    """Distance to zero of the nearest of the offsets o … o + size - 1, in cells."""
    return 0 if o <= 0 < o + size else min(abs(o), abs(o + size - 1))


@kernel
def _bound(
    level: Bytes,
    unknown: int,
    cells: Ints,
    ox: int,
    oy: int,
    size: int,
    resolution_m: float,
    per_m2: float,
    most: float,
    turn_cost: float,
) -> float:
    square = (_nearest(ox, size) ** 2 + _nearest(oy, size) ** 2) * resolution_m**2
    return _mean_score(level, unknown, cells, ox, oy) - min(per_m2 * square, most) - turn_cost


@kernel
def _moments(
    level: Bytes,
    origin: Array,
    resolution_m: float,
    unknown: int,
    points: Array,
    best: Array,
    centre: Array,
    reach_m: float,
    per_m2: float,
    most: float,
    softness: float,
) -> tuple[Array, Array]:
    """Mean offset ``(2,)`` and second moments ``(2, 2)`` of x and y around the best pose, weighted by score."""
    cells = _cells(points, best, np.zeros(1), origin, resolution_m)[0]
    half = int(np.ceil(reach_m / resolution_m))
    total, peak, mx, my, xx, xy, yy = 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    scores = np.empty((2 * half + 1, 2 * half + 1))
    for j in range(-half, half + 1):
        for i in range(-half, half + 1):
            dx, dy = best[0] + i * resolution_m - centre[0], best[1] + j * resolution_m - centre[1]
            score = _mean_score(level, unknown, cells, i, j) - min(per_m2 * (dx * dx + dy * dy), most)
            scores[j + half, i + half] = score
            peak = max(peak, score)
    for j in range(-half, half + 1):
        for i in range(-half, half + 1):
            w = np.exp((scores[j + half, i + half] - peak) / softness)
            dx, dy = i * resolution_m, j * resolution_m
            total += w
            mx += w * dx
            my += w * dy
            xx += w * dx * dx
            xy += w * dx * dy
            yy += w * dy * dy
    return np.array([mx / total, my / total]), np.array([[xx / total, xy / total], [xy / total, yy / total]])


@kernel
def _subtracted(moments: Array, off: float) -> Array:
    """A covariance ``(2, 2)`` with ``off`` subtracted from both eigenvalues, none below zero."""
    xx, xy, yy = moments[0, 0], moments[0, 1], moments[1, 1]
    mean, root = 0.5 * (xx + yy), np.hypot(0.5 * (xx - yy), xy)
    large, small = max(mean + root - off, 0.0), max(mean - root - off, 0.0)
    if root < 1e-15:
        return np.array([[large, 0.0], [0.0, large]])
    # Projections onto the axes: (M - other) / (difference), so that no angle is needed.
    share_xx, share_xy = 0.5 + 0.25 * (xx - yy) / root, 0.5 * xy / root
    x = small + (large - small) * share_xx
    y = small + (large - small) * (1.0 - share_xx)
    cross = (large - small) * share_xy
    return np.array([[x, cross], [cross, y]])


@kernel
def _branch_and_bound(
    levels: Bytes,
    origin: Array,
    resolution_m: float,
    unknown: int,
    points: Array,
    centre: Array,
    angles: Array,
    sectors: int,
    by_block: bool,
    reach_m: float,
    per_m2: float,
    per_rad2: float,
    most_penalty: float,
    min_score: float,
    margin: float,
    most: int,
) -> Array:
    """The best pose of each bin that is among the ``most`` best: ``(M, 4)``, score, offset in metres, turn.

    A bin is a sector of the turn, with ``by_block`` of one block of the top level. Blocks with the highest bounds are
    searched first, over all angles, so that most of the others need not be searched.
    """
    cells = _cells(points, centre, angles, origin, resolution_m)
    top = levels.shape[0] - 1
    half = int(np.ceil(reach_m / resolution_m))
    size = 1 << top
    side = (2 * half) // size + 1
    # Every block of the top level, at every angle.
    bounds = np.empty(len(angles) * side * side)
    k = 0
    for a in range(len(angles)):
        turn_cost = min(per_rad2 * angles[a] ** 2, most_penalty)
        for j in range(side):
            for i in range(side):
                bounds[k] = _bound(
                    *(levels[top], unknown, cells[a], i * size - half, j * size - half, size),
                    *(resolution_m, per_m2, most_penalty, turn_cost),
                )
                k += 1
    hopeful = np.nonzero(bounds > min_score)[0]
    order = hopeful[np.argsort(-bounds[hopeful])]
    bins = sectors * side * side if by_block else sectors
    best, found = np.full(bins, -np.inf), np.zeros((bins, 4))
    least = min_score  # what a bin must exceed to be among those returned
    # Depth first; a node is angle, x, y, level. At most four children per level are on the stack.
    nodes, node_bounds = np.empty((4 * (top + 1) + 4, 4), dtype=np.int64), np.empty(4 * (top + 1) + 4)
    for k in order:
        if bounds[k] <= least:
            break
        a, rest = k // (side * side), k % (side * side)
        own = a * sectors // len(angles)
        if by_block:
            own = own * side * side + rest
        nodes[0] = (a, (rest % side) * size - half, (rest // side) * size - half, top)
        node_bounds[0] = bounds[k]
        turn_cost = min(per_rad2 * angles[a] ** 2, most_penalty)
        waiting = 1
        while waiting > 0:
            waiting -= 1
            if node_bounds[waiting] <= max(best[own], least):
                continue
            a, x, y, h = nodes[waiting]
            if h == 0:
                best[own] = node_bounds[waiting]
                found[own] = (best[own], x * resolution_m, y * resolution_m, angles[a])
                least = max(least, best[own] - margin)
                if most < bins:
                    least = max(least, np.partition(best, bins - most)[bins - most])
                continue
            s = 1 << (h - 1)
            first = waiting
            for child in range(4):
                ox, oy = x + s * (child % 2), y + s * (child // 2)
                if ox > half or oy > half:
                    continue
                bound = _bound(
                    *(levels[h - 1], unknown, cells[a], ox, oy, s, resolution_m, per_m2, most_penalty, turn_cost)
                )
                if bound <= max(best[own], least):
                    continue
                at = waiting  # keep the children sorted: the best is expanded first
                while at > first and node_bounds[at - 1] > bound:
                    node_bounds[at] = node_bounds[at - 1]
                    nodes[at] = nodes[at - 1]
                    at -= 1
                node_bounds[at] = bound
                nodes[at] = (a, ox, oy, h - 1)
                waiting += 1
    return found[best >= least] if most < bins else found[best > least]
