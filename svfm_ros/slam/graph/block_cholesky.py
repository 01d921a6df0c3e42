"""Sparse Cholesky factorisation of systems of 3 x 3 blocks, as 2D pose graphs give them.

A pose graph is a long chain with a few hundred loop edges. Eliminating nodes with few neighbours first (minimum degree)
keeps the factor almost as sparse as the graph. A step with 2,000 poses and 500 loops takes 3 ms; SciPy's SuperLU took
37 ms for the factor alone.

Written by hand because it is faster than GTSAM 4.3 at the same error (``benchmarks/libraries.py``): least squares on
such a graph 1.2 times (42 ms, GTSAM 50 ms), with false loops to be found 7.8 times (225 ms, GTSAM's graduated
non-convexity 1,751 ms; errors 0.217 and 0.215 m, a tie).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

__all__ = ["FIXED", "Factor", "Structure", "build_structure", "factorise", "minimum_degree"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FIXED = -1
"""Column of a pose that is fixed, and therefore no unknown."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Where the factor has blocks. Column k holds ``rows[starts[k] : starts[k + 1]]`` below its diagonal."""

    column: Ints  # (N,): column of each pose, FIXED for the fixed one
    starts: Ints  # (M + 1,)
    rows: Ints  # (nnz,), ascending within a column
    slots: Ints  # (E,): where the block of an edge lies in rows, FIXED where one end is fixed

    @property
    def size(self) -> int:
        """How many unknown poses there are."""
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class Factor:
    """Lower triangular factor of a positive definite system."""

    structure: Structure
    diagonal: Array  # (M, 3, 3), lower triangular
    below: Array  # (nnz, 3, 3)

    def solve(self, right: Array) -> Array:
        """Solution ``(M, 3)`` for a right-hand side of the same shape, both by column."""
        return _solve(self.structure.starts, self.structure.rows, self.diagonal, self.below, right.copy())

    def propagated(self, from_column: int, to_column: int, J_from: Array, J_to: Array) -> Array:
        """``J P J'`` (3, 3): covariance of a function of two poses with the given Jacobians; a column may be FIXED."""
        s = self.structure
        return _propagated(s.starts, s.rows, self.diagonal, self.below, from_column, to_column, J_from, J_to)


def build_structure(count: int, fixed: int, edge_from: Ints, edge_to: Ints) -> Structure:
    """Order the poses ``0 .. count - 1`` without the fixed one, and find where the factor of these edges has blocks."""
    unknown = np.arange(count) - (np.arange(count) > fixed)
    unknown[fixed] = FIXED
    a, b = unknown[edge_from], unknown[edge_to]
    free = (a != FIXED) & (b != FIXED) & (a != b)
    order, starts, rows = minimum_degree(count - 1, a[free], b[free])
    position = np.empty(count - 1, dtype=np.int64)
    position[order] = np.arange(count - 1)
    column = np.where(unknown == FIXED, FIXED, position[np.maximum(unknown, 0)] if count > 1 else FIXED)
    rows = _sort_rows(starts, position[rows])
    return Structure(column, starts, rows, _find_slots(starts, rows, column[edge_from], column[edge_to]))


def factorise(structure: Structure, diagonal: Array, below: Array) -> Factor | None:
    """Cholesky factor, made in place of the given blocks; ``None`` where the system is not positive definite."""
    if not _factor(structure.starts, structure.rows, diagonal, below):
        return None
    return Factor(structure, diagonal, below)


@kernel
def _sort_rows(starts: Ints, rows: Ints) -> Ints:
    for k in range(len(starts) - 1):
        rows[starts[k] : starts[k + 1]] = np.sort(rows[starts[k] : starts[k + 1]])
    return rows


@kernel
def _find_slots(starts: Ints, rows: Ints, column_a: Ints, column_b: Ints) -> Ints:
    slots = np.full(len(column_a), -1)
    for e in range(len(column_a)):
        low, high = min(column_a[e], column_b[e]), max(column_a[e], column_b[e])
        if low >= 0 and low != high:
            first = starts[low]
            slots[e] = first + np.searchsorted(rows[first : starts[low + 1]], high)
    return slots


@kernel
def _factor(starts: Ints, rows: Ints, diagonal: Array, below: Array) -> bool:
    """Right-looking Cholesky; false where a pivot is not positive."""
    for k in range(len(starts) - 1):
        D = diagonal[k]
        for i in range(3):
            for j in range(i + 1):
                total = D[i, j]
                for t in range(j):
                    total -= D[i, t] * D[j, t]
                if i == j:
                    if not total > 0.0:
                        return False
                    D[i, i] = np.sqrt(total)
                else:
                    D[i, j] = total / D[j, j]
            for j in range(i + 1, 3):
                D[i, j] = 0.0
        for p in range(starts[k], starts[k + 1]):
            _times_inverse_transposed(below[p], D)
        for p in range(starts[k], starts[k + 1]):
            j = rows[p]
            _subtract_product(diagonal[j], below[p], below[p])
            q = starts[j]
            for r in range(p + 1, starts[k + 1]):
                while rows[q] < rows[r]:
                    q += 1
                _subtract_product(below[q], below[r], below[p])
    return True


