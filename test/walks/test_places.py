"""Places are found where walks end, and keep name and colour from run to run."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.config.walk_config import PlacesConfig
from svfm_ros.errors import DataError
from svfm_ros.types import Place, Places, Walk
from svfm_ros.walks.places import colour_of, find_places, find_places_of_walks, load_places, save_places

SPOTS = np.array([[2.3, 1.5], [5.5, 0.8], [4.1, 6.1], [8.2, 3.7], [7.5, 1.6]])


def visits(count: int, seed: int = 0, spread_m: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Walk ends at the spots, in turn with a little chance, and the times of them."""
    rng = np.random.default_rng(seed)
    which = rng.integers(0, len(SPOTS), count)
    return SPOTS[which] + spread_m * rng.standard_normal((count, 2)), np.arange(count) * 10**12


@pytest.mark.parametrize("count", [60, 300, 3000])
def test_every_spot_becomes_one_place(count: int) -> None:
    ends, stamps = visits(count)
    places = find_places(ends, stamps)
    assert len(places) == len(SPOTS)
    distance = np.linalg.norm(places.centres[:, None] - SPOTS[None], axis=-1)
    assert distance.min(axis=0).max() < 0.15
    assert np.mean(places.assign(ends) >= 0) > 0.95


def test_stray_ends_make_no_place() -> None:
    rng = np.random.default_rng(1)
    ends, _ = visits(400)
    stray = rng.uniform(-20, 30, (20, 2))
    both = np.concatenate([ends, stray])
    assert len(find_places(both, np.arange(len(both)))) == len(SPOTS)
    assert len(find_places(stray, np.arange(20))) == 0
    assert len(find_places(np.empty((0, 2)), [])) == 0


def test_places_are_numbered_in_the_order_they_came_to_be() -> None:
    """Without any memory, more walks add places at the end and leave the others their names and colours."""
    first, later = np.repeat(SPOTS[:2], 5, axis=0), np.repeat(SPOTS[2:], 50, axis=0)
    before = find_places(first, np.arange(10))
    after = find_places(np.concatenate([first, later]), np.arange(160))
    assert after.names == ("place 1", "place 2", "place 3", "place 4", "place 5")
    np.testing.assert_allclose(before.centres, SPOTS[:2])
    np.testing.assert_allclose(after.centres, SPOTS)
    assert after.places[:2] == before.places


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 1000), st.integers(20, 200), st.integers(0, 200))
def test_known_places_keep_name_colour_and_spot_when_walks_are_added(seed: int, first: int, more: int) -> None:
    ends, stamps = visits(first + more, seed)
    before = find_places(ends[:first], stamps[:first])
    after = find_places(ends, stamps, known=before)
    assert len(after) <= len(SPOTS)
    for old, new in zip(before, after, strict=False):
        assert (new.name, new.colour) == (old.name, old.colour)
        assert np.hypot(new.x - old.x, new.y - old.y) < 0.6
    assert len(set(after.names)) == len(after)
    assert len({p.colour for p in after}) == len(after)


@settings(deadline=None, max_examples=5)
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_walks_does_not_matter(random: object) -> None:
    ends, stamps = visits(100)
    order = list(range(100))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert find_places(ends[order], stamps[order]) == find_places(ends, stamps)


def test_places_that_people_named_stay_where_they_are() -> None:
    ends, stamps = visits(200)
    kitchen = Place("kitchen", 4.3, 6.0, 0.9, "#123456")
    places = find_places(ends, stamps, known=Places((kitchen,)))
    assert places.places[0] == kitchen
    assert places.names[1:] == ("place 1", "place 2", "place 3", "place 4")
    assert np.linalg.norm(places.centres[1:] - SPOTS[2], axis=1).min() > 1.0


def test_new_places_take_neither_a_number_nor_a_colour_that_is_in_use() -> None:
    ends, stamps = visits(200)
    known = Places((Place("place 7", -9.0, -9.0, 0.5, colour_of(0)),))
    places = find_places(ends, stamps, known)
    assert places.places[0] == known.places[0]
    assert places.names[1] == "place 8"
    assert colour_of(0) not in [p.colour for p in places.places[1:]]


def test_a_known_place_takes_ends_within_its_radius_and_half_the_reach() -> None:
    known = Places((Place("couch", 0.0, 0.0, 0.5, colour_of(0)),))
    ends, stamps = np.tile([[1.4, 0.0]], (5, 1)), np.arange(5)
    assert len(find_places(ends, stamps, known, PlacesConfig(reach_m=2.0))) == 1  # up to 0.5 + 1.0 m
    assert len(find_places(ends, stamps, known, PlacesConfig(reach_m=0.5))) == 2  # up to 0.5 + 0.25 m


