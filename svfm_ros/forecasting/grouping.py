"""Points that lie near each other, in groups: where walks end, where they start."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_points"]


def group_points(
    xy: NDArray[np.float64], apart_m: float, most: int, seed: int = 0, exactly: int = 0
) -> NDArray[np.int64]:
    """A group for each point (N, 2), numbered from 0; no more than ``most``, or ``exactly`` so many where there are."""
    from sklearn.cluster import AgglomerativeClustering, KMeans

    if len(xy) == 1:
        return np.zeros(1, dtype=np.int64)
    wanted = min(exactly, len(np.unique(xy, axis=0)))
    if not wanted:
        near = AgglomerativeClustering(n_clusters=None, distance_threshold=apart_m, linkage="average")
        found = near.fit_predict(xy)
        if found.max() < most:
            return np.asarray(found, dtype=np.int64)
        wanted = most
    return np.asarray(KMeans(wanted, n_init=10, random_state=seed).fit_predict(xy), dtype=np.int64)
