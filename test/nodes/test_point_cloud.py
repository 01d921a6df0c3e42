"""Clouds as sweeps: points put at known places come out as the beams that see them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sensor_msgs.msg import PointCloud2, PointField

from svfm_ros.errors import DataError
from svfm_ros.nodes.messages import point_cloud
from svfm_ros.nodes.messages.point_cloud import from_point_cloud, read_xyz


def cloud(points, names="xyz", kind="f4", datatype=PointField.FLOAT32, padding=4, big=False, rows=1):
    """A cloud with a few bytes between its points, as drivers send them."""
    size = np.dtype(kind).itemsize
    step = size * len(names) + padding
    records = np.zeros((len(points), step), dtype=np.uint8)
    values = np.asarray(points, dtype=(">" if big else "<") + kind)[:, : len(names)]
    records[:, : size * len(names)] = np.ascontiguousarray(values).view(np.uint8).reshape(len(points), -1)
    fields = [PointField(name=n, offset=i * size, datatype=datatype, count=1) for i, n in enumerate(names)]
    width = len(points) // rows
    return PointCloud2(
        fields=fields,
        width=width,
        height=rows,
        point_step=step,
        row_step=step * width,
        is_bigendian=big,
        data=records.tobytes(),
    )


coordinates = st.floats(-20, 20, width=32)


@given(st.lists(st.tuples(coordinates, coordinates, coordinates), min_size=1, max_size=20), st.booleans())
def test_points_are_read_as_written(points, big):
    np.testing.assert_array_equal(read_xyz(cloud(points, big=big)), np.array(points))


@pytest.mark.parametrize(("kind", "datatype"), [("f8", PointField.FLOAT64), ("i2", PointField.INT16)])
def test_other_number_types(kind, datatype):
    points = [(1, 2, 3), (4, 5, 6)]
    np.testing.assert_array_equal(read_xyz(cloud(points, kind=kind, datatype=datatype)), points)


def test_rows_and_missing_heights():
    points = [(1, 2), (3, 4), (5, 6), (7, 8)]
    expected = np.column_stack([points, np.zeros(4)])
    np.testing.assert_array_equal(read_xyz(cloud(points, names="xy", rows=2)), expected)


def test_nan_points_are_left_out():
    assert len(read_xyz(cloud([(1, 2, 3), (math.nan, 0, 0)]))) == 1


def test_cloud_without_coordinates_is_refused():
    with pytest.raises(DataError, match="fields x and y, got a, b"):
        read_xyz(cloud([(1, 2)], names="ab"))


def test_cloud_cut_short_is_refused():
    message = cloud([(1, 2, 3), (4, 5, 6)])
    message.data = message.data[:-1]
    with pytest.raises(DataError, match="got 31 bytes"):
        read_xyz(message)


@given(st.integers(0, 359), st.floats(0.5, 10, width=32))
def test_a_point_is_seen_by_the_beam_that_points_at_it(beam, distance):
    angle = -math.pi + beam * 2 * math.pi / 360
    message = cloud([(distance * math.cos(angle), distance * math.sin(angle), 0.0)], kind="f8", datatype=8)
    scan = from_point_cloud(message, 360, 0.1, 12.0, -0.5, 0.5)
    assert np.flatnonzero(np.isfinite(scan.ranges)).tolist() == [beam]
    assert scan.ranges[beam] == pytest.approx(distance, rel=1e-6)
    assert scan.angles()[beam] == pytest.approx(angle)


def test_nearest_point_wins_and_the_slab_and_the_range_hold():
    points = [(2, 0, 0), (1, 0, 0), (0.5, 0, 0.9), (0.05, 0, 0), (0, 30, 0)]
    scan = from_point_cloud(cloud(points), 360, 0.1, 12.0, -0.5, 0.5)
    assert np.nanmin(scan.ranges) == pytest.approx(1.0)
    assert np.isfinite(scan.ranges).sum() == 1


def test_clouds_that_are_too_large_are_refused(monkeypatch):
    message = cloud([(1, 2, 3), (4, 5, 6)])
    monkeypatch.setattr(point_cloud, "MAX_CLOUD_BYTES", len(message.data))
    assert len(read_xyz(message)) == 2
    monkeypatch.setattr(point_cloud, "MAX_CLOUD_BYTES", len(message.data) - 1)
    with pytest.raises(DataError, match="at most 31 bytes, got 32"):
        read_xyz(message)


@pytest.mark.parametrize(("point_step", "datatype"), [(0, 7), (4, 7), (16, 99)])
def test_fields_outside_of_the_points_are_refused(point_step, datatype):
    message = cloud([(1, 2, 3), (4, 5, 6)])
    message.point_step = point_step
    message.fields[1].datatype = datatype
    with pytest.raises(DataError, match="expected x, y and z within"):
        read_xyz(message)
