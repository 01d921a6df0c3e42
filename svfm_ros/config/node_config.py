"""Defaults of the ROS nodes: what they subscribe to, how often they publish, which frames they use."""

from dataclasses import dataclass, field

from svfm_ros.config.forecast_config import ForecastConfig, WalkModelConfig, WalkTrainConfig
from svfm_ros.config.options import CheckedOptions, check, option
from svfm_ros.config.sim_config import SimConfig
from svfm_ros.config.slam_config import RasterConfig, SlamConfig
from svfm_ros.config.walk_config import PlacesConfig, RecorderConfig, WindowsConfig
from svfm_ros.errors import ConfigError

__all__ = [
    "LIVE_SECTIONS",
    "NODE_CONFIGS",
    "BagRecorderConfig",
    "CloudConfig",
    "ForecastNodeConfig",
    "LifecycleConfig",
    "PlayerConfig",
    "SimNodeConfig",
    "SlamNodeConfig",
    "TrainerNodeConfig",
    "WebNodeConfig",
]


_MOST_PATHS_PER_S = 20_000  # about a seventh of a core


@dataclass(frozen=True, slots=True)
class LifecycleConfig(CheckedOptions):
    """Options of every node."""

    autostart: bool = option(
        True, "configure and activate the node when it is started; false: wait for a lifecycle manager", read_only=True
    )


@dataclass(frozen=True, slots=True)
class PlayerConfig(CheckedOptions):
    """Replay of a bag."""

    bag: str = option("", "the bag to replay: a rosbag2 folder, an .mcap or a .db3 file", read_only=True)
    rate: float = option(1.0, "how many times faster than it was recorded", low=0.01, high=1000.0)
    loop: bool = option(False, "start again at the end; the clock jumps back")
    start_s: float = option(0.0, "start at so many seconds into the bag", low=0.0, read_only=True)
    position: str = option(
        "",
        "file that keeps the position while the bag is replayed: after a kill the replay goes on there",
        read_only=True,
    )
    topics: tuple[str, ...] = option((), "topics to replay, or all; empty: inputs of the pipeline", read_only=True)
    wait_for: tuple[str, ...] = option((), "start when each of these topics has a subscriber", read_only=True)
    wait_for_node: str = option("", "wait for subscribers of this node; empty: of any", read_only=True)
    wait_s: float = option(300.0, "start after so many seconds without these subscribers", low=0.0)
    clock: bool = option(True, "publish /clock", read_only=True)
    clock_hz: float = option(40.0, "ticks of /clock a second, beside one with each message", low=1.0, high=1000.0)


@dataclass(frozen=True, slots=True)
class BagRecorderConfig(CheckedOptions):
    """Recording of all topics."""

    bag: str = option("", "the new bag to write, a folder that does not exist yet", read_only=True)
    look_s: float = option(0.5, "period of checking for new topics, s", low=0.05, high=60.0, read_only=True)
    inbox: int = option(5000, "messages that may wait to be written", low=1, high=1000000, read_only=True)


@dataclass(frozen=True, slots=True)
class SimNodeConfig(CheckedOptions):
    """A simulated resident with a worn LiDAR."""

    house: str = option("home", "home, bungalow, or a drawing of your own (YAML)", read_only=True)
    rate: float = option(1.0, "how many times faster than real time", low=0.01, high=1000.0)
    seed: int = option(0, "seed of the simulation", low=0, read_only=True)
    hours: float = option(4.0, "hours of simulated time", low=0.01, high=1000.0, read_only=True)
    start_hour: float = option(8.0, "hour of the day at the start", low=0.0, high=23.99, read_only=True)
    laser_frame: str = option("laser", "frame of the scans", read_only=True)
    map_frame: str = option("map", "frame of the true poses", read_only=True)
    places: str = option(
        "",
        "new file for the named places of the drawing, in the frame of the first pose that SLAM publishes",
        read_only=True,
    )
    clock: bool = option(True, "publish /clock", read_only=True)
    clock_hz: float = option(40.0, "ticks of /clock a second, beside one with each scan", low=1.0, high=1000.0)
    sim: SimConfig = field(default_factory=SimConfig)


@dataclass(frozen=True, slots=True)
class CloudConfig(CheckedOptions):
    """How a PointCloud2 becomes a scan."""

    beams: int = option(720, "bearings a cloud is sorted into", low=16, high=4096)
    range_min_m: float = option(0.1, "points nearer than this are left out, m", low=0.0)
    range_max_m: float = option(30.0, "points farther than this are left out, m", low=0.1)
    z_min_m: float = option(-0.2, "points lower than this are left out, m")
    z_max_m: float = option(0.2, "points higher than this are left out, m")


