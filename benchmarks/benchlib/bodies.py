"""Recordings of what a body and a lived-in home bring: fast turns, people and pets, moved doors, worse sensors."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchlib.house_recordings import Worn
from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import (
    HouseholdConfig,
    ImuSimConfig,
    LidarConfig,
    RecordingConfig,
    SimConfig,
)
from svfm_ros.sim.house import load_house
from svfm_ros.sim.sim_recording import Recorder, TruePose
from svfm_ros.sim.trips import LabelledWalk
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.slam.offline import SlamRun, draw_grid, run_slam, seen_points
from svfm_ros.sources.scan_source import Measured
from svfm_ros.types import Scan, Walk
from svfm_ros.walks.align import Aligner
from svfm_ros.walks.reference_map import ReferenceMap
from svfm_ros.walks.segmentation import WalkCut
from svfm_ros.walks.walk_recorder import take_walk

TURN_RADPS = 4.0
SLOW_HZ = 5.5
LIVED_IN = HouseholdConfig(people=3, pets=1, stay_s=3.0, doors=True, furniture_m=0.3, clutter=3, windows=4, mirrors=2)
IMU = ImuSimConfig(enabled=True)
_DAY_NS = 86400 * NS_PER_S
_WRONG_M, _WRONG_DEG = 0.3, 5.0  # a walk placed farther off than this is placed wrongly


@dataclass(frozen=True, slots=True)
class Placement:
    """Walks of several days, each through SLAM, then aligned with a map that was made on the first day."""

    rmse_m: float  # over the walks, each in its own frame
    rmse_deg: float
    placed: int
    refused: tuple[str, ...]  # reasons
    wrong: int
    worst_m: float


def fast_turns(house: str, with_imu: bool, seed: int = 0) -> tuple[Worn, SlamRun]:
    """A tour with turns at 4 rad/s on average and a LiDAR of 5.5 Hz."""
    lidar, recording = replace(LidarConfig(), rate_hz=SLOW_HZ), RecordingConfig(turn_radps=TURN_RADPS)
    config = SimConfig(lidar=lidar, recording=recording, imu=replace(IMU, enabled=with_imu))
    return _mapped(house, config, _tour(house, config, seed), seed)


def lost_s(run: SlamRun) -> float:
    """The longest time between two scans that were placed at once."""
    return float(np.diff(run.live.stamps_ns).max()) / NS_PER_S


def tour_of(house: str, config: SimConfig, seed: int = 0) -> tuple[Worn, SlamRun]:
    """Every place and back in one recording, and SLAM of it."""
    return _mapped(house, config, _tour(house, config, seed), seed)


def days(house: str, config: SimConfig, repeats: int, seed: int = 0) -> Placement:
    """Walks of the protocol, each on a day of its own, aligned with the map of a tour on the first day."""
    shown, toured = tour_of(house, config, seed + 99)
    aligner = Aligner(ReferenceMap.from_grid(draw_grid(toured.scans_used(shown.scans), toured.trajectory)))
    T_truth_house = shown.error(toured.trajectory).T_truth_estimate
    metres, degrees, off_m, wrong, refused = [], [], [0.0], 0, []
    for worn, run in _walks_by_day(house, config, repeats, seed):
        error = worn.error(run.trajectory)
        metres.append(error.rmse_m)
        degrees.append(error.rmse_deg)
        walk = _walk_of(worn, run)
        found = aligner.align(walk)
        if not found.accepted:
            refused.append(found.reason)
            continue
        placed = geometry.compose((T_truth_house @ found.T_house_walk).as_array(), walk.poses)
        wanted = geometry.compose(error.T_truth_estimate.as_array(), walk.poses)
        off_m.append(float(np.sqrt(np.mean(np.sum((placed - wanted)[:, :2] ** 2, axis=1)))))
        off_deg = float(np.degrees(np.abs(geometry.wrap_angle(placed[0, 2] - wanted[0, 2]))))
        wrong += off_m[-1] > _WRONG_M or off_deg > _WRONG_DEG
    rmse_m, rmse_deg = (float(np.sqrt(np.mean(np.square(e)))) for e in (metres, degrees))
    placed_count = len(metres) - len(refused)
    return Placement(rmse_m, rmse_deg, placed_count, tuple(refused), int(wrong), max(off_m))


def crowded_share(house: str, seed: int = 0) -> float:
    """The largest share of a scan's echoes that end at people and pets: against the same tour without them."""
    alone = replace(LIVED_IN, people=0, pets=0)
    configs = SimConfig(household=LIVED_IN), SimConfig(household=alone)
    with_them, without = (_scans(house, c, _tour(house, c, seed), seed) for c in configs)
    shares = [
        np.mean(~np.isclose(a.ranges, b.ranges, atol=0.05)[np.isfinite(a.ranges)])
        for a, b in zip(with_them, without, strict=True)
    ]
    return float(max(shares))


def _walks_by_day(house: str, config: SimConfig, repeats: int, seed: int) -> Iterator[tuple[Worn, SlamRun]]:
    drawn = load_house(house)
    walks = simulate_protocol(drawn, config.walker, seed, repeats, habits=config.habits)
    for day, walk in enumerate(walks, 1):
        later = replace(walk.walk, stamps_ns=walk.walk.stamps_ns + day * _DAY_NS)
        yield _mapped(house, config, [replace(walk, walk=later)], seed * 1000 + day)
        print(f"{house}: day {day}", file=sys.stderr, flush=True)


def _tour(house: str, config: SimConfig, seed: int) -> list[LabelledWalk]:
    return simulate_protocol(load_house(house), config.walker, seed, 1, habits=config.habits, and_back=True)


def _mapped(house: str, config: SimConfig, walks: list[LabelledWalk], seed: int) -> tuple[Worn, SlamRun]:
    recorder = Recorder(load_house(house), config)
    recording = recorder.all_in_one(walks, seed)
    messages: list[Measured] = [m for _, m in recorder.messages(recording) if not isinstance(m, TruePose)]
    worn = Worn(recording.name, [m for m in messages if isinstance(m, Scan)], recording)
    return worn, run_slam(messages)


def _scans(house: str, config: SimConfig, walks: list[LabelledWalk], seed: int) -> list[Scan]:
    recorder = Recorder(load_house(house), config)
    return list(recorder.scans(recorder.all_in_one(walks, seed)))


def _walk_of(worn: Worn, run: SlamRun) -> Walk:
    """The whole recording as one walk, as the recorder takes it."""
    stamps, poses = run.trajectory.stamps_ns, run.trajectory.poses
    seen = seen_points(run.scans_used(worn.scans), run.trajectory)
    return take_walk(WalkCut(int(stamps[0]), int(stamps[-1])), "resident", stamps, poses, seen.get)
