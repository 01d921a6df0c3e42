"""The report page: what it says is what the forecaster says, it needs nothing else, and its slider works."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svfm_ros.cli.main import main
from svfm_ros.config.sim_config import HabitConfig
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.report import gather, render
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import simulate_habit
from svfm_ros.types import Places
from svfm_ros.walks.places import save_places
from svfm_ros.walks.walk_csv import read_walks_csv, write_walks_csv

MAP = Path(__file__).resolve().parents[2] / "maps" / "house.yaml"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WALKS = 40
NAME = "</script><b>Mary"  # people have all kinds of names


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about walks over day and night, from a model that saw few steps."""
    folder = tmp_path_factory.mktemp("report")
    house = load_house()
    walks = [w.walk for w in simulate_habit(house, seed=2, count=WALKS, habits=HabitConfig())]
    write_walks_csv(walks, folder / "plain.csv")
    lines = [line.split(",")[:4] for line in (folder / "plain.csv").read_text().splitlines()]
    store = str(folder / "store")
    (folder / "walks.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    save_places(house.places, folder / "places.yaml")
    assert main(["store", store, "--import", str(folder / "walks.csv"), "--resident", NAME]) == 0
    model, places = str(folder / "model.pt"), str(folder / "places.yaml")
    trained = main(
        ["train", store, "--out", model, "--steps", "10", "--places", places, "--time-zone", "Europe/London"]
    )
    assert trained == 0
    page = str(folder / "report.html")
    assert main(["report", "--store", store, "--model", model, "--map", str(MAP), "--out", page]) == 0
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def content(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_it_needs_nothing_else(page: str) -> None:
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:|#|m\.picture)[\w/.]""", page)
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv", "", page)


def test_a_name_is_text_and_no_markup(page: str, content: dict[str, Any]) -> None:
    assert NAME not in page
    assert content["resident"] == NAME


def test_it_says_what_the_forecaster_says(folder: Path, content: dict[str, Any]) -> None:
    from svfm_ros.mapio import load_map

    house = load_house()
    forecaster = Forecaster(folder / "model.pt", house.places, walls=load_map(MAP))
    names = [p["name"] for p in content["places"]]
    assert names[: len(house.places)] == list(house.places.names)
    start = content["starts"][0]
    couch = content["places"][start["place"]]
    assert couch["name"] == start["name"] == "couch"  # all of these walks begin there
    assert (start["x"], start["y"]) == (couch["x"], couch["y"])
    assert start["walks"] == content["walks"] == WALKS
    for hour in (2, 14):
        asked = start["hours"][hour]
        found = forecaster.forecast(
            (couch["x"], couch["y"]), 0, what_if_hour=float(hour), horizon_s=30.0, samples=600, seed=hour
        )
        for name, share in zip(names, asked["shares"], strict=False):
            assert share == pytest.approx(found.shares.get(name, 0.0), abs=1e-4)
        paths = np.frombuffer(base64.b64decode(asked["paths"]), dtype="<i2").reshape(-1, content["points"], 2) / 100
        assert len(paths) == len(asked["ends"])
        assert np.allclose(paths[:, 0], (couch["x"], couch["y"]), atol=0.006)
        assert np.allclose(paths[:, -1], found.samples_xy[: len(paths), -1], atol=0.02)


def test_walks_may_begin_where_no_place_is(folder: Path) -> None:
    """Places that are found are found by ends, and nobody ends their walks on this couch."""
    house, walks = load_house(), read_walks_csv(folder / "walks.csv")
    ends = Places(tuple(p for p in house.places if p.name != "couch"))
    found = gather(Forecaster(folder / "model.pt", ends), walks[:6], walks[:1])
    assert [(s.name, s.place, s.walks) for s in found.starts] == [("start 1", -1, 6)]
    couch = house.place("couch")
    assert np.hypot(found.starts[0].x - couch.x, found.starts[0].y - couch.y) < 0.6
    assert found.map is None
    assert found.calibration is None  # one walk tells nothing
    assert "start 1" in render(found)


def test_wandering_and_calibration_are_there(content: dict[str, Any]) -> None:
    assert sum(f["walks"] for f in content["hours"]) == sum(f["walks"] for f in content["days"]) == WALKS
    assert all(0.0 <= f["mean"] <= content["most"] + 0.2 for f in content["days"])
    held = content["calibration"]["held"]
    assert held == sorted(held)
    assert 2 <= content["calibration"]["walks"] < WALKS / 2


def test_the_map_is_a_picture_in_its_place(content: dict[str, Any]) -> None:
    drawn, (x0, y0, x1, y1) = content["map"], content["bounds"]
    assert base64.b64decode(drawn["picture"].split(",")[1]).startswith(b"\x89PNG")
    assert x1 - x0 <= drawn["width"] + 3.0
    assert y1 - y0 <= drawn["height"] + 3.0
    for walk in content["drawn"]:
        xy = np.array(walk["xy"]).reshape(-1, 2) / 100
        assert (xy >= (x0, y0)).all()
        assert (xy <= (x1, y1)).all()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--store", "nowhere", "--model", "{model}"), "nothing at nowhere"),
        (("--store", "{store}", "--model", "{store}"), "cannot read"),
        (("--store", "{store}", "--model", "{model}", "--out", "{store}"), "folder"),
    ],
)
def test_bad_input_gets_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    names = {"store": folder / "store", "model": folder / "model.pt"}
    assert main(["report", *(a.format(**names) for a in arguments)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert complaint in said


# In the browser: the page as it is, with a hand on its slider

_HAND = """
<script>
function seen() {
  const texts = [...document.querySelectorAll("#bars .bar")].map((b) => b.querySelector("b").textContent);
  const paths = [...document.querySelectorAll("#paths polyline")].map((p) => p.getAttribute("points"));
  const night = document.getElementById("plan-card").classList.contains("night");
  return { texts, paths, night, clock: document.getElementById("clock").textContent,
    entropy: document.getElementById("entropy").textContent, title: document.getElementById("title").textContent };
}
function move(hour) {
  const slider = document.getElementById("hour");
  slider.value = hour;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  return seen();
}
const found = document.createElement("pre");
found.id = "found";
const all = JSON.stringify({ first: seen(), night: move(2), day: move(14) });
found.textContent = btoa(unescape(encodeURIComponent(all)));
document.body.appendChild(found);
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
def test_the_slider_moves_the_forecast(page: str, content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page.replace("</body>", _HAND + "</body>"))
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=5000",
        f"--user-data-dir={tmp_path}/me",
    ]
    command = [str(BROWSER), *flags, "--dump-dom", (tmp_path / "page.html").as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="found">([\w+/=]+)</pre>', dumped)
    assert found is not None, "the page's script did not come to its end"
    seen = json.loads(base64.b64decode(found[1]))
    assert seen["first"] == seen["day"]  # it opens in the afternoon
    assert seen["day"]["title"] == f"Walks of {NAME}"
    assert seen["day"]["paths"] != seen["night"]["paths"]
    for hour, there in ((2, seen["night"]), (14, seen["day"])):
        asked = content["starts"][0]["hours"][hour]
        assert there["clock"] == f"{hour:02d}:00"
        assert there["night"] is (hour == 2)
        assert there["texts"] == [f"{int(100 * share + 0.5)} %" for share in asked["shares"]]
        assert there["entropy"] == f"{asked['entropy']:.2f}"
        assert len(there["paths"]) == len(asked["ends"])
