"""The moves of all walks as flat arrays: what fields, spreads and hazards are learnt from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

if TYPE_CHECKING:
    from svfm_ros.forecasting.footprints import Footprints

__all__ = ["Moves", "WalkRows", "joined", "overlapping_moves", "walk_rows"]

Array = NDArray[np.float64]

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


def walk_rows(windows: WalkWindows, ended: NDArray[np.bool_] | None = None) -> WalkRows:
    """Rows of at least two positions. The last row of a walk ends it, unless ``ended`` (N,) says otherwise."""
    from svfm_ros.clock import days_of

    keep = np.flatnonzero(windows.lengths >= 2)
    if not len(keep):
        raise DataError(f"expected walks of at least two positions, got none among {len(windows)}")
    if not np.isfinite(windows.xy[keep]).all():
        raise DataError("expected finite positions, got NaN or infinity")
    over = _last_rows(windows) if ended is None else np.asarray(ended, dtype=np.bool_)
    lengths = windows.lengths
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
        ended=over[keep],
        walk=np.array([number[windows.walk_ids[n]] for n in keep], dtype=np.int64),
        resident=tuple(windows.residents[n] for n in keep),
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
        resident=("",) * len(before),
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
        resident=(*rows.resident, *("",) * len(new)),
    )


def _move_variance(windows: WalkWindows, row: int) -> Array:
    """Variance (T - 1,) of the moves of a row that comes from its positions: the mean over x and y of both ends'."""
    length = int(windows.lengths[row])
    if windows.variance is None:
        return np.zeros(length - 1)
    each = np.nan_to_num(windows.variance[row, :length]).mean(-1)
    return np.asarray(each[1:] + each[:-1])


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


def overlapping_moves(rows: WalkRows, skip: int, stand_m: float) -> Moves:
    """Moves of ``dt_s`` begun at every quarter of a tick.

    The first ``skip`` moves of each row, which are slower, are left out, and so are those of people who stand.
    """
    starts, moves, number = [], [], []
    for n, xy in enumerate(rows.xy):
        move = np.diff(xy, axis=0)
        first = min(skip, max(0, len(move) - 2))
        for phase in range(_PHASES):
            share = phase / _PHASES
            if phase == 0:
                at, m = xy[first:-1], move[first:]
            else:
                at = (1.0 - share) * xy[first:-2] + share * xy[first + 1 : -1]
                m = (1.0 - share) * move[first:-1] + share * move[first + 1 :]
            starts.append(at)
            moves.append(m)
            number.append(np.full(len(at), n))
    xy, move, row = np.concatenate(starts), np.concatenate(moves), np.concatenate(number)
    length = np.hypot(move[:, 0], move[:, 1])
    use = length >= stand_m
    return Moves(xy[use], move[use] / rows.dt_s, length[use] / _PHASES, row[use])
