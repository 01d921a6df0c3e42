"""Defaults of the simulated house: how people walk, where they go at which hour, what their LiDAR sees."""

from dataclasses import dataclass, field

from svfm_ros.config.options import check, option

__all__ = ["HabitConfig", "LidarConfig", "RecordingConfig", "ResidentConfig", "SimConfig", "WalkerConfig"]


@dataclass(frozen=True, slots=True)
class WalkerConfig:
    """How one person walks from one place to another."""

    rate_hz: float = option(25.0, "poses per second of a walk", low=5.0, high=200.0)
    body_radius_m: float = option(0.22, "half of the body's width: no wall comes nearer than this", low=0.1, high=0.4)
    speed_mps: float = option(1.05, "median cruising speed over all walks, m/s", low=0.3, high=2.0)
    speed_spread: float = option(0.12, "standard deviation of the log of the cruising speed", low=0.0, high=0.5)
    speed_drift: float = option(0.08, "standard deviation of the log of the speed within a walk", low=0.0, high=0.3)
    acceleration_mps2: float = option(0.9, "how fast a walker starts and comes to a stop, m/s^2", low=0.2, high=3.0)
    turn_acceleration_mps2: float = option(
        0.9, "sideways acceleration in a bend; slows walkers down", low=0.2, high=5.0
    )
    lateral_spread_m: float = option(0.12, "standard deviation of the path beside its middle line", low=0.0, high=0.5)
    pause_share: float = option(0.08, "share of the walks with a pause on the way", low=0.0, high=1.0)
    pause_s: float = option(1.0, "median length of a pause, seconds", low=0.1, high=10.0)
    step_hz: float = option(1.8, "steps per second", low=0.5, high=3.0)
    gait_share: float = option(0.08, "rise and fall of the speed with each step, share of the speed", low=0.0, high=0.5)
    sway_m: float = option(
        0.012, "how far the body swings sideways with each pair of steps, metres", low=0.0, high=0.05
    )
    sway_yaw_rad: float = option(0.06, "how far the body turns with each pair of steps, radians", low=0.0, high=0.3)
    shortest_s: float = option(5.0, "walks of the protocol take at least this long, seconds", low=0.0, high=60.0)
    longest_s: float = option(10.0, "walks of the protocol take at most this long, seconds", low=1.0, high=120.0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class HabitConfig:
    """Where a person goes at which hour, and how long they stay."""

    profile: str = option(
        "paper",
        "paper: anywhere by day, landing or kitchen at night; routine: by the hour; wandering: anywhere at any hour",
        choices=("paper", "routine", "wandering"),
    )
    night_from_h: float = option(22.0, "hour of the day at which night begins", low=0.0, high=24.0)
    night_to_h: float = option(6.0, "hour of the day at which night ends", low=0.0, high=24.0)
    night_landing: float = option(
        0.9, "share of walks to the landing at night; the rest goes to the kitchen", low=0.0, high=1.0
    )
    dwell_s: float = option(180.0, "median stay at a place by day, seconds", low=1.0, high=36000.0)
    dwell_spread: float = option(0.7, "standard deviation of the log of the stay", low=0.0, high=2.0)
    night_dwell_factor: float = option(6.0, "how much longer people stay at night", low=1.0, high=100.0)
    time_zone: str = option("Europe/London", "IANA time zone of the house")
    first_day: str = option("2026-11-02", "the first simulated day")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class ResidentConfig:
    """The population that residents are drawn from, and what happens to their habits."""

    seed: int = option(-1, "which resident is drawn; -1: nobody, habits.profile says where people go", low=-1)
    pace_mps: float = option(1.0, "median walking speed over residents, m/s", low=0.4, high=1.8)
    pace_between: float = option(0.12, "standard deviation of the log speed between residents", low=0.0, high=0.5)
    pace_spread: float = option(0.2, "standard deviation of the log speed between walks of one", low=0.0, high=0.5)
    side_m: float = option(0.1, "how far residents keep to their own side of a corridor, metres", low=0.0, high=0.5)
    route_concentration: float = option(
        1.0, "Dirichlet concentration over variants of a way; small: always the same way", low=0.05, high=100.0
    )
    habit_concentration: float = option(
        0.6, "Dirichlet concentration of the next place; small: strict habits, large: anywhere", low=0.05, high=100.0
    )
    weekend: bool = option(False, "habits of their own on Saturday and Sunday")
    change_day: int = option(
        0, "days after the first one at which a new routine begins; 0 for never", low=0, high=10000
    )
    pause_spots: int = option(2, "spots on the way where a resident pauses", low=0, high=10)
    pause_share: float = option(0.15, "share of the walks past such a spot that pause there", low=0.0, high=1.0)
    pause_s: float = option(1.5, "median length of such a pause, seconds", low=0.1, high=60.0)
    arrival_spread: float = option(
        0.3, "standard deviation of where walks end, share of the place's radius", low=0.0, high=0.6
    )
    still_s: float = option(1.0, "how long a walk's record goes on after the arrival, seconds", low=0.0, high=60.0)
    dwell_s: float = option(900.0, "median stay at a place by day, seconds", low=1.0, high=36000.0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class LidarConfig:
    """A low-cost LiDAR of the RPLidar A1 class, worn on the chest. Each effect has a switch."""

    beams: int = option(360, "beams per turn", low=4, high=4096)
    rate_hz: float = option(10.0, "turns per second", low=1.0, high=40.0)
    range_min_m: float = option(0.15, "nearer echoes are lost, metres", low=0.0, high=1.0)
    range_max_m: float = option(12.0, "farther echoes are lost, metres", low=1.0, high=100.0)
    height_m: float = option(1.2, "height of the sensor above the floor, metres", low=0.1, high=2.0)
    noise: bool = option(True, "range noise that grows with range")
    noise_m: float = option(0.006, "standard deviation of the range noise at no distance, metres", low=0.0, high=0.5)
    noise_share: float = option(0.005, "what the noise gains per metre of range", low=0.0, high=0.2)
    quantisation: bool = option(
        True, "ranges in steps that grow with the square of the range, as triangulation has them"
    )
    quantum_m: float = option(0.0005, "step of the range at 1.5 m, metres", low=0.0, high=0.1)
    drops: bool = option(True, "beams that bring nothing back")
    drop_share: float = option(0.02, "share of lost beams near by", low=0.0, high=1.0)
    drop_share_far: float = option(0.15, "share of lost beams at the longest range", low=0.0, high=1.0)
    grazing_deg: float = option(8.0, "beams along a surface, flatter than this, are lost, degrees", low=0.0, high=45.0)
    motion: bool = option(True, "the wearer moves while the sensor turns")
    shadow: bool = option(True, "the wearer's body hides what is behind it")
    shadow_deg: float = option(110.0, "width of the shadow, degrees", low=0.0, high=350.0)
    sway: bool = option(True, "the plane of the beams tilts and bounces with the steps")
    sway_pitch_deg: float = option(1.8, "how far the plane nods with each step, degrees", low=0.0, high=20.0)
    sway_roll_deg: float = option(1.8, "how far the plane rolls with each pair of steps, degrees", low=0.0, high=20.0)
    lean_deg: float = option(1.0, "standard deviation of the slow lean of the body, degrees", low=0.0, high=20.0)
    bounce_m: float = option(0.02, "how far the sensor rises and falls with each step, metres", low=0.0, high=0.1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class RecordingConfig:
    """What a bag holds besides the walks."""

    before_s: float = option(
        1.0, "how long the wearer stands still before the first walk, seconds", low=0.0, high=600.0
    )
    after_s: float = option(3.0, "how long the wearer stays after the last walk, seconds", low=0.0, high=600.0)
    truth_rate_hz: float = option(20.0, "true poses per second", low=1.0, high=1000.0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class SimConfig:
    """Everything ``svfm simulate`` can be told."""

    walker: WalkerConfig = field(default_factory=WalkerConfig)
    habits: HabitConfig = field(default_factory=HabitConfig)
    resident: ResidentConfig = field(default_factory=ResidentConfig)
    lidar: LidarConfig = field(default_factory=LidarConfig)
    recording: RecordingConfig = field(default_factory=RecordingConfig)
