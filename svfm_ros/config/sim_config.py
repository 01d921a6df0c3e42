"""Options of the simulator: walkers, habits, residents, sensors, household, recordings."""

from dataclasses import dataclass, field
from datetime import date

from svfm_ros.config.options import CheckedOptions, check, option
from svfm_ros.errors import ConfigError

__all__ = [
    "TURN_RADPS",
    "WORSE_LIDAR",
    "HabitConfig",
    "HouseholdConfig",
    "ImuSimConfig",
    "LidarConfig",
    "OdometrySimConfig",
    "RecordingConfig",
    "ResidentConfig",
    "SimConfig",
    "WalkerConfig",
]


TURN_RADPS = 1.2
"""How fast people turn on the spot, on average."""


@dataclass(frozen=True, slots=True)
class WalkerConfig(CheckedOptions):
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
        try:
            is_sound = 1970 <= date.fromisoformat(self.first_day).year < 2200
        except ValueError:
            is_sound = False
        if not is_sound:
            raise ConfigError(
                f"expected a day such as 2026-11-02, from 1970 to 2199, got {self.first_day!r}", "first_day"
            )


@dataclass(frozen=True, slots=True)
class ResidentConfig(CheckedOptions):
    """The population that residents are drawn from, and what happens to their habits."""

    seed: int = option(
        -1, "which resident is drawn; -1: nobody, habits.profile says where people go", low=-1, high=2**31 - 1
    )
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


@dataclass(frozen=True, slots=True)
class LidarConfig(CheckedOptions):
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


WORSE_LIDAR = LidarConfig(
    beams=180,
    rate_hz=5.5,
    range_max_m=6.0,
    noise_m=0.03,
    noise_share=0.0,
    drop_share=0.3,
    drop_share_far=0.3,
    sway_pitch_deg=5.0,
    sway_roll_deg=5.0,
)
"""A poor sensor, loosely worn: 180 beams, 5.5 Hz, 6 m, 3 cm of noise, 30 % of beams lost, a swing of 10 degrees."""


@dataclass(frozen=True, slots=True)
class ImuSimConfig(CheckedOptions):
    """An IMU of the MPU-6050 class beside the LiDAR, topic ``imu``."""

    enabled: bool = option(False, "record an IMU")
    rate_hz: float = option(100.0, "readings per second", low=10.0, high=1000.0)
    gyro_noise_dps_rthz: float = option(0.005, "noise density of the gyroscope, deg/s/sqrt(Hz)", low=0.0, high=1.0)
    gyro_bias_dps: float = option(1.0, "standard deviation of its constant bias, deg/s", low=0.0, high=20.0)
    gyro_walk_dps_rts: float = option(0.003, "random walk of its bias, deg/s/sqrt(s)", low=0.0, high=1.0)
    accel_noise_ug_rthz: float = option(400.0, "noise density of the accelerometer, ug/sqrt(Hz)", low=0.0, high=1e5)
    accel_bias_mg: float = option(30.0, "standard deviation of its constant bias, mg", low=0.0, high=200.0)
    scale_error: float = option(0.01, "standard deviation of the scale error of each axis", low=0.0, high=0.1)
    time_offset_s: float = option(0.0, "how much later its stamps are than those of the LiDAR, s", low=-1.0, high=1.0)


@dataclass(frozen=True, slots=True)
class OdometrySimConfig(CheckedOptions):
    """Dead reckoning of the wearer, topic ``odom``."""

    enabled: bool = option(False, "record odometry")
    rate_hz: float = option(20.0, "readings per second", low=1.0, high=200.0)
    length_error: float = option(0.03, "standard deviation of the scale of lengths", low=0.0, high=0.5)
    turn_error: float = option(0.03, "standard deviation of the scale of turns", low=0.0, high=0.5)
    noise_m_rtm: float = option(0.02, "random walk of the position, m per sqrt(m) walked", low=0.0, high=0.5)
    turn_noise_deg_rtm: float = option(1.0, "random walk of the heading, deg per sqrt(m) walked", low=0.0, high=20.0)


@dataclass(frozen=True, slots=True)
class HouseholdConfig(CheckedOptions):
    """What the LiDAR meets besides the house as it is drawn. Everything is off by default."""

    people: int = option(0, "other people who walk through the house", low=0, high=10)
    pets: int = option(0, "pets that walk through the house", low=0, high=10)
    stay_s: float = option(8.0, "how long people and pets stay before they walk on, seconds", low=1.0, high=3600.0)
    doors: bool = option(False, "doors stand otherwise on each day, or are shut where the wearer does not pass")
    door_shut_share: float = option(0.4, "share of such doors that are shut", low=0.0, high=1.0)
    furniture_m: float = option(
        0.0, "standard deviation of where chairs and other small furniture stands, by day, metres", low=0.0, high=2.0
    )
    clutter: int = option(0, "tall things that stand somewhere else on each day", low=0, high=20)
    windows: int = option(0, "panes of glass in the outer walls", low=0, high=20)
    mirrors: int = option(0, "mirrors on the walls", low=0, high=20)


@dataclass(frozen=True, slots=True)
class RecordingConfig(CheckedOptions):
    """What a bag holds besides the walks."""

    before_s: float = option(
        1.0, "how long the wearer stands still before the first walk, seconds", low=0.0, high=600.0
    )
    after_s: float = option(3.0, "how long the wearer stays after the last walk, seconds", low=0.0, high=600.0)
    origin_x_m: float = option(
        0.0, "added to every true x, as for a map in UTM coordinates, metres", low=-1e8, high=1e8
    )
    origin_y_m: float = option(0.0, "added to every true y, metres", low=-1e8, high=1e8)
    turn_radps: float = option(TURN_RADPS, "how fast the wearer turns on the spot, on average", low=0.2, high=10.0)
    truth_rate_hz: float = option(20.0, "true poses per second", low=1.0, high=1000.0)


@dataclass(frozen=True, slots=True)
class SimConfig:
    """All options of the simulator."""

    walker: WalkerConfig = field(default_factory=WalkerConfig)
    habits: HabitConfig = field(default_factory=HabitConfig)
    resident: ResidentConfig = field(default_factory=ResidentConfig)
    lidar: LidarConfig = field(default_factory=LidarConfig)
    imu: ImuSimConfig = field(default_factory=ImuSimConfig)
    odometry: OdometrySimConfig = field(default_factory=OdometrySimConfig)
    household: HouseholdConfig = field(default_factory=HouseholdConfig)
    recording: RecordingConfig = field(default_factory=RecordingConfig)