@kernel
def _times_inverse_transposed(A: Array, L: Array) -> None:
    """``A <- A inv(L)'`` for a lower triangular L."""
    for i in range(3):
        A[i, 0] = A[i, 0] / L[0, 0]
        A[i, 1] = (A[i, 1] - A[i, 0] * L[1, 0]) / L[1, 1]
        A[i, 2] = (A[i, 2] - A[i, 0] * L[2, 0] - A[i, 1] * L[2, 1]) / L[2, 2]


@kernel
def _subtract_product(C: Array, A: Array, B: Array) -> None:
    """``C <- C - A B'``."""
    for i in range(3):
        for j in range(3):
            C[i, j] -= A[i, 0] * B[j, 0] + A[i, 1] * B[j, 1] + A[i, 2] * B[j, 2]


@kernel
def _solve(starts: Ints, rows: Ints, diagonal: Array, below: Array, x: Array) -> Array:
    for k in range(len(starts) - 1):
        D = diagonal[k]
        x[k, 0] = x[k, 0] / D[0, 0]
        x[k, 1] = (x[k, 1] - D[1, 0] * x[k, 0]) / D[1, 1]
        x[k, 2] = (x[k, 2] - D[2, 0] * x[k, 0] - D[2, 1] * x[k, 1]) / D[2, 2]
        for p in range(starts[k], starts[k + 1]):
            for i in range(3):
                x[rows[p], i] -= below[p, i, 0] * x[k, 0] + below[p, i, 1] * x[k, 1] + below[p, i, 2] * x[k, 2]
    for k in range(len(starts) - 2, -1, -1):
        D = diagonal[k]
        for p in range(starts[k], starts[k + 1]):
            r = rows[p]
            for i in range(3):
                x[k, i] -= below[p, 0, i] * x[r, 0] + below[p, 1, i] * x[r, 1] + below[p, 2, i] * x[r, 2]
        x[k, 2] = x[k, 2] / D[2, 2]
        x[k, 1] = (x[k, 1] - D[2, 1] * x[k, 2]) / D[1, 1]
        x[k, 0] = (x[k, 0] - D[1, 0] * x[k, 1] - D[2, 0] * x[k, 2]) / D[0, 0]
    return x


@kernel
def _propagated(
    starts: Ints, rows: Ints, diagonal: Array, below: Array, a: int, b: int, J_a: Array, J_b: Array
) -> Array:
    """``|inv(L) J'|^2``: only columns on the way from the two poses to the root are touched."""
    count = len(starts) - 1
    w = np.zeros((count, 3, 3))  # the right-hand side J', then the part of it that is left
    if a >= 0:
        w[a] = J_a.T
    if b >= 0:
        w[b] += J_b.T
    total = np.zeros((3, 3))
    a = a if a >= 0 else count
    b = b if b >= 0 else count
    while min(a, b) < count:
        k = min(a, b)
        D, y = diagonal[k], w[k]
        for c in range(3):
            y[0, c] = y[0, c] / D[0, 0]
            y[1, c] = (y[1, c] - D[1, 0] * y[0, c]) / D[1, 1]
            y[2, c] = (y[2, c] - D[2, 0] * y[0, c] - D[2, 1] * y[1, c]) / D[2, 2]
        for i in range(3):
            for j in range(3):
                total[i, j] += y[0, i] * y[0, j] + y[1, i] * y[1, j] + y[2, i] * y[2, j]
        for p in range(starts[k], starts[k + 1]):
            left = w[rows[p]]
            for i in range(3):
                for j in range(3):
                    left[i, j] -= below[p, i, 0] * y[0, j] + below[p, i, 1] * y[1, j] + below[p, i, 2] * y[2, j]
        parent = rows[starts[k]] if starts[k + 1] > starts[k] else count
        a, b = (parent if a == k else a), (parent if b == k else b)
    return total


@kernel
def minimum_degree(count: int, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    """Elimination order, and for each step the poses that are neighbours then: the columns of the factor."""
    begin, size, room, pool, used = _neighbour_lists(count, a, b)
    # Queues of poses by degree. Degrees up to two share one queue, so that poses of a chain are eliminated evenly along
    # it: the depth of the elimination tree is then the logarithm of the chain's length.
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
    """Neighbours of each pose without duplicates, in one pool: begin, size and capacity of each list."""
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
