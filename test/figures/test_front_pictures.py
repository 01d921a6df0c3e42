"""The pictures of the front door: drawn from a model, each from the part of a walk that lies behind."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from svfm_ros.cli.main import main
from svfm_ros.errors import UsageError
from svfm_ros.figures import animation, front_pictures
from svfm_ros.figures.front_pictures import HomeModel


@pytest.fixture(scope="module")
def home() -> HomeModel:
    return front_pictures.learn_front(quick=True)


def test_every_moment_sees_only_what_lies_behind(home: HomeModel) -> None:
    walk = animation.unseen_walk(home)
    moments = animation.film_moments(home, walk, frame_s=1.5)
    assert len(moments[0].walked) == 1
    assert len(moments[-1].walked) == len(walk.xy)
    for moment in moments:
        count = len(moment.walked)
        assert np.array_equal(moment.walked, walk.xy[:count])
        assert count == len(walk.xy) or walk.times_s[count] > moment.elapsed_s
        assert np.allclose(moment.forecast.samples_xy[:, 0], walk.xy[count - 1])
    assert moments[-1].forecast.shares["study"] > moments[0].forecast.shares["study"] + 0.2  # where the walk leads


def test_the_film_holds_every_moment(home: HomeModel, tmp_path: Path) -> None:
    moments = animation.film_moments(home, animation.unseen_walk(home), frame_s=3.0)
    for name in ("walk.webp", "walk.gif"):
        size = animation.write_film(home, moments, tmp_path / name)
        with Image.open(tmp_path / name) as film:
            assert getattr(film, "n_frames", 1) >= len(moments)
        assert 0 < size < 3_000_000
    with pytest.raises(UsageError, match="webp"):
        animation.write_film(home, moments, tmp_path / "walk.mp4")


@pytest.mark.parametrize("draw", [front_pictures.draw_front, front_pictures.draw_fields, front_pictures.draw_hours])
def test_pictures_can_be_drawn(home: HomeModel, draw, tmp_path: Path) -> None:
    figure = draw(home)
    figure.savefig(tmp_path / "picture.png", dpi=40)
    assert np.asarray(Image.open(tmp_path / "picture.png").convert("RGB")).std() > 5.0


def test_the_percentages_are_those_of_the_forecast(home: HomeModel) -> None:
    day, night = front_pictures.draw_front(home).axes
    for axis, hour in ((day, front_pictures.DAY_HOUR), (night, front_pictures.NIGHT_HOUR)):
        shares = home.ask(hour).shares
        texts = {t.get_text() for t in axis.texts}
        for name in ("kitchen", "landing", "study"):
            assert f"{name} {100 * shares[name]:.0f} %" in texts


def test_a_picture_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["pictures", "fence", "--out", str(tmp_path)]) == 2
    assert "front, fields, hours, walk" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
