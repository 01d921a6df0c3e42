"""A short recording from the simulated house: to the nearest places and back."""

from functools import cache

import numpy as np

from svfm_ros.config.sim_config import LidarConfig, SimConfig
from svfm_ros.sim.house import load_house
from svfm_ros.sim.sim_recording import Recorder
from svfm_ros.sim.walker import simulate_protocol


@cache
def recorded(targets=1):
    """The recorder and its recording; the same every time."""
    house = load_house("home")
    recorder = Recorder(house, SimConfig(lidar=LidarConfig(beams=240)))
    names = [n for n in house.places.names if n != "couch"][:targets]
    walks = simulate_protocol(house, recorder.config.walker, 0, repeats=1, targets=names, and_back=True)
    return recorder, recorder.all_in_one(walks, 0)


@cache
def scans_and_truth(targets=1):
    """Scans, and the true poses at their stamps as seen from the first one."""
    from svfm_ros import geometry

    recorder, recording = recorded(targets)
    scans = list(recorder.scans(recording))
    seconds = np.array([(s.stamp_ns - recording.motion.start_ns) * 1e-9 for s in scans])
    poses = recording.motion.poses_at(seconds)
    return scans, geometry.relative(poses[0], poses)
