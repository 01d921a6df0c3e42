"""Defaults of the ROS nodes: what they read, how often they speak, which frames they use."""

from dataclasses import dataclass

from svfm_ros.config.options import check, option

__all__ = ["PlayerConfig"]


@dataclass(frozen=True, slots=True)
class PlayerConfig:
    """Replay of a bag."""

    bag: str = option("", "the bag to replay: a rosbag2 folder, an .mcap or a .db3 file", read_only=True)
    rate: float = option(1.0, "how many times faster than it was recorded", low=0.01, high=1000.0)
    loop: bool = option(False, "begin again at the end; the clock jumps back")
    start_s: float = option(0.0, "how far into the bag to begin, s", low=0.0, read_only=True)
    topics: tuple[str, ...] = option((), "replay only these topics; empty: all of them", read_only=True)
    wait_for: tuple[str, ...] = option((), "begin when each of these topics has a subscriber", read_only=True)
    wait_s: float = option(30.0, "begin after this long even without the subscribers waited for, s", low=0.0)
    clock: bool = option(True, "publish /clock", read_only=True)
    clock_hz: float = option(40.0, "ticks of /clock a second, beside one with each message", low=1.0, high=1000.0)

    def __post_init__(self) -> None:
        check(self)
