"""What the LiDAR adds to the truth, effect by effect, held against what it says it adds."""

from dataclasses import replace

import numpy as np
import pytest
from rooms import distance_in_square, square_house, straight_walk

from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.sim.sensors.lidar import Lidar
from svfm_ros.sim.wearer_motion import BodySway, Motion, motion_of
from svfm_ros.types import Walk

IDEAL = LidarConfig(noise=False, quantisation=False, drops=False, motion=False, shadow=False, sway=False)
HALF = 4.0
RNG = np.random.default_rng(0)
ROOM = square_house(HALF)


def standing(seconds: float, x: float = 0.0, y: float = 0.0, theta: float = 0.0) -> Motion:
    return Motion(10**18, np.array([0.0, seconds]), np.array([[x, y, theta]] * 2), np.zeros(2))


def ranges_of(config: LidarConfig, motion: Motion, seed: int = 1) -> np.ndarray:
    return np.stack([s.ranges for s in Lidar(ROOM, config).sweeps(motion, seed)])


def true_ranges(x: float = 0.0, y: float = 0.0, theta: float = 0.0, beams: int = 360) -> np.ndarray:
    azimuth = theta - np.pi + np.arange(beams) * 2 * np.pi / beams
    return distance_in_square(HALF, np.array([[x, y]]), azimuth)


def test_without_effects_it_sees_the_truth() -> None:
    ranges = ranges_of(IDEAL, standing(1.0, 1.0, -0.5, 0.7))
    assert ranges == pytest.approx(np.tile(true_ranges(1.0, -0.5, 0.7), (10, 1)), abs=1e-5)


def test_scans_say_what_they_are() -> None:
    lidar = Lidar(ROOM, replace(LidarConfig(), rate_hz=5.5, beams=720))
    scans = list(lidar.sweeps(standing(2.1), 0))
    assert len(scans) == lidar.count(standing(2.1)) == 11
    first, second = scans[:2]
    assert first.stamp_ns == 10**18
    assert second.stamp_ns - first.stamp_ns == round(1e9 / 5.5)
    assert first.time_increment_s * 720 == pytest.approx(first.scan_time_s) == pytest.approx(1 / 5.5)
    assert first.angles()[[0, -1]] == pytest.approx([-np.pi, np.pi - 2 * np.pi / 720])
    assert (first.range_min, first.range_max) == (0.15, 12.0)


def test_noise_grows_with_range_as_the_config_says() -> None:
    config = replace(IDEAL, noise=True, noise_m=0.01, noise_share=0.02)
    ranges, truth = ranges_of(config, standing(400.0, 2.5)), true_ranges(2.5)
    error = ranges - truth
    sigma = 0.01 + 0.02 * truth
    samples = len(ranges)
    assert np.abs(error.mean(axis=0) / sigma).max() < 5.0 / np.sqrt(samples)
    assert np.abs(error.std(axis=0) / sigma - 1.0).max() < 5.0 / np.sqrt(2 * samples)
    assert truth.max() > 3 * truth.min()  # so that growth was seen at all


def test_noise_is_normal_and_fresh_for_every_beam() -> None:
    z = (ranges_of(replace(IDEAL, noise=True), standing(100.0)) - true_ranges()) / (0.006 + 0.005 * true_ranges())
    assert np.mean(np.abs(z) < 1.0) == pytest.approx(0.6827, abs=0.005)
    assert np.mean(np.abs(z) < 2.0) == pytest.approx(0.9545, abs=0.003)
    neighbours = np.mean(z[:, 1:] * z[:, :-1]), np.mean(z[1:] * z[:-1])
    assert np.abs(neighbours).max() < 0.01


def test_steps_of_the_range_grow_with_its_square() -> None:
    config = replace(IDEAL, noise=True, quantisation=True, quantum_m=0.01)
    ranges = ranges_of(config, standing(20.0, 1.5)).astype(float)
    steps = 1.0 / ranges / (0.01 / 1.5**2)
    assert np.abs(steps - np.rint(steps)).max() < 1e-3
    error = ranges_of(replace(config, noise=False), standing(0.1, 1.5))[0] - true_ranges(1.5)
    assert np.all(np.abs(error) <= 0.51 * 0.01 * (true_ranges(1.5) / 1.5) ** 2 + 1e-6)