@dataclass(frozen=True, slots=True)
class SlamNodeConfig(CheckedOptions):
    """Computes map, pose, track and walks from scans."""

    map: str = option("", "map for localisation, map_server YAML; empty: make a map", read_only=True)
    store: str = option("", "folder that finished walks are stored in; empty: they are only published", read_only=True)
    state: str = option(
        "",
        "file that the map is saved to and resumed from after a restart; empty: map.state in the store",
        read_only=True,
    )
    state_period_s: float = option(3.0, "period of saving it, s; 0: never", low=0.0, high=3600.0, read_only=True)
    resident: str = option("resident", "whose walks these are", read_only=True)
    map_frame: str = option("map", "frame of the map", read_only=True)
    odom_frame: str = option("odom", "frame that never jumps (REP 105)", read_only=True)
    base_frame: str = option("base_link", "frame of the wearer", read_only=True)
    mount: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), "pose of the sensor on the wearer: x m, y m, yaw rad", read_only=True
    )
    publish_tf: bool = option(True, "publish map -> odom -> base -> sensor on /tf and /tf_static", read_only=True)
    map_period_s: float = option(2.0, "publish the map at most this often, s", low=0.1, high=3600.0)
    track_period_s: float = option(0.5, "publish the track at most this often, s", low=0.05, high=3600.0)
    track_points: int = option(2000, "poses of the track that are published at most", low=2, high=100000)
    inbox: int = option(500, "scans that may wait; older ones are dropped", low=1, high=10000, read_only=True)
    save_map_to: str = option(
        "", "file of the service ~/save_map, .yaml inside the store; empty: map.yaml there", read_only=True
    )
    cloud: CloudConfig = field(default_factory=CloudConfig)
    slam: SlamConfig = field(default_factory=SlamConfig)
    raster: RasterConfig = field(default_factory=RasterConfig)
    recorder: RecorderConfig = field(default_factory=RecorderConfig)


@dataclass(frozen=True, slots=True)
class TrainerNodeConfig(CheckedOptions):
    """Trains models on stored walks."""

    store: str = option("", "folder of the recorded walks; empty: nothing is trained", read_only=True)
    model: str = option("", "file of the model; empty: model.pt in the store's folder", read_only=True)
    places: str = option("", "places.yaml with names for places; others are found where walks end", read_only=True)
    resident: str = option(
        "", "train on the walks of this person alone; empty: one model for all residents", read_only=True
    )
    min_walks: int = option(8, "walks needed for the first model", low=2, high=100000)
    min_new_walks: int = option(4, "new walks needed for another training", low=1, high=100000)
    min_interval_s: float = option(20.0, "pause between two trainings, s", low=0.0, high=86400.0)
    look_s: float = option(30.0, "period of checking the store for walks of other programs, s", low=1.0, high=86400.0)
    slack: float = option(0.02, "a new model may be worse by so much on held-out walks, nats per step", low=0.0)
    niceness: int = option(19, "niceness of the training process", low=0, high=19, read_only=True)
    windows: WindowsConfig = field(default_factory=WindowsConfig)
    fields: WalkModelConfig = field(default_factory=WalkModelConfig)
    training: WalkTrainConfig = field(default_factory=WalkTrainConfig)
    found: PlacesConfig = field(default_factory=PlacesConfig)


@dataclass(frozen=True, slots=True)
class ForecastNodeConfig:
    """Computes forecasts from poses."""

    model: str = option("", "model to start with; empty: wait for one on the topic model", read_only=True)
    model_folder: str = option(
        "", "folder that models of the topic model must be in; empty: folder of model", read_only=True
    )
    places: str = option("", "places.yaml; empty: the places that came with the model", read_only=True)
    resident: str = option("", "whose habits, where the model knows several people; empty: the home's", read_only=True)
    device: str = option("auto", "where forecasts run: cpu, cuda:N or auto, the faster of both", read_only=True)
    rate: float = option(10.0, "forecasts a second at most", low=0.1, high=100.0)
    what_if_hour: float | None = option(None, "also forecast as if it were this hour of the day", low=0.0, high=24.0)
    silent_s: float = option(2.0, "markers are removed after so many seconds without a pose", low=0.1, high=3600.0)
    walls: bool = option(True, "resample paths through walls of the map")
    forecast: ForecastConfig = field(default_factory=ForecastConfig)
    recorder: RecorderConfig = field(default_factory=RecorderConfig)

    def __post_init__(self) -> None:
        check(self)
        if self.rate * self.forecast.samples > _MOST_PATHS_PER_S:
            raise ConfigError(
                f"expected rate x forecast.samples of at most {_MOST_PATHS_PER_S} paths a second, "
                f"got {self.rate:g} x {self.forecast.samples}"
            )


@dataclass(frozen=True, slots=True)
class WebNodeConfig(CheckedOptions):
    """Serves the live page."""

    host: str = option("127.0.0.1", "address to listen on; any but loopback needs a token in the URL", read_only=True)
    port: int = option(8600, "port of the page; 0: any that is free", low=0, high=65535, read_only=True)
    rate: float = option(10.0, "frames a second for each page at most", low=0.1, high=60.0, read_only=True)
    time_zone: str = option("UTC", "IANA name of the time zone of the hours shown", read_only=True)
    trend_s: float = option(300.0, "length of the charts of entropy and unfamiliar, s", low=10.0, high=86400.0)
    caption: str = option("", "a sentence to show above the plan")
    recorder: RecorderConfig = field(default_factory=RecorderConfig)


NODE_CONFIGS: dict[str, type] = {
    "player": PlayerConfig,
    "bag_recorder": BagRecorderConfig,
    "sim_node": SimNodeConfig,
    "slam_node": SlamNodeConfig,
    "trainer_node": TrainerNodeConfig,
    "forecast_node": ForecastNodeConfig,
    "web_node": WebNodeConfig,
}
"""The parameters of each node by its executable."""

LIVE_SECTIONS: dict[str, tuple[str, ...]] = {
    "trainer_node": ("training", "found"),
    "forecast_node": ("forecast",),
}
"""Nested options that may change while a node runs; all others are read at start-up."""
