"""Minimum-degree elimination order of a sparse symmetric system."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

__all__ = ["minimum_degree"]

Ints = NDArray[np.int64]


@kernel
def minimum_degree(count: int, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    """Elimination order, and for each step the poses that are neighbours then: the columns of the factor."""
    begin, size, room, pool, used = _neighbour_lists(count, a, b)
    # Queues of poses by degree. Degrees up to two share one, so that a chain falls apart evenly: its elimination tree
    # is then as shallow as its logarithm, not as deep as the chain is long.
    ends, after, before = np.full((count + 3, 2), -1), np.full(count, -1), np.full(count, -1)
    for v in range(count):
        _link(v, size[v], ends, after, before)
    order, starts = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    out, written = np.empty(4 * count + 16, np.int64), 0
    mark, stamp, lowest = np.zeros(count, np.int64), 0, 0
    for step in range(count):
        while ends[lowest, 0] < 0:
            lowest += 1
        v = ends[lowest, 0]
        _unlink(v, size[v], ends, after, before)
        order[step] = v
        first, last = begin[v], begin[v] + size[v]
        while written + size[v] > len(out):
            out = np.concatenate((out, np.empty_like(out)))
        out[written : written + size[v]] = pool[first:last]
        written += size[v]
        starts[step + 1] = written
        for i in range(first, last):
            u = pool[i]
            _unlink(u, size[u], ends, after, before)
            # The neighbours of u: its own without v, and all other neighbours of v.
            need = size[u] + size[v]
            if used + need > len(pool):
                pool = np.concatenate((pool, np.empty(len(pool) + need, np.int64)))
            stamp += 1
            fresh, n = used, _merge(pool, used, u, v, begin, size, mark, stamp)
            if n <= room[u]:
                pool[begin[u] : begin[u] + n] = pool[fresh : fresh + n]
            else:
                begin[u], room[u] = fresh, need
                used += need
            size[u] = n
            _link(u, n, ends, after, before)
            lowest = min(lowest, max(n, 2))
    return order, starts, out[:written].copy()


@kernel
def _merge(pool: Ints, fresh: int, u: int, v: int, begin: Ints, size: Ints, mark: Ints, stamp: int) -> int:
    """Write the neighbours of u and those of v, without u and v, to the pool from ``fresh`` on; returns how many."""
    mark[u] = stamp
    mark[v] = stamp
    n = 0
    for owner in (u, v):
        for j in range(begin[owner], begin[owner] + size[owner]):
            w = pool[j]
            if mark[w] != stamp:
                mark[w] = stamp
                pool[fresh + n] = w
                n += 1
    return n


@kernel
def _neighbour_lists(count: int, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints, Ints, int]:
    """Neighbours of each pose without doubles, in one pool: begin, size and room of each list."""
    degree = np.zeros(count, np.int64)
    for e in range(len(a)):
        degree[a[e]] += 1
        degree[b[e]] += 1
    begin = np.zeros(count, np.int64)
    for v in range(1, count):
        begin[v] = begin[v - 1] + degree[v - 1]
    used = 2 * len(a)
    pool = np.empty(8 * used + 4 * count + 64, np.int64)
    size = np.zeros(count, np.int64)
    for e in range(len(a)):
        for v, w in ((a[e], b[e]), (b[e], a[e])):
            known = False
            for j in range(begin[v], begin[v] + size[v]):
                known = known or pool[j] == w
            if not known:
                pool[begin[v] + size[v]] = w
                size[v] += 1
    return begin, size, degree, pool, used


@kernel
def _link(v: int, degree: int, ends: Ints, after: Ints, before: Ints) -> None:
    """Put a pose at the end of its queue."""
    queue = max(degree, 2)
    last = ends[queue, 1]
    before[v], after[v] = last, -1
    if last >= 0:
        after[last] = v
    else:
        ends[queue, 0] = v
    ends[queue, 1] = v


@kernel
def _unlink(v: int, degree: int, ends: Ints, after: Ints, before: Ints) -> None:
    queue = max(degree, 2)
    if before[v] >= 0:
        after[before[v]] = after[v]
    else:
        ends[queue, 0] = after[v]
    if after[v] >= 0:
        before[after[v]] = before[v]
    else:
        ends[queue, 1] = before[v]
