"""Pictures of forecasts hold all of their titles and labels, with a map and without one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from svfm_ros.figures.animation import Moment, write_forecast_film
from svfm_ros.figures.forecast_figure import _summary, draw_forecasts, forecast_figure
from svfm_ros.types import Forecast, OccupancyGrid, Place, Places, Pose2

PLACES = Places((Place("kitchen", 4.0, 2.0, 0.5, "#1f6fd0"), Place("study", 0.0, 3.0, 0.5, "#d03030")))


def straight_to(place: Place, known: bool = True) -> Forecast:
    """Twenty paths from the origin to a place."""
    paths = np.linspace(0.0, 1.0, 30)[None, :, None] * place.xy + np.zeros((20, 1, 2))
    shares = {p.name: float(p == place) for p in PLACES} | {"elsewhere": 0.0}
    ends = np.full(20, PLACES.places.index(place))
    return Forecast(0, "map", np.arange(30.0), paths, ends, shares, 0.0, 9, "m", known, ends)


def picture(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


@pytest.mark.parametrize("with_map", [True, False])
@pytest.mark.parametrize("panels", [1, 2])
def test_nothing_is_cropped(tmp_path: Path, with_map: bool, panels: int) -> None:
    grid = OccupancyGrid(np.zeros((40, 140), np.float32), 0.1, Pose2(-2.0, -1.0, 0.3)) if with_map else None
    found = [straight_to(PLACES.places[0]), straight_to(PLACES.places[1])][:panels]
    draw_forecasts(tmp_path / "a.png", grid, found, PLACES, ["2026-11-16 14:00", "what if 02:00"][:panels])
    drawn = picture(tmp_path / "a.png")
    rim = np.concatenate([drawn[:4].reshape(-1, 3), drawn[-4:].reshape(-1, 3), drawn[:, :4].reshape(-1, 3)])
    assert (rim == 255).all(), "letters or axes reach the edge of the picture"
    assert drawn.shape[1] > 500 * panels


def test_paths_have_the_colour_of_the_place_they_end_at(tmp_path: Path) -> None:
    def amount(name: str) -> int:
        """Pixels that are clearly blue, and not the lighter blue of the place itself."""
        red, green, blue = np.moveaxis(picture(tmp_path / name), -1, 0)
        return int(((blue - red > 120) & (blue - green > 50)).sum())

    draw_forecasts(tmp_path / "kitchen.png", None, [straight_to(PLACES.places[0])], PLACES, [""])
    draw_forecasts(tmp_path / "study.png", None, [straight_to(PLACES.places[1])], PLACES, [""])
    assert amount("kitchen.png") > 10 * amount("study.png") + 200


def test_no_path_is_drawn_where_nothing_is_known(tmp_path: Path) -> None:
    draw_forecasts(tmp_path / "a.png", None, [straight_to(PLACES.places[0], known=False)], PLACES, [""])
    red, green, blue = np.moveaxis(picture(tmp_path / "a.png"), -1, 0)
    assert ((blue - red > 120) & (blue - green > 50)).sum() == 0


def test_the_title_says_the_most_likely_place() -> None:
    assert _summary(straight_to(PLACES.places[1])) == "most likely study (100 %), from 9 walks"
    open_choice = replace(straight_to(PLACES.places[1]), shares={"kitchen": 0.3, "study": 0.45, "elsewhere": 0.25})
    assert _summary(open_choice) == "undecided: study (45 %) or kitchen (30 %), from 9 walks"
    assert "unknown" in _summary(straight_to(PLACES.places[1], known=False))


def test_the_house_of_a_film_stands_upright(tmp_path: Path) -> None:
    """A square room of 4 m, turned by 0.4 rad in its map: with that turn a wall fills a column of the picture."""
    prob = np.zeros((40, 40), np.float32)
    prob[[0, -1]] = prob[:, [0, -1]] = 1.0
    grid = OccupancyGrid(prob, 0.1, Pose2(1.0, -2.0, 0.4))
    moment = Moment(0.0, np.zeros((1, 2)), straight_to(PLACES.places[0]))

    def longest_wall(turn: float) -> float:
        write_forecast_film(tmp_path / "a.webp", grid, [moment], PLACES, "", 0.3, turn)
        dark = picture(tmp_path / "a.webp").max(axis=-1) < 100
        return float(dark.sum(axis=0).max() / len(dark))

    assert longest_wall(0.4) > 0.7 > 0.3 > longest_wall(0.0)


def test_places_are_drawn_whole_where_no_map_is_known() -> None:
    wide = Places((PLACES.places[0], replace(PLACES.places[1], radius_m=3.0)))
    (axes,) = forecast_figure(None, [straight_to(wide.places[0])], wide, [""]).axes
    for place in wide:
        assert axes.get_xlim()[0] < place.x - place.radius_m < place.x + place.radius_m < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < place.y - place.radius_m < place.y + place.radius_m < axes.get_ylim()[1]