def test_beams_are_dropped_as_often_as_the_config_says() -> None:
    config = replace(IDEAL, drops=True, drop_share=0.05, drop_share_far=0.3, grazing_deg=0.0)
    lost = ~np.isfinite(ranges_of(config, standing(400.0, 2.5)))
    expected = 0.05 + 0.25 * (true_ranges(2.5) / 12.0) ** 2
    assert lost.mean() == pytest.approx(expected.mean(), rel=0.02)
    assert np.abs(lost.mean(axis=0) - expected).max() < 5.0 * np.sqrt(0.25 * expected.max() / len(lost))


def test_beams_along_a_wall_are_lost() -> None:
    config = replace(IDEAL, drops=True, drop_share=0.0, drop_share_far=0.0, grazing_deg=20.0)
    azimuth = -np.pi + np.arange(360) * 2 * np.pi / 360
    truth, y = true_ranges(0.0, 3.7), 3.7
    side = np.abs(y + truth * np.sin(azimuth)) > HALF - 1e-9  # meets the walls in the north and south
    flat = np.where(side, np.abs(np.sin(azimuth)), np.abs(np.cos(azimuth))) < np.sin(np.radians(20.0))
    lost = ~np.isfinite(ranges_of(config, standing(0.1, 0.0, y))[0])
    assert flat.any()
    np.testing.assert_array_equal(lost, flat)


def test_the_body_hides_what_is_behind() -> None:
    config = replace(IDEAL, shadow=True, shadow_deg=90.0)
    ranges = ranges_of(config, standing(0.1))[0]
    behind = np.abs(np.arange(360) - 180) > 135  # beam 180 looks straight ahead
    assert not np.isfinite(ranges[behind]).any()
    assert np.isfinite(ranges[~behind]).all()


def test_each_beam_leaves_from_where_the_wearer_is_at_its_moment() -> None:
    speed = 2.0
    motion = motion_of([straight_walk(np.array([-2.0, 0.0]), np.array([2.0, 0.0]), 4.0 / speed)], 0.0, 0.0, 0)
    scans = list(Lidar(ROOM, replace(IDEAL, motion=True)).sweeps(motion, 0))
    for k in (0, 7, 19):
        t = k * 0.1 + np.arange(360) * scans[k].time_increment_s
        xy = np.column_stack([-2.0 + speed * t, np.zeros(360)])
        expected = distance_in_square(HALF, xy, scans[k].angles())
        assert scans[k].ranges == pytest.approx(expected, abs=1e-5)
    frozen = list(Lidar(ROOM, IDEAL).sweeps(motion, 0))
    assert frozen[7].time_increment_s == 0.0
    assert frozen[7].ranges == pytest.approx(true_ranges(-2.0 + speed * 0.7), abs=1e-5)


def test_turning_during_a_sweep_turns_the_beams() -> None:
    motion = Motion(10**18, np.array([0.0, 1.0]), np.array([[1.0, 0.5, 0.0], [1.0, 0.5, 2.0]]), np.zeros(2))
    scan = next(Lidar(ROOM, replace(IDEAL, motion=True)).sweeps(motion, 0))
    azimuth = scan.angles() + 2.0 * np.arange(360) * scan.time_increment_s
    assert scan.ranges == pytest.approx(distance_in_square(HALF, np.array([[1.0, 0.5]]), azimuth), abs=1e-5)


def one_tilted_sweep(pitch_rad: float) -> np.ndarray:
    """A sweep of someone who stands and leans forward by a fixed angle."""
    config, motion = replace(IDEAL, sway=True), standing(1.0)
    sway = BodySway(motion, config, 1.8, 0)
    sway._lean = np.array([[pitch_rad] * 3, [0.0] * 3])
    return Lidar(ROOM, config)._measure(motion, np.array([0]), sway, [RNG] * 2)[0]


def test_a_tilted_plane_stretches_ranges() -> None:
    """Nose down by a fixed angle: straight ahead the range grows by 1/cos, to the sides not at all."""
    pitch = np.radians(10.0)
    ranges = one_tilted_sweep(pitch)
    assert ranges[180] == pytest.approx(HALF / np.cos(pitch), rel=1e-6)
    assert ranges[90] == ranges[270] == pytest.approx(HALF, rel=1e-6)


