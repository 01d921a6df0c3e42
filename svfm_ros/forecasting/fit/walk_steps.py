"""The moves of all walks as flat arrays: what fields, spreads and hazards are learnt from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

if TYPE_CHECKING:
    from svfm_ros.forecasting.footprints import Footprints

__all__ = [
    "Moves",
    "WalkRows",
    "are_passers_by",
    "comes_to_rest",
    "first_shares",
    "joined",
    "overlapping_moves",
    "stays_s",
    "walk_rows",
]

Array = NDArray[np.float64]

_LEAST_SHARE = 0.05
_AT_REST = 0.7  # of the usual length of a walk's moves: whose last move is longer was not about to stop
_AT_ONCE = 0.2  # of the walks begin while another is under way: then they are of several people
_PHASES = 4  # overlapping moves per step: what lies between two ticks is a move of the same length of time, too


@dataclass(frozen=True, slots=True)
class WalkRows:
    """Walks on the tick, relative to the model's origin."""

    dt_s: float
    origin: Array  # (2,)
    xy: tuple[Array, ...]  # per row (T, 2), T at least 2
    variance: tuple[Array, ...]  # per row (T - 1,), variance of each move from uncertain positions, m^2
    hour: Array  # (N,), local hour of the start
    day: NDArray[np.int64]  # (N,), local date of the start, days since 1970-01-01
    end_ns: NDArray[np.int64]  # (N,)
    start_ns: NDArray[np.int64]  # (N,)
    ended: NDArray[np.bool_]  # (N,), the walk ends with the row; otherwise it was cut
    walk: NDArray[np.int64]  # (N,), which walk; rows of one walk share the number
    resident: tuple[str, ...]  # (N,)
    passers_by: bool = False  # tracks of several people in a scene

    def __len__(self) -> int:
        return len(self.xy)

    @property
    def ends(self) -> Array:
        """Where each row ends (N, 2)."""
        return np.stack([xy[-1] for xy in self.xy])

    @property
    def starts(self) -> Array:
        """Where each row starts (N, 2)."""
        return np.stack([xy[0] for xy in self.xy])


def walk_rows(windows: WalkWindows, passers_by: bool | None = None) -> WalkRows:
    """Rows of at least two positions; the last row of a walk ends it.

    Where walks are tracks of people who pass through a scene, a track ends only where the walker slows down: who is as
    fast as before went out of sight. ``passers_by`` says whether they are; by default, where tracks overlap in time.
    """
    from svfm_ros.clock import days_of

    keep = np.flatnonzero(windows.lengths >= 2)
    if not len(keep):
        raise DataError(f"expected walks of at least two positions, got none among {len(windows)}")
    if not np.isfinite(windows.xy[keep]).all():
        raise DataError("expected finite positions, got NaN or infinity")
    lengths = windows.lengths
    scene = are_passers_by(windows) if passers_by is None else passers_by
    origin = np.round(windows.xy[keep][windows.valid[keep]].mean(0), 3)
    xy = tuple(windows.xy[n, : lengths[n]] - origin for n in keep)
    number = {name: i for i, name in enumerate(dict.fromkeys(windows.walk_ids))}
    dt_ns = round(windows.dt_s * 1e9)
    return WalkRows(
        dt_s=windows.dt_s,
        origin=origin,
        xy=xy,
        variance=tuple(_move_variance(windows, int(n)) for n in keep),
        hour=windows.start_hour[keep],
        day=days_of(windows.start_ns[keep], windows.time_zone),
        start_ns=windows.start_ns[keep],
        end_ns=windows.start_ns[keep] + dt_ns * (lengths[keep] - 1),
        ended=_last_rows(windows)[keep] & ((not scene) | np.array([comes_to_rest(x) for x in xy])),
        walk=np.array([number[windows.walk_ids[n]] for n in keep], dtype=np.int64),
        resident=tuple(windows.residents[n] for n in keep),
        passers_by=scene,
    )


def joined(old: "Footprints", new: WalkRows | None, dt_s: float, time_zone: str) -> WalkRows:
    """Rows of the walks that a model was learnt from, and new rows behind them."""
    from svfm_ros.clock import days_of, hours_of_day

    lengths = np.bincount(old.row, minlength=len(old.walk))
    cuts = np.cumsum(lengths)[:-1]
    before = [xy.astype(float) for xy in np.split(old.local_xy, cuts)]
    dt_ns = round(dt_s * 1e9)
    rows = WalkRows(
        dt_s=dt_s,
        origin=old.origin,
        xy=tuple(before),
        variance=tuple(np.zeros(len(xy) - 1) for xy in before),
        hour=hours_of_day(old.start_ns, time_zone),
        day=days_of(old.start_ns, time_zone),
        start_ns=old.start_ns,
        end_ns=old.start_ns + dt_ns * (lengths - 1),
        ended=old.ended,
        walk=old.walk,
        resident=tuple(old.residents[i] for i in old.resident.tolist()),
        passers_by=old.passers_by,
    )
    if new is None:
        return rows
    shift = new.origin - old.origin
    return WalkRows(
        dt_s=dt_s,
        origin=old.origin,
        xy=(*rows.xy, *(xy + shift for xy in new.xy)),
        variance=(*rows.variance, *new.variance),
        hour=np.concatenate([rows.hour, new.hour]),
        day=np.concatenate([rows.day, new.day]),
        start_ns=np.concatenate([rows.start_ns, new.start_ns]),
        end_ns=np.concatenate([rows.end_ns, new.end_ns]),
        ended=np.concatenate([rows.ended, new.ended]),
        walk=np.concatenate([rows.walk, new.walk + len(old.names)]),
        resident=(*rows.resident, *new.resident),
        passers_by=rows.passers_by or new.passers_by,
    )


