"""Map files: what is written comes back, the right way up."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.errors import DataError
from svfm_ros.mapio import load_map, save_map
from svfm_ros.types import OccupancyGrid, Pose2


def asymmetric() -> OccupancyGrid:
    """No turn and no mirror image of this map is the map itself."""
    prob = np.full((3, 5), np.nan, dtype=np.float32)
    prob[0, 0] = 1.0  # occupied at the lowest y, smallest x
    prob[0, 1:] = 0.0
    prob[2, 4] = 1.0
    prob[1, 3] = 0.0
    return OccupancyGrid(prob, 0.05, Pose2(-1.25, 3.5, 0.25))


def test_an_asymmetric_map_survives_a_round_trip(tmp_path: Path) -> None:
    grid = asymmetric()
    save_map(grid, tmp_path / "deep" / "house.yaml")
    back = load_map(tmp_path / "deep" / "house.yaml")
    np.testing.assert_array_equal(back.prob, grid.prob)
    assert back.resolution_m == pytest.approx(0.05)
    np.testing.assert_allclose(back.T_map_grid.as_array(), [-1.25, 3.5, 0.25])


def test_the_picture_has_its_top_row_first(tmp_path: Path) -> None:
    save_map(asymmetric(), tmp_path / "house.yaml")
    data = (tmp_path / "house.pgm").read_bytes()
    assert data.startswith(b"P5\n5 3\n255\n")
    pixels = np.frombuffer(data[-15:], dtype=np.uint8).reshape(3, 5)
    assert pixels[2, 0] == 0, "what lies lowest is drawn at the bottom"
    assert pixels[0, 4] == 0
    assert pixels[0, 0] == 205


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_any_map_of_certain_cells_survives(tmp_path_factory, height: int, width: int, seed: int) -> None:
    prob = np.random.default_rng(seed).choice(np.float32([0.0, 1.0, np.nan]), (height, width))
    path = tmp_path_factory.mktemp("maps") / "a.yaml"
    save_map(OccupancyGrid(prob, 0.1), path)
    np.testing.assert_array_equal(load_map(path).prob, prob)


def test_probabilities_become_occupied_free_or_unknown(tmp_path: Path) -> None:
    prob = np.float32([[0.05, 0.24, 0.3, 0.5, 0.6, 0.66, 0.99]])
    save_map(OccupancyGrid(prob, 0.1), tmp_path / "a.yaml")
    np.testing.assert_array_equal(load_map(tmp_path / "a.yaml").prob[0], [0, 0, np.nan, np.nan, np.nan, 1, 1])


def test_comments_in_the_picture_and_negated_maps_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.pgm").write_bytes(b"P5\n# CREATOR: map_saver 0.05 m/pix\n2 1\n255\n" + bytes([0, 254]))
    sheet = "image: a.pgm\nresolution: 0.1\norigin: [0, 0, 0]\noccupied_thresh: 0.65\nfree_thresh: 0.196\n"
    (tmp_path / "a.yaml").write_text(sheet + "negate: 0\n")
    np.testing.assert_array_equal(load_map(tmp_path / "a.yaml").prob, [[1.0, 0.0]])
    (tmp_path / "a.yaml").write_text(sheet + "negate: 1\n")
    np.testing.assert_array_equal(load_map(tmp_path / "a.yaml").prob, [[0.0, 1.0]])


@pytest.mark.parametrize(
    ("sheet", "picture", "sentence"),
    [
        ("resolution: 0.1\norigin: [0, 0, 0]\n", b"", "image is missing"),
        ("just words", b"", "image is missing"),
        ("image: a.pgm\nresolution: 0\norigin: [0, 0, 0]\n", b"P5\n1 1\n255\n0", "expected resolution as a number"),
        ("image: a.pgm\nresolution: 0.1\norigin: [0, 0, 0]\n", b"P5\n1 1\n65535\n00", "got a picture of mode"),
        ("image: a.pgm\nresolution: 0.1\norigin: [0, 0, 0]\n", b"P5\n9 9\n255\n0", "truncated"),
        ("image: none.pgm\nresolution: 0.1\norigin: [0, 0, 0]\n", b"", "cannot read .*none.pgm"),
        ("a: [", b"", "is not a map of map_server in YAML"),
    ],
)
def test_what_is_no_map_is_refused(tmp_path: Path, sheet: str, picture: bytes, sentence: str) -> None:
    (tmp_path / "a.yaml").write_text(sheet)
    (tmp_path / "a.pgm").write_bytes(picture)
    with pytest.raises(DataError, match=sentence):
        load_map(tmp_path / "a.yaml")
