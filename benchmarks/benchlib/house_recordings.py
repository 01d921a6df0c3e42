"""Recordings of a LiDAR worn through the simulated houses, all effects on, with the truth beside them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.sim_config import SimConfig
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.sim_recording import Recorder, Recording
from svfm_ros.sim.walker import simulate_days, simulate_protocol, span_of_days
from svfm_ros.slam.trajectory import Trajectory
from svfm_ros.slam.trajectory_metrics import AbsoluteError, absolute_error
from svfm_ros.types import Scan

Array = NDArray[np.float64]

HOUSES = ("home", "bungalow")


@dataclass(frozen=True, slots=True)
class Worn:
    """One recording and where the sensor really was."""

    name: str
    scans: list[Scan]
    recording: Recording

    def truth(self, stamps_ns: Array) -> Array:
        """True poses ``(T, 3)`` at those moments."""
        seconds = (np.asarray(stamps_ns) - self.recording.motion.start_ns) / 1e9
        return np.asarray(self.recording.motion.poses_at(seconds))

    def error(self, trajectory: Trajectory) -> AbsoluteError:
        """Error of a trajectory after alignment."""
        return absolute_error(trajectory.poses, self.truth(trajectory.stamps_ns))


def protocol_walks(house: str | House, seed: int = 0, repeats: int = 10) -> Iterator[Worn]:
    """The walks of the paper, a recording each: from the couch to every other place."""
    config = SimConfig()
    drawn = load_house(house) if isinstance(house, str) else house
    recorder = Recorder(drawn, config)
    walks = simulate_protocol(drawn, config.walker, seed, repeats, habits=config.habits)
    for recording in recorder.one_per_walk(walks, seed):
        yield Worn(recording.name, list(recorder.scans(recording)), recording)


def tour(house: str, seed: int = 99, repeats: int = 1) -> Worn:
    """Every place once, there and back, in one recording: a person who shows their home."""
    config = SimConfig()
    drawn = load_house(house)
    recorder = Recorder(drawn, config)
    walks = simulate_protocol(drawn, config.walker, seed, repeats, habits=config.habits, and_back=True)
    recording = recorder.all_in_one(walks, seed)
    return Worn("tour", list(recorder.scans(recording)), recording)


def living(house: str, minutes: float, seed: int = 0) -> Worn:
    """Free living, one recording."""
    config = SimConfig()
    drawn = load_house(house)
    recorder = Recorder(drawn, config)
    days = minutes / (24 * 60)
    walks = simulate_days(drawn, config.walker, seed, days, config.habits)
    recording = recorder.all_in_one(walks, seed, span_ns=span_of_days(config.habits, days))
    return Worn("living", list(recorder.scans(recording)), recording)
