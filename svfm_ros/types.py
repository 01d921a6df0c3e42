"""The data types that are passed between the parts of the package.

Metres, radians, integer nanoseconds of Unix time. ``T_a_b`` takes coordinates in b to coordinates in a.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import geometry

__all__ = [
    "FREE_UP_TO",
    "OCCUPIED_FROM",
    "WALK_SCHEMA",
    "Alignment",
    "Constraint",
    "Forecast",
    "ImuReading",
    "MatchResult",
    "MotionHint",
    "OccupancyGrid",
    "OdometryReading",
    "Place",
    "Places",
    "Pose2",
    "Scan",
    "SlamUpdate",
    "Walk",
    "WalkWindows",
]

Array = NDArray[np.float64]

OCCUPIED_FROM, FREE_UP_TO = 0.65, 0.25
"""Probabilities from which on a cell of an occupancy grid is a wall, and up to which it is free: those of ROS."""

WALK_SCHEMA = 1
"""Version of the fields of a stored walk; raise it when a field changes its meaning."""


def _wrapped(theta_rad: float) -> float:
    return (theta_rad + math.pi) % (2.0 * math.pi) - math.pi


def _quotients(theta_rad: float) -> tuple[float, float]:
    """``sin(t)/t`` and ``(1 - cos(t))/t``, exact near zero."""
    if abs(theta_rad) < geometry.SMALL_ANGLE_RAD:
        return 1.0 - theta_rad * theta_rad / 6.0, theta_rad / 2.0
    return math.sin(theta_rad) / theta_rad, (1.0 - math.cos(theta_rad)) / theta_rad


@dataclass(frozen=True, slots=True)
class Pose2:
    """A rigid transform of the plane (metres, radians); ``a @ b`` composes."""

    x: float = 0.0
    y: float = 0.0
    theta: float = 0.0

    @classmethod
    def from_array(cls, pose: ArrayLike) -> "Pose2":
        """From ``(3,)``: x, y, theta."""
        x, y, theta = np.asarray(pose, dtype=float).tolist()
        return cls(x, y, theta)

    def as_array(self) -> Array:
        """``(3,)``: x, y, theta."""
        return np.array([self.x, self.y, self.theta])

    # These are called for every scan, several times; plain numbers are ten times as quick as arrays of three.
    def __matmul__(self, other: "Pose2") -> "Pose2":
        c, s = math.cos(self.theta), math.sin(self.theta)
        x, y = self.x + c * other.x - s * other.y, self.y + s * other.x + c * other.y
        return Pose2(x, y, _wrapped(self.theta + other.theta))

    def inverse(self) -> "Pose2":
        """The inverse transform."""
        c, s = math.cos(self.theta), math.sin(self.theta)
        return Pose2(-c * self.x - s * self.y, s * self.x - c * self.y, _wrapped(-self.theta))

    @classmethod
    def from_twist(cls, vx: float, vy: float, omega: float) -> "Pose2":
        """The pose reached by following a constant twist for one unit of time: ``geometry.exp`` of one."""
        sine, cosine = _quotients(omega)
        return cls(sine * vx - cosine * vy, cosine * vx + sine * vy, _wrapped(omega))

    def twist(self) -> Array:
        """The twist ``(3,)`` that leads here in one unit of time: ``geometry.log`` of one."""
        theta = _wrapped(self.theta)
        sine, cosine = _quotients(theta)
        norm = sine * sine + cosine * cosine
        return np.array(
            [(sine * self.x + cosine * self.y) / norm, (sine * self.y - cosine * self.x) / norm, theta], dtype=float
        )

    def apply(self, points: ArrayLike) -> Array:
        """Points ``(N, 2)``, transformed."""
        return geometry.apply(self.as_array(), points)


@dataclass(frozen=True, slots=True)
class Scan:
    """One sweep of a 2D LiDAR, in the sensor's own frame.

    ``stamp_ns`` is the time of the first beam (REP 117 and LaserScan agree); beam i is taken ``i * time_increment_s``
    later, at angle ``angle_min + i * angle_step``. Beams without an echo are NaN, inf or out of range: all are legal.
    """

    stamp_ns: int
    ranges: NDArray[np.float32]  # (N,)
    angle_min: float
    angle_step: float
    range_min: float
    range_max: float
    scan_time_s: float = 0.0
    time_increment_s: float = 0.0
    turned_rad: Array | None = None  # (N,), measured turn of the sensor from the first beam to each; None: not measured

    def angles(self) -> Array:
        """Beam angles ``(N,)``, counter-clockwise from the sensor's x axis at the first beam."""
        angles = np.asarray(self.angle_min + self.angle_step * np.arange(len(self.ranges)), dtype=np.float64)
        return angles if self.turned_rad is None else angles + self.turned_rad


