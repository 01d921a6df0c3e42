"""Sections of frames: what is encoded decodes to the same, and a page gets what changed since its last frame, once."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.types import OccupancyGrid, Pose2
from svfm_ros.web.live_state import LatestState, density_bytes, json_bytes, path_bundle_bytes, polyline_bytes


def sections(frame: bytes) -> dict[str, bytes]:
    found, at = {}, 0
    while at < len(frame):
        kind, length = struct.unpack_from("<cI", frame, at)
        found[kind.decode()] = frame[at + 5 : at + 5 + length]
        at += 5 + length
    return found


def unbundled(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    count, points, x, y, unit = struct.unpack_from("<HHfff", data)
    steps = np.frombuffer(data, np.int8, 2 * count * points, 16).reshape(count, points, 2)
    return (x, y) + unit * np.cumsum(steps, axis=1), np.frombuffer(data, np.int8, count, 16 + 2 * count * points)


def test_a_page_gets_what_is_new_and_only_its_latest_state() -> None:
    state = LatestState()
    state.put("a", lambda: b"old")
    state.put("a", lambda: b"new")
    state.put("b", lambda: b"same")
    frame, version = state.frame_since(0)
    assert sections(frame) == {"a": b"new", "b": b"same"}
    state.put("a", lambda: b"newer")
    frame, version = state.frame_since(version)
    assert sections(frame) == {"a": b"newer"}
    assert state.frame_since(version) == (b"", version)


def test_nothing_is_encoded_before_a_page_asks_and_then_once() -> None:
    state, encoded = LatestState(), []
    state.put("a", lambda: encoded.append(1) or b"x")  # type: ignore[func-returns-value]
    assert encoded == []
    assert state.frame_since(0) == state.frame_since(0)
    assert encoded == [1]


def test_a_message_that_cannot_be_encoded_is_left_out_and_reported() -> None:
    errors: list[Exception] = []
    state = LatestState(errors.append)
    state.put("a", lambda: bytes(1 // 0))
    state.put("b", lambda: b"fine")
    assert sections(state.frame_since(0)[0]) == {"b": b"fine"}
    assert [type(e) for e in errors] == [ZeroDivisionError]


@given(st.integers(1, 30), st.integers(1, 40), st.floats(0.01, 30.0), st.integers(0, 2**31), st.floats(-300.0, 300.0))
def test_paths_come_back_within_half_a_unit(paths: int, points: int, step_m: float, seed: int, at: float) -> None:
    rng = np.random.default_rng(seed)
    xy = at + np.cumsum(rng.uniform(-step_m, step_m, (paths, points, 2)), axis=1)
    ends = rng.integers(-1, 5, paths)
    data = path_bundle_bytes(xy, ends)
    found, found_ends = unbundled(data)
    unit = struct.unpack_from("<HHfff", data)[4]
    assert found_ends.tolist() == ends.tolist()
    assert found.shape[1] <= 17
    assert np.abs(found[:, 0] - xy[:, 0]).max() <= 0.51 * unit + 1e-3
    assert np.abs(found[:, -1] - xy[:, -1]).max() <= 0.51 * unit + 1e-3


def test_200_paths_of_ten_seconds_fit_into_eight_kilobytes_to_the_centimetre() -> None:
    times = np.linspace(0.0, 10.0, 26)
    angles = np.linspace(0.0, 6.0, 200)
    xy = 1.2 * times[None, :, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None]
    data = path_bundle_bytes(xy, np.zeros(200))
    assert len(data) < 8000
    assert np.abs(unbundled(data)[0][:, -1] - xy[:, -1]).max() < 0.006


def test_lines_are_centimetres() -> None:
    assert np.frombuffer(polyline_bytes([[1.234, -2.0], [1000.0, np.nan]]), "<i2").tolist() == [123, -200, 32767, 0]


def test_density_lists_the_cells_above_nothing() -> None:
    prob = np.zeros((3, 4), dtype=np.float32)
    prob[1, 2], prob[2, 0] = 0.5, 1.0
    data = density_bytes(OccupancyGrid(prob, 0.1, Pose2(1.0, 2.0, 0.0)))
    assert struct.unpack_from("<ffffHHI", data) == pytest.approx((0.1, 1.0, 2.0, 0.0, 4, 3, 2), rel=1e-6)
    assert np.frombuffer(data, "<u4", 2, 24).tolist() == [6, 8]
    assert list(data[32:]) == [50, 100]


def test_numbers_that_are_not_finite_become_null() -> None:
    assert json.loads(json_bytes({"a": [float("nan"), 1.0], "b": float("inf")})) == {"a": [None, 1.0], "b": None}