def test_min_share_and_min_visits_are_minded() -> None:
    ends = np.concatenate([np.repeat(SPOTS[:1], 97, axis=0), np.repeat(SPOTS[1:2], 3, axis=0)])
    stamps = np.arange(100)
    for visits_, share, count in ((3, 0.0, 2), (4, 0.0, 1), (3, 0.05, 1)):
        assert len(find_places(ends, stamps, config=PlacesConfig(min_visits=visits_, min_share=share))) == count


def test_places_of_walks_are_where_they_end() -> None:
    walks = [
        Walk(f"{n}", "anna", np.array([n, n + 1]) * 10**9, np.array([[9.0, 9.0, 0.0], [*SPOTS[n % 2], 0.0]]))
        for n in range(20)
    ]
    np.testing.assert_allclose(find_places_of_walks(walks).centres, SPOTS[:2])
    assert len(find_places_of_walks([])) == 0


def test_positions_are_assigned_to_the_nearest_place_that_holds_them() -> None:
    places = Places((Place("a", 0, 0, 2.0, "#000000"), Place("b", 2, 0, 1.0, "#ffffff")))
    xy = [[0, 0], [0.9, 0], [1.1, 0], [2.9, 0], [3.1, 0], [-1.9, 0], [np.nan, 0]]
    np.testing.assert_array_equal(places.assign(xy), [0, 0, 1, 1, -1, 0, -1])
    assert places.assign(np.zeros((3, 4, 2))).shape == (3, 4)
    np.testing.assert_array_equal(Places().assign(xy), [-1] * 7)
    assert places.places[1].rgb == (1.0, 1.0, 1.0)


def test_colours_are_all_different() -> None:
    colours = [colour_of(n) for n in range(40)]
    assert len(set(colours)) == 40
    assert all(len(c) == 7 and c[0] == "#" for c in colours)


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    places = Places((Place("Küche", 1.25, -2.0, 0.5, "#a0b0c0"), Place("place 1", 0.0, 0.0, 0.6, "#0072b2")))
    save_places(places, tmp_path / "places.yaml")
    assert load_places(tmp_path / "places.yaml") == places


def test_the_house_of_the_demo_is_read() -> None:
    places = load_places(Path(__file__).resolve().parents[2] / "config" / "places.yaml")
    assert "kitchen" in places.names
    assert places.assign(places.centres).tolist() == list(range(len(places)))


BAD = {
    "not a list": ("places: 3", "expected a list called places"),
    "nothing": ("", "expected a list called places"),
    "not YAML": ("places: [", "is not a list of places in YAML"),
    "missing": ("places: [{name: a, x: 1, radius: 1}]", r"places\[0\]: .*y is missing"),
    "unknown": ("places: [{name: a, x: 1, y: 1, radius: 1, color: red}]", "got 'color'"),
    "text": ("places: [{name: a, x: left, y: 1, radius: 1}]", "x: expected a number of metres, got 'left'"),
    "nan": ("places: [{name: a, x: .nan, y: 1, radius: 1}]", "x: expected a number"),
    "radius": ("places: [{name: a, x: 0, y: 1, radius: 0}]", "radius: expected more than 0"),
    "colour": ("places: [{name: a, x: 0, y: 1, radius: 1, colour: red}]", "expected .#rrggbb. in quotes, got 'red'"),
    "twice": ("places: [{name: a, x: 0, y: 1, radius: 1}, {name: a, x: 0, y: 1, radius: 1}]", "'a' twice"),
    "no name": ("places: [{name: 3, x: 0, y: 1, radius: 1}]", "name: expected text"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    text, sentence = BAD[name]
    path = tmp_path / "places.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence) as caught:
        load_places(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_and_ends_that_are_not_numbers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        load_places(tmp_path / "none.yaml")
    with pytest.raises(DataError, match="finite walk ends"):
        find_places([[np.nan, 0.0]], [1])


def test_reach_widens_every_place_and_the_nearest_still_wins() -> None:
    near, far = Place("near", 0.0, 0.0, 0.5, "#000000"), Place("far", 3.0, 0.0, 0.5, "#ffffff")
    spots = [[0.0, 0.8], [1.4, 0.0], [2.2, 0.0]]
    np.testing.assert_array_equal(Places((near, far)).assign(spots), [-1, -1, -1])
    np.testing.assert_array_equal(Places((near, far)).assign(spots, reach_m=0.4), [0, -1, 1])
    np.testing.assert_array_equal(Places((near, far)).assign(spots, reach_m=2.0), [0, 0, 1])
