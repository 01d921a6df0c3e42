"""IMU and odometry of a bag come with its scans, in the order in which they were recorded."""

from pathlib import Path

import numpy as np
import pytest
from flats import FLAT, scan_at

from svfm_ros.sources import open_scans
from svfm_ros.sources.bag_writer import BagWriter
from svfm_ros.types import ImuReading, OdometryReading, Scan

START_NS = 1_700_000_000_000_000_000


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    with BagWriter(tmp_path / "bag") as writer:
        for k in range(5):
            stamp_ns = START_NS + k * 100_000_000
            writer.write_imu(stamp_ns, [0.1, 0.2, 0.3 + k], [0.0, 0.1, 9.8])
            writer.write_odometry(stamp_ns + 1, [1.0, 2.0, -3.0], [0.5, 0.0, 0.1], np.diag([0.1, 0.2, 0.3]))
            writer.write_odometry(stamp_ns + 2, [9.0, 9.0, 0.0], np.zeros(3), np.eye(3), topic="/odometry")
            writer.write_scan(scan_at(FLAT, np.array([2.0, 3.0, 0.0]), stamp_ns + 3))
    return tmp_path / "bag"


def test_all_that_was_measured_is_read_in_order(bag: Path) -> None:
    messages = list(open_scans(bag).messages())
    kinds = [type(m) for m in messages]
    assert [kinds.count(k) for k in (Scan, ImuReading, OdometryReading)] == [5, 5, 5]
    imu, odometry = messages[0], messages[1]
    assert isinstance(imu, ImuReading)
    assert imu.stamp_ns == START_NS
    assert imu.gyro_radps == pytest.approx([0.1, 0.2, 0.3])
    assert imu.accel_mps2 == pytest.approx([0.0, 0.1, 9.8])
    assert isinstance(odometry, OdometryReading)
    assert odometry.T_odom_base == pytest.approx([1.0, 2.0, -3.0])
    assert odometry.twist == pytest.approx([0.5, 0.0, 0.1])
    assert odometry.covariance == pytest.approx(np.diag([0.1, 0.2, 0.3]))


def test_what_slam_itself_published_is_not_read_as_odometry(bag: Path) -> None:
    readings = [m for m in open_scans(bag).messages() if isinstance(m, OdometryReading)]
    assert all(r.T_odom_base[0] == 1.0 for r in readings)


def test_scans_alone_are_read_as_before(bag: Path) -> None:
    source = open_scans(bag)
    assert len(source) == 5
    assert all(isinstance(scan, Scan) for scan in source)


def test_a_bag_of_scans_alone_has_scans_alone(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag") as writer:
        writer.write_scan(scan_at(FLAT, np.array([2.0, 3.0, 0.0]), START_NS))
    assert [type(m) for m in open_scans(tmp_path / "bag").messages()] == [Scan]