@dataclass(frozen=True, slots=True)
class ImuReading:
    """One reading of an IMU, in its own axes."""

    stamp_ns: int
    gyro_radps: Array  # (3,)
    accel_mps2: Array  # (3,), specific force: at rest it points up; zeros where it is not measured


@dataclass(frozen=True, slots=True)
class OdometryReading:
    """Pose since the start as dead reckoning has it, and the motion at this moment."""

    stamp_ns: int
    T_odom_base: Array  # (3,): x, y, theta
    twist: Array  # (3,): ahead, to the left, turning; m/s and rad/s
    covariance: Array  # (3, 3), of the pose


@dataclass(frozen=True, slots=True)
class MotionHint:
    """Motion of the sensor since an earlier scan, in its axes then; NaN where a part is not known."""

    T_previous_now: Pose2
    spread_m: float | None = None  # standard deviations, where they are known
    spread_rad: float | None = None


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The result of registering one set of points (source) to another (target)."""

    T_target_source: Pose2
    converged: bool
    iterations: int
    inlier_ratio: float
    rmse_m: float
    information: Array  # (3, 3), of x, y, theta at T_target_source, in the target's axes


@dataclass(frozen=True, slots=True)
class Constraint:
    """A measured relative pose between two nodes of a pose graph."""

    from_id: int
    to_id: int
    T_from_to: Pose2
    information: Array  # (3, 3), in the axes of from
    kind: Literal["odometry", "loop"]


@dataclass(frozen=True, slots=True)
class SlamUpdate:
    """The result of adding one scan: the pose, its covariance, new loop closures."""

    stamp_ns: int
    T_map_base: Pose2
    covariance: Array  # (3, 3), of x, y, theta in the map's axes
    match: MatchResult | None  # None where the scan could not be used
    loops: tuple[Constraint, ...] = ()
    map_changed: bool = False
    reason: str = ""  # why the scan was rejected, tracking was lost or the pose jumped; empty otherwise
    is_on_map: bool = True  # False while it is known only relative to where tracking began anew


@dataclass(frozen=True, slots=True)
class OccupancyGrid:
    """Probability of being occupied for each cell of a grid."""

    prob: NDArray[np.float32]  # (H, W), row 0 at the lowest y, NaN unknown
    resolution_m: float
    T_map_grid: Pose2 = field(default_factory=Pose2)  # the lower left corner of cell (0, 0)

    def centres_of(self, chosen: NDArray[np.bool_]) -> Array:
        """Centres of the chosen cells ``(H, W)`` in the map's frame ``(N, 2)``."""
        rows, columns = np.nonzero(chosen)
        return self.T_map_grid.apply((np.stack([columns, rows], axis=1) + 0.5) * self.resolution_m)

    def prob_at(self, points: ArrayLike) -> Array:
        """Probability at points ``(N, 2)`` of the map's frame; NaN where it is unknown and outside of the grid."""
        cells = np.floor(self.T_map_grid.inverse().apply(points) / self.resolution_m).astype(np.int64)
        inside = np.all((cells >= 0) & (cells < np.array(self.prob.shape[::-1])), axis=1)
        column, row = np.where(inside[:, None], cells, 0).T
        return np.where(inside, self.prob[row, column], np.nan)


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk as it was recorded, in a frame of its own until an ``Alignment`` leads to the house's."""

    walk_id: str
    resident: str
    stamps_ns: NDArray[np.int64]  # (T,), strictly increasing
    poses: Array  # (T, 3)
    points: Array = field(default_factory=lambda: np.empty((0, 2)))  # (P, 2), what the LiDAR saw, same frame
    schema: int = WALK_SCHEMA
    covariance: Array | None = None  # (T, 3, 3), of x, y, theta in the axes of the walk's frame; None: not known

    @property
    def xy(self) -> Array:
        """Positions ``(T, 2)``."""
        return self.poses[:, :2]

    @property
    def times_s(self) -> Array:
        """Seconds since the first position ``(T,)``."""
        return np.asarray((self.stamps_ns - self.stamps_ns[0]) * 1e-9, dtype=np.float64)

    def xy_at(self, times_s: Array) -> Array:
        """Positions ``(N, 2)`` at seconds since the first, by linear interpolation."""
        return np.stack([np.interp(times_s, self.times_s, self.poses[:, k]) for k in (0, 1)], axis=1)

    def in_house(self, T_house_walk: Pose2) -> "Walk":
        """The same walk in the house's frame."""
        covariance = self.covariance
        if covariance is not None:
            c, s = math.cos(T_house_walk.theta), math.sin(T_house_walk.theta)
            rotation = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
            covariance = rotation @ covariance @ rotation.T
        poses = geometry.compose(T_house_walk.as_array(), self.poses)
        return replace(self, poses=poses, points=T_house_walk.apply(self.points), covariance=covariance)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The transform from the frame of a walk to that of the house; stored apart from the walk, so replaceable."""

    walk_id: str
    T_house_walk: Pose2
    match: MatchResult | None
    accepted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class WalkWindows:
    """Walks resampled to one time step and padded to one length: the input of training.

    Row n is one walk, or a piece of one (pieces share the walk's id); ``xy[n, i]`` is where it was ``i * dt_s`` after
    its ``start_ns``. Valid steps come first; the padding behind them repeats the last position, so it is finite.
    """

    xy: Array  # (N, T, 2), in the frame named below
    valid: NDArray[np.bool_]  # (N, T)
    dt_s: float
    start_ns: NDArray[np.int64]  # (N,)
    start_hour: Array  # (N,), local hour in [0, 24)
    walk_ids: tuple[str, ...]  # (N,)
    residents: tuple[str, ...]  # (N,)
    frame: str = "map"
    time_zone: str = "UTC"  # of start_hour
    variance: Array | None = None  # (N, T, 2), of xy in m^2; 0 for walks that carry none, None if no walk does

    def __len__(self) -> int:
        return len(self.walk_ids)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Valid steps of each row ``(N,)``."""
        return np.asarray(self.valid.sum(axis=1), dtype=np.int64)

    @property
    def times_s(self) -> Array:
        """Seconds since the row's start ``(T,)``."""
        return np.asarray(self.dt_s * np.arange(self.valid.shape[1], dtype=np.float64))

    @property
    def end_xy(self) -> Array:
        """Where each row ends ``(N, 2)``."""
        return np.asarray(self.xy[np.arange(len(self)), np.maximum(self.lengths - 1, 0)])

    def select(self, rows: ArrayLike) -> "WalkWindows":
        """Some of the rows, by index or by mask ``(N,)``, in the given order."""
        index = np.arange(len(self))[np.asarray(rows)]
        return replace(
            self,
            xy=self.xy[index],
            valid=self.valid[index],
            start_ns=self.start_ns[index],
            start_hour=self.start_hour[index],
            walk_ids=tuple(self.walk_ids[i] for i in index),
            residents=tuple(self.residents[i] for i in index),
            variance=None if self.variance is None else self.variance[index],
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A place of the house that people walk to: a disc in the house's frame, with a name and a colour."""

    name: str
    x: float
    y: float
    radius_m: float
    colour: str  # "#rrggbb"

    @property
    def xy(self) -> Array:
        """Its centre ``(2,)`` in metres."""
        return np.array([self.x, self.y])

    @property
    def rgb(self) -> tuple[float, float, float]:
        """Red, green and blue in [0, 1]."""
        red, green, blue = bytes.fromhex(self.colour[1:])
        return red / 255.0, green / 255.0, blue / 255.0


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one house, in a fixed order."""

    places: tuple[Place, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[Place]:
        return iter(self.places)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(p.name for p in self.places)

    @property
    def centres(self) -> Array:
        """Their centres ``(P, 2)`` in metres."""
        return np.array([(p.x, p.y) for p in self.places], dtype=float).reshape(-1, 2)

    def assign(self, xy: ArrayLike, reach_m: float = 0.0) -> NDArray[np.int64]:
        """For positions ``(..., 2)`` the index of the nearest place that holds them, -1 where none does ``(...)``.

        ``reach_m`` widens every place by that much.
        """
        points = np.asarray(xy, dtype=float)
        if not self.places:
            return np.full(points.shape[:-1], -1, dtype=np.int64)
        distance = np.linalg.norm(points[..., None, :] - self.centres, axis=-1)  # (..., P)
        reach = np.array([p.radius_m + reach_m for p in self.places])
        distance[~(distance <= reach)] = np.inf  # a NaN position is nowhere
        return np.where(np.isfinite(distance.min(axis=-1)), np.argmin(distance, axis=-1), -1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Sampled paths of the next seconds, and the probability of each place that the walk may lead to."""

    stamp_ns: int
    frame: str
    times_s: Array  # (K,), from the stamp on
    samples_xy: Array  # (S, K, 2)
    component: NDArray[np.int64]  # (S,), the field each sample follows at its end; -1: the free walker, no field
    shares: Mapping[str, float]  # place -> probability of ending there; they add up to one
    entropy: float | None  # of the shares, in nats; None where too little is known to say
    walks: int  # how many recorded walks the forecast rests on
    model_id: str
    known: bool = True  # False where no walk ever came near: the samples then mean nothing
    endpoint: NDArray[np.int64] | None = None  # (S,), place each sample ends at in the end, by index; -1 in none
    unfamiliar: float = 0.0  # probability in [0, 1] that the walker follows none of the recorded habits
    resident: str | None = None  # whose habits it rests on; None: those of the home, all residents together
    reason: str = ""  # why the forecast is not known; empty where it is, or where no walk came near

    def ends_in(self, places: Places) -> NDArray[np.int64]:
        """Index of the place that each path ends at ``(S,)``; -1 in none."""
        return places.assign(self.samples_xy[:, -1]) if self.endpoint is None else self.endpoint
