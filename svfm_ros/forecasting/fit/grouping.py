"""Points that lie near each other, in groups: where walks end, where they start."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_points"]

_CELL_M = 0.2  # points this near are one before groups are formed
_MOST_CELLS = 1500  # clustering is quadratic in these, not in the points


def group_points(xy: NDArray[np.float64], apart_m: float, most: int, seed: int = 0) -> NDArray[np.int64]:
    """A group for each point (N, 2), numbered from 0, at most ``most`` of them; groups are about ``apart_m`` apart.

    Points are first gathered in square cells, so that memory and time grow with the floor, not with the walks.
    """
    from sklearn.cluster import AgglomerativeClustering, KMeans

    cell_m = _CELL_M
    while True:
        cells, cell = np.unique(np.floor(xy / cell_m).astype(np.int64), axis=0, return_inverse=True)
        cell = cell.reshape(-1)
        if len(cells) <= _MOST_CELLS:
            break
        cell_m *= 1.5
    weight = np.bincount(cell).astype(float)
    centre = np.stack([np.bincount(cell, xy[:, i]) for i in (0, 1)], axis=1) / weight[:, None]
    if len(centre) == 1:
        return np.zeros(len(xy), dtype=np.int64)
    near = AgglomerativeClustering(n_clusters=None, distance_threshold=apart_m, linkage="average")
    found = near.fit_predict(centre)
    if found.max() >= most:
        found = KMeans(most, n_init=4, random_state=seed).fit_predict(centre, sample_weight=weight)
    return np.asarray(np.unique(found, return_inverse=True)[1].reshape(-1)[cell], dtype=np.int64)
