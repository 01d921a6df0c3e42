"""Scans that are no use: counted, explained, never an exception, and the map stays whole."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, scan_at, scans_along, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.slam.scan_gate import ScanGate
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.types import Scan

WAY = walk((1.5, 1.2), (2.8, 3.2), (5.2, 3.2))
SCANS = scans_along(FLAT, WAY)
ANGLE = 2 * np.pi / 360


def ranges_of(scan: Scan, ranges: np.ndarray) -> Scan:
    return replace(scan, ranges=np.asarray(ranges, dtype=np.float32))


USELESS: dict[str, tuple[Callable[[Scan], Scan], str]] = {
    "all NaN": (lambda s: ranges_of(s, np.full(360, np.nan)), "few_echoes"),
    "all inf": (lambda s: ranges_of(s, np.full(360, np.inf)), "few_echoes"),
    "out of range": (lambda s: ranges_of(s, np.full(360, 80.0)), "few_echoes"),
    "too near": (lambda s: ranges_of(s, np.full(360, 0.01)), "few_echoes"),
    "negative": (lambda s: ranges_of(s, np.full(360, -1.0)), "few_echoes"),
    "no beams": (lambda s: ranges_of(s, np.empty(0)), "empty"),
    "one beam": (lambda s: ranges_of(s, np.ones(1)), "malformed"),
    "a table": (lambda s: ranges_of(s, np.ones((2, 180))), "empty"),
    "no beam times": (lambda s: replace(s, time_increment_s=float("nan")), "malformed"),
    "a sweep of years": (lambda s: replace(s, time_increment_s=1e9), "malformed"),
    "no greatest range": (lambda s: replace(s, range_max=float("nan")), "malformed"),
    "no angles": (lambda s: replace(s, angle_step=float("nan")), "malformed"),
    "the last scan again": (lambda _: SCANS[19], "doubles"),
    "turned": (lambda s: replace(s, angle_min=s.angle_min + 0.5), "malformed"),
    "stretched": (lambda s: replace(s, angle_step=1.1 * s.angle_step), "malformed"),
    "a long sweep": (lambda s: replace(s, time_increment_s=0.02), "malformed"),
    "another greatest range": (lambda s: replace(s, range_max=4.0 * s.range_max), "malformed"),
}


@pytest.mark.parametrize("what", USELESS)
def test_useless_scans_are_counted_and_leave_no_trace(what: str) -> None:
    spoil, counter = USELESS[what]
    slam = Slam()
    for scan in SCANS[:20]:
        slam.add_scan(scan)
    pose, placed = slam.pose, len(slam.trajectory())
    update = slam.add_scan(spoil(SCANS[20]))
    assert update.match is None
    assert update.reason
    assert slam.counters[counter] == 1
    assert slam.counters["left_out"] == 1
    assert slam.pose == pose
    assert len(slam.trajectory()) == placed
    for scan in SCANS[21:]:
        assert slam.add_scan(scan).match is not None
    slam.finish()
    truth = np.delete(WAY, 20, axis=0)
    assert absolute_error(slam.trajectory().poses, truth).worst_m < 0.05


def test_another_sensor_is_believed_after_a_few_scans() -> None:
    """It sees the same walls with its first beam pointing elsewhere."""
    slam = Slam()
    turned = [replace(s, ranges=np.roll(s.ranges, 90), angle_min=s.angle_min - 90 * s.angle_step) for s in SCANS[20:]]
    updates = [slam.add_scan(s) for s in [*SCANS[:20], *turned]]
    assert slam.counters["malformed"] == 4
    assert all(u.match is not None for u in updates[24:])
    truth = np.delete(WAY, [20, 21, 22, 23], axis=0)
    assert absolute_error(slam.trajectory().poses, truth).worst_m < 0.05


def test_a_sensor_whose_sweeps_differ_is_used_after_a_while() -> None:
    """Some drivers publish what part of a turn there is: no two scans begin at the same angle."""
    gate = ScanGate(Counter())
    faults = []
    for k in range(60):
        scan = replace(SCANS[k % 20], stamp_ns=k, angle_min=0.3 * (k % 7))
        faults.append(gate.fault(scan))
        if not faults[-1]:
            gate.passed(scan)
    assert any(faults)
    assert not any(faults[40:])


def test_a_scan_with_many_holes_is_used_as_it_is() -> None:
    slam = Slam()
    rng = np.random.default_rng(0)
    for scan in SCANS:
        ranges = scan.ranges.copy()
        ranges[rng.random(360) < 0.4] = np.nan
        ranges[rng.random(360) < 0.1] = np.inf
        slam.add_scan(ranges_of(scan, ranges))
    assert slam.counters["left_out"] == 0
    assert absolute_error(slam.trajectory().poses, WAY).rmse_m < 0.02


def test_a_changed_beam_count_is_told_and_tracking_goes_on() -> None:
    slam = Slam()
    beams = [360] * 20 + [720] * (len(WAY) - 20)
    scans = [scan_at(FLAT, p, s.stamp_ns, beams=n) for p, s, n in zip(WAY, SCANS, beams, strict=True)]
    updates = [slam.add_scan(s) for s in scans]
    assert "from 360 to 720" in updates[20].reason
    assert slam.counters["beam_count_changed"] == 1
    assert all(u.match is not None for u in updates[1:])
    assert absolute_error(slam.trajectory().poses, WAY).rmse_m < 0.02


@pytest.mark.parametrize("gap_s", [0.5, 3.0, 3600.0])
def test_a_gap_is_bridged(gap_s: float) -> None:
    """The wearer took a few steps meanwhile, as far as a window reaches."""
    slam = Slam()
    late = [replace(s, stamp_ns=s.stamp_ns + round(gap_s * 1e9)) for s in SCANS[24:]]
    for scan in [*SCANS[:20], *late]:
        slam.add_scan(scan)
    slam.finish()
    assert slam.counters["pieces_left_out"] == 0
    assert slam.counters["gaps"] == (1 if gap_s > 2 else 0)
    truth = np.delete(WAY, [20, 21, 22, 23], axis=0)
    assert absolute_error(slam.trajectory().poses, truth).worst_m < 0.05


def stamped(stamps_ns: np.ndarray) -> list[Scan]:
    return [replace(s, stamp_ns=int(t)) for s, t in zip(SCANS, stamps_ns, strict=True)]


STAMPS_NS = np.array([s.stamp_ns for s in SCANS])
LATER = np.arange(len(SCANS)) >= 20


def permuted() -> np.ndarray:
    rng = np.random.default_rng(1)
    chosen, stamps_ns = rng.choice(len(SCANS), 6, replace=False), STAMPS_NS.copy()
    stamps_ns[chosen] = stamps_ns[np.roll(chosen, 1)]
    return stamps_ns


CLOCKS = {
    "an hour back": (STAMPS_NS - 3600 * 10**9 * LATER, "clock_steps"),
    "an hour forth": (STAMPS_NS + 3600 * 10**9 * LATER, "gaps"),
    "a second back, twice": (STAMPS_NS - 10**9 * LATER - 10**9 * (np.arange(len(SCANS)) >= 30), "clock_steps"),
    "permuted": (permuted(), "clock_steps"),
    "constant": (np.full(len(SCANS), 10**9), "stamps_repeated"),
    "whole tens of seconds": (10**10 * (np.arange(len(SCANS)) // 15), "stamps_repeated"),
    "hours on after twenty scans": (10**13 * LATER, "stamps_repeated"),
    "random": (np.random.default_rng(0).integers(-(10**18), 10**18, len(SCANS)), "clock_steps"),
}


@pytest.mark.parametrize("what", CLOCKS)
def test_whatever_the_clock_does_scans_are_placed_in_their_order(what: str) -> None:
    stamps_ns, counter = CLOCKS[what]
    slam = Slam()
    updates = [slam.add_scan(s) for s in stamped(stamps_ns)]
    slam.finish()
    assert slam.counters[counter] > 0
    assert len(slam.trajectory()) == len(SCANS)
    assert absolute_error(slam.trajectory().poses, WAY).worst_m < 0.05
    assert counter == "gaps" or any("in their order" in u.reason for u in updates)


@pytest.mark.parametrize("stamp_every_s", [0.0, 1e4])
def test_a_thinned_log_without_usable_stamps_is_tracked(stamp_every_s: float) -> None:
    """A scan every 0.8 m, stamps all alike or rounded to 10,000 s: the steps are taken to be those of a second."""
    slam = Slam()
    for k, scan in enumerate(SCANS[::8]):
        slam.add_scan(replace(scan, stamp_ns=round(1e9 * stamp_every_s * (k // 4))))
    slam.finish()
    assert absolute_error(slam.trajectory().poses, WAY[::8]).worst_m < 0.05


@pytest.mark.parametrize(("period_s", "pause_s", "is_break"), [(0.1, 30, True), (3.0, 30, False), (3.0, 90, True)])
def test_a_pause_between_scans_of_a_thinned_log_is_a_rest(period_s: float, pause_s: float, is_break: bool) -> None:
    """It has a scan with every move: who rests for half a minute sends none, and is where he was."""
    gate = ScanGate(Counter())
    for k in range(20):
        gate.passed(replace(SCANS[0], stamp_ns=round(1e9 * period_s * k)))
    gate.passed(replace(SCANS[0], stamp_ns=round(1e9 * (period_s * 19 + pause_s))))
    assert gate.stepped == is_break


def test_stamps_in_whole_seconds_give_the_mean_interval() -> None:
    gate, elapsed_ns = ScanGate(Counter()), []
    for k in range(41):
        gate.passed(replace(SCANS[0], stamp_ns=10**9 * (k // 10)))
        elapsed_ns.append(gate.elapsed_ns)
    assert np.diff(elapsed_ns[10:]) == pytest.approx(0.1e9)  # before, nothing tells the interval


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -1.0, 0.5, 3.0, 1e9, 1e38]),
            st.integers(0, 500),
            st.integers(-(10**10), 10**10),
            st.sampled_from([0.0, ANGLE, -ANGLE, 1.0, np.inf, np.nan]),
            st.sampled_from([0.0, 1e-4, -1e-4, np.nan, 1e9]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_no_scan_whatever_makes_it_raise(parts: list[tuple[float, int, int, float, float]]) -> None:
    slam = Slam()
    slam.add_scan(SCANS[0])
    for value, beams, stamp_ns, step, beam_s in parts:
        ranges = np.full(beams, value, dtype=np.float32)
        update = slam.add_scan(Scan(stamp_ns, ranges, -np.pi, step, 0.05, 20.0, 0.1, beam_s))
        assert np.isfinite(update.T_map_base.as_array()).all()
        assert np.isfinite(update.covariance).all()
    slam.finish()
    assert np.isfinite(slam.trajectory().poses).all()


def test_no_scans_at_all() -> None:
    slam = Slam()
    slam.finish()
    assert len(slam.trajectory()) == 0
    assert slam.keyframes() == []