def _move_variance(windows: WalkWindows, row: int) -> Array:
    """Variance (T - 1,) of the moves of a row that comes from its positions: the mean over x and y of both ends'."""
    length = int(windows.lengths[row])
    if windows.variance is None:
        return np.zeros(length - 1)
    each = np.nan_to_num(windows.variance[row, :length]).mean(-1)
    return np.asarray(each[1:] + each[:-1])


def are_passers_by(windows: WalkWindows) -> bool:
    """Whether many walks of one name are under way at the same time: tracks of several people, not of a resident.

    Residents of one home may walk at the same time. Where most names have one walk alone, they are no residents.
    """
    ids, first, walk = np.unique(np.asarray(windows.walk_ids), return_index=True, return_inverse=True)
    starts, ends = np.full(len(ids), np.iinfo(np.int64).max), np.full(len(ids), np.iinfo(np.int64).min)
    np.minimum.at(starts, walk, windows.start_ns)
    np.maximum.at(ends, walk, windows.start_ns + np.round((windows.lengths - 1) * windows.dt_s * 1e9).astype(np.int64))
    names, person = np.unique(np.asarray(windows.residents)[first], return_inverse=True)
    person = person.reshape(-1) if 2 * len(names) <= len(ids) else np.zeros(len(ids), dtype=np.int64)
    at_once = sum(_begun_before_the_last_ended(starts[person == p], ends[person == p]) for p in np.unique(person))
    return at_once > _AT_ONCE * (len(ids) - 1)


def _begun_before_the_last_ended(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """How many walks (n,) began while another was under way."""
    order = np.argsort(starts, kind="stable")
    until = np.maximum.accumulate(ends[order])
    return int(np.count_nonzero(starts[order][1:] < until[:-1]))


def comes_to_rest(xy: Array) -> bool:
    """Whether the last move of a walk (T, 2) is clearly shorter than its moves usually are."""
    length = np.hypot(*np.diff(xy, axis=0).T)
    return len(length) < 3 or bool(length[-1] < _AT_REST * np.median(length) + 1e-9)


def _last_rows(windows: WalkWindows) -> NDArray[np.bool_]:
    last: dict[str, int] = {}
    for row, name in enumerate(windows.walk_ids):
        if name not in last or windows.start_ns[row] >= windows.start_ns[last[name]]:
            last[name] = row
    return np.isin(np.arange(len(windows)), list(last.values()))


@dataclass(frozen=True, slots=True)
class Moves:
    """Overlapping moves; M of them."""

    xy: Array  # (M, 2), where each begins
    velocity: Array  # (M, 2), m/s
    length: Array  # (M,), metres, divided by the number of phases: lengths of one walk add up to its length
    row: NDArray[np.int64]  # (M,)


def first_shares(rows: WalkRows, steps: int, stand_m: float) -> Array:
    """Share of their later speed (``steps``,) that walkers reach in each of their first steps, the median over rows."""
    found = []
    for xy in rows.xy:
        length = np.hypot(*np.diff(xy, axis=0).T)
        later = length[steps : 3 * steps]
        later = later[later >= stand_m]
        if len(later):
            found.append(length[:steps] / np.median(later))
    if not found:
        return np.ones(steps)
    return np.asarray(np.clip(np.median(np.stack(found), axis=0), _LEAST_SHARE, 1.0))


def overlapping_moves(rows: WalkRows, ramp: Array, stand_m: float) -> Moves:
    """Moves of ``dt_s`` begun at every quarter of a tick, without those of people who stand.

    The first moves of each row are slower: their velocities are divided by ``ramp`` (R,).
    """
    starts, moves, number, share_of = [], [], [], []
    for n, xy in enumerate(rows.xy):
        move = np.diff(xy, axis=0)
        reached = np.ones(len(move))
        reached[: len(ramp)] = ramp[: len(move)]
        for phase in range(_PHASES):
            share = phase / _PHASES
            last = len(move) if phase == 0 else len(move) - 1
            after = slice(1, None) if phase else slice(0, last)
            starts.append((1.0 - share) * xy[:last] + share * xy[1 : last + 1])
            moves.append((1.0 - share) * move[:last] + share * move[after])
            share_of.append((1.0 - share) * reached[:last] + share * reached[after])
            number.append(np.full(last, n))
    xy, move, row = np.concatenate(starts), np.concatenate(moves), np.concatenate(number)
    length = np.hypot(move[:, 0], move[:, 1])
    use = length >= stand_m
    velocity = move / (rows.dt_s * np.concatenate(share_of)[:, None])
    return Moves(xy[use], velocity[use], length[use] / _PHASES, row[use])


def stays_s(rows: WalkRows, group: NDArray[np.int64], groups: int, near_m: float) -> list[list[float]]:
    """Seconds between the end of a resident's walk and their next one from there, by the group of the end."""
    stays: list[list[float]] = [[] for _ in range(groups)]
    last: dict[str, int] = {}
    for n in np.argsort(rows.start_ns, kind="stable").tolist():
        before = last.get(rows.resident[n])
        if before is not None and rows.ended[before]:
            stay_s = (rows.start_ns[n] - rows.end_ns[before]) * 1e-9
            near = np.linalg.norm(rows.xy[n][0] - rows.xy[before][-1]) < near_m
            if 0.0 < stay_s < 86400.0 and near:
                stays[group[before]].append(stay_s)
        last[rows.resident[n]] = n
    return stays
