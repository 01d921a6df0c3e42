"""A house and beams for Embree, through Open3D's RaycastingScene."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.sim.house import House

__all__ = ["embree_rays", "embree_scene"]

Array = NDArray[np.float64]


def embree_scene(house: House) -> Any:
    """Every solid as a closed prism, with a floor and a ceiling."""
    o3d: Any = importlib.import_module("open3d")
    scene = o3d.t.geometry.RaycastingScene(nthreads=1)
    x0, y0, x1, y1 = house.bounds()
    floor = np.array([[x0 - 9, y0 - 9], [x1 + 9, y0 - 9], [x1 + 9, y1 + 9], [x0 - 9, y1 + 9]])
    outlines = [(s.outline, s.bottom_m, s.top_m) for s in house.solids]
    outlines += [(floor, -1.0, 0.0), (floor, house.wall_height_m, house.wall_height_m + 1.0)]
    for outline, bottom, top in outlines:
        corners, triangles = _prism(outline, bottom, top)
        scene.add_triangles(o3d.core.Tensor(corners), o3d.core.Tensor(triangles))
    return scene


def _prism(outline: Array, bottom: float, top: float) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Corners and triangles of an upright prism with a lid at both ends."""
    n = len(outline)
    corners = np.concatenate([np.column_stack([outline, np.full(n, z)]) for z in (bottom, top)])
    triangles = []
    for i in range(n):
        j = (i + 1) % n
        triangles += [(i, j, n + j), (i, n + j, n + i)]
    for ring in (0, n):
        triangles += [(ring + a, ring + b, ring + c) for a, b, c in _ears(outline)]
    return corners.astype(np.float32), np.array(triangles, dtype=np.uint32)


def _ears(outline: Array) -> list[tuple[int, int, int]]:
    """Triangles that fill a polygon, ear by ear."""
    x, y = outline.T
    left = list(range(len(outline)))
    if float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) < 0.0:
        left.reverse()
    found = []
    while len(left) > 3:
        for k in range(len(left)):
            a, b, c = left[k - 1], left[k], left[(k + 1) % len(left)]
            others = [outline[i] for i in left if i not in (a, b, c)]
            if _turn(outline[a], outline[b], outline[c]) > 0 and not any(
                _in_triangle(p, outline[a], outline[b], outline[c]) for p in others
            ):
                found.append((a, b, c))
                left.pop(k)
                break
    return [*found, (left[0], left[1], left[2])]


def _turn(a: Array, b: Array, c: Array) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _in_triangle(p: Array, a: Array, b: Array, c: Array) -> bool:
    return min(_turn(a, b, p), _turn(b, c, p), _turn(c, a, p)) >= 0.0


def embree_rays(origins: Array, azimuths: Array, heights: Array, slopes: Array) -> Any:
    """Beams as rays (N, 6), in Open3D's format; lengths along them are horizontal distances."""
    o3d: Any = importlib.import_module("open3d")
    rays = np.column_stack([origins, heights, np.cos(azimuths), np.sin(azimuths), slopes]).astype(np.float32)
    return o3d.core.Tensor(rays)