def test_a_strongly_tilted_plane_meets_the_floor_and_the_ceiling() -> None:
    pitch = np.radians(20.0)  # 4 m ahead the plane would be 1.46 m lower, below the floor
    ranges = one_tilted_sweep(pitch)
    assert ranges[180] == pytest.approx(1.2 / np.sin(pitch), rel=1e-6)
    assert ranges[0] == pytest.approx(1.2 / np.sin(pitch), rel=1e-6)  # 2.4 - 1.2 m up behind


def test_sway_needs_steps_and_stays_small() -> None:
    walk = straight_walk(np.array([-2.0, 0.0]), np.array([2.0, 0.0]), 4.0)
    config = replace(IDEAL, sway=True, lean_deg=0.0)
    sway = ranges_of(config, motion_of([walk], 0.0, 0.0, 0)) - ranges_of(IDEAL, motion_of([walk], 0.0, 0.0, 0))
    assert 0.0 < np.abs(sway).max() < 0.05
    assert np.abs(ranges_of(config, standing(2.0)) - true_ranges()).max() < 1e-5


@pytest.mark.parametrize("effect", ["noise", "drops", "shadow"])
def test_switching_one_effect_off_leaves_the_others_as_they_were(effect: str) -> None:
    motion = standing(3.0, 0.3, -0.4, 0.2)
    every, without = ranges_of(LidarConfig(), motion), ranges_of(replace(LidarConfig(), **{effect: False}), motion)
    both = np.isfinite(every) & np.isfinite(without)
    if effect == "noise":
        assert not np.array_equal(every[both], without[both])
        assert np.mean(np.isfinite(every) != np.isfinite(without)) < 0.01  # the same beams are dropped
    else:
        assert np.isfinite(without).sum() > np.isfinite(every).sum()
        np.testing.assert_array_equal(every[both], without[both])


def test_the_same_seed_gives_the_same_scans() -> None:
    motion = standing(30.0)
    np.testing.assert_array_equal(ranges_of(LidarConfig(), motion, 4), ranges_of(LidarConfig(), motion, 4))
    assert not np.array_equal(ranges_of(LidarConfig(), motion, 4), ranges_of(LidarConfig(), motion, 5))


def test_what_is_out_of_range_is_lost() -> None:
    ranges = ranges_of(replace(IDEAL, range_max_m=5.0, range_min_m=1.0), standing(0.1, 3.5))[0]
    truth = true_ranges(3.5)
    np.testing.assert_array_equal(np.isfinite(ranges), (truth >= 1.0) & (truth <= 5.0))


def test_motion_stays_and_turns_between_walks() -> None:
    out = straight_walk(np.array([0.0, 0.0]), np.array([2.0, 0.0]), 2.0)
    back = straight_walk(np.array([2.0, 0.0]), np.array([0.0, 0.0]), 2.0, start_ns=10**18 + 10 * 10**9)
    motion = motion_of([out, back], 1.0, 3.0, 7)
    assert motion.duration_s == pytest.approx(1.0 + 10.0 + 2.0 + 3.0)
    stay = motion.poses_at(np.linspace(3.0, 11.0, 400))
    assert np.hypot(*(stay[:, :2] - [2.0, 0.0]).T).max() < 0.03
    assert np.ptp(stay[:, 0]) > 1e-4  # people fidget
    t = np.linspace(3.0, 11.0, 4000)
    rate = np.abs(np.diff(np.unwrap(motion.poses_at(t)[:, 2]))) / np.diff(t)
    assert 1.0 < rate.max() < 2.0  # the turn before the way back
    at_walk = motion.poses_at(1.0 + out.times_s)
    assert at_walk == pytest.approx(out.poses, abs=1e-9)


def test_a_walk_that_begins_elsewhere_is_refused() -> None:
    out = straight_walk(np.array([0.0, 0.0]), np.array([2.0, 0.0]), 2.0)
    again = Walk("again", "test", out.stamps_ns + 10**10, out.poses)
    with pytest.raises(ValueError, match=r"again: expected a walk that begins after the last one.*2\.00 m away"):
        motion_of([out, again], 0.0, 0.0, 0)
