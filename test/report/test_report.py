"""The report page: what it says is what the forecaster says, it needs nothing else, and its slider works."""

import base64
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svfm_ros.cli.main import main
from svfm_ros.clock import hours_of_day
from svfm_ros.config.sim_config import HabitConfig
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.mapio import load_map
from svfm_ros.report import gather, render
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import simulate_habit
from svfm_ros.types import Places
from svfm_ros.walks.places import save_places
from svfm_ros.walks.walk_csv import read_walks_csv, write_walks_csv

MAP = Path(__file__).resolve().parents[2] / "maps" / "house.yaml"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WALKS = 40
ZONE = "Europe/London"
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
    trained = main(["train", store, "--out", model, "--places", places, "--time-zone", ZONE])
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
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:|#|report\.plan\.map)[\w/.]""", page)
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv", "", page)


def test_a_name_is_text_and_no_markup(page: str, content: dict[str, Any]) -> None:
    assert NAME not in page
    assert content["title"] == f"Walking report: {NAME}"
    assert "<title>Walking report: &lt;/script&gt;&lt;b&gt;Mary</title>" in page


def test_it_says_what_the_forecaster_says(folder: Path, content: dict[str, Any]) -> None:
    house = load_house()
    forecaster = Forecaster(folder / "model.pt", house.places, walls=load_map(MAP))
    names = [p["name"] for p in content["plan"]["places"]]
    assert names[: len(house.places)] == list(house.places.names)
    start = content["starts"][0]
    couch = content["plan"]["places"][start["place"]]
    assert couch["name"] == start["name"] == "couch"  # all of these walks begin there
    assert (start["x"], start["y"]) == (couch["x"], couch["y"])
    assert start["walks"] == len(content["plan"]["walks"]) == WALKS
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
    found = gather(Forecaster(folder / "model.pt", ends), walks[:3])
    assert [(s.name, s.place, s.walks) for s in found.starts] == [("start 1", -1, 3)]
    couch = house.place("couch")
    assert np.hypot(found.starts[0].x - couch.x, found.starts[0].y - couch.y) < 0.6
    assert found.plan.map is None
    assert found.calibration is None  # three walks are too few
    assert "start 1" in render(found)
    on_map = gather(Forecaster(folder / "model.pt", ends), walks[:3], load_map(MAP))
    assert [s.name for s in on_map.starts] == ["bottom left room"]  # which the plan shows


def test_periods_and_calibration_are_there(content: dict[str, Any]) -> None:
    shown = content["over_time"]
    assert sum(p["walks"] for p in shown["periods"]) == WALKS
    assert sum(shown["hours"]) == pytest.approx(WALKS / sum(p["days"] for p in shown["periods"]), abs=0.01)
    assert content["summary"][0].startswith(f"{WALKS} walks on ")
    held = content["calibration"]["held"]
    assert held == sorted(held)
    assert 2 <= content["calibration"]["walks"] < WALKS / 2


def test_the_calibration_is_that_of_the_command_evaluate(
    content: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ("--places", str(folder / "places.yaml"))
    assert main(["evaluate", "--model", str(folder / "model.pt"), *places, "--json", str(folder / "store")]) == 0
    found, held = json.loads(capsys.readouterr().out), content["calibration"]
    at = dict(zip(held["regions"], held["held"], strict=True))
    assert (held["walks"], at[0.5], at[0.9]) == (
        found["walks"],
        pytest.approx(found["coverage_50"], abs=1e-4),
        pytest.approx(found["coverage_90"], abs=1e-4),
    )


def test_hours_without_walks_are_known_as_such(content: dict[str, Any], folder: Path) -> None:
    begun = hours_of_day([w.stamps_ns[0] for w in read_walks_csv(folder / "walks.csv")], ZONE).tolist()
    for hour, asked in enumerate(content["starts"][0]["hours"]):
        apart = [abs((h - hour - 0.5 + 12) % 24 - 12) for h in begun]
        assert asked["walks"] == sum(a <= 1.5 for a in apart)


def test_a_year_of_walks_is_a_small_page(folder: Path) -> None:
    walks = read_walks_csv(folder / "walks.csv")
    year = [
        replace(walks[i % WALKS], walk_id=str(i), stamps_ns=walks[i % WALKS].stamps_ns + i * 86_400_000_000_000 // 5)
        for i in range(5 * 365)
    ]
    found = gather(Forecaster(folder / "model.pt", load_house().places), year, load_map(MAP))
    assert len(render(found)) < 3_000_000
    assert found.over_time.unit == "week"
    assert len(found.over_time.periods) <= 60


def test_the_map_is_a_picture_in_its_place(content: dict[str, Any]) -> None:
    drawn, (x0, y0, x1, y1) = content["plan"]["map"], content["plan"]["bounds"]
    assert base64.b64decode(drawn["picture"].split(",")[1]).startswith(b"\x89PNG")
    assert x1 - x0 <= drawn["width"] + 3.0
    assert y1 - y0 <= drawn["height"] + 3.0
    for walk in content["plan"]["walks"]:
        xy = np.array(walk["xy"]).reshape(-1, 2) / 100
        assert (xy >= (x0, y0)).all()
        assert (xy <= (x1, y1)).all()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--store", "nowhere", "--model", "{model}"), "nothing at nowhere"),
        (("--store", "{store}", "--model", "{store}"), "expected a file, got a folder"),
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


# In the browser: the page as it is, moved by its slider

_LOOK = """
<script>
function seen() {
  const texts = [...document.querySelectorAll("#bars .bar")].map((b) => b.querySelector("b").textContent);
  const paths = document.getElementById("plan").toDataURL();
  const night = document.getElementById("plan-card").classList.contains("night");
  return { texts, paths, night, clock: document.getElementById("clock").textContent,
    entropy: document.getElementById("entropy").textContent, title: document.getElementById("title").textContent,
    rests: document.getElementById("rests").textContent };
}
function move(hour) {
  const slider = document.getElementById("hour");
  slider.value = hour;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  return seen();
}
function apartBy(chart) {
  const labels = [...chart.querySelectorAll('text[text-anchor="end"]')];
  const tops = labels.map((t) => t.getBoundingClientRect().top).sort((a, b) => a - b);
  return tops.slice(1).map((top, i) => top - tops[i]);
}
function sizes() {
  const shown = [...document.querySelectorAll(".card:not([hidden]) .chart")];
  const charts = shown.map((c) => c.getBoundingClientRect().height);
  return { charts, overflow: document.documentElement.scrollWidth - innerWidth, width: innerWidth,
    apart: shown.flatMap((chart) => apartBy(chart)),
    letters: parseFloat(getComputedStyle(document.querySelector(".chart text")).fontSize),
    columns: [...document.querySelectorAll("#by-hour rect:not(.cursor)")].map((r) => r.textContent.slice(0, 2)) };
}
const found = document.createElement("pre");
found.id = "found";
const all = JSON.stringify({ first: seen(), night: move(2), day: move(14), sizes: sizes() });
found.textContent = btoa(unescape(encodeURIComponent(all)));
document.body.appendChild(found);
</script>
"""


def look(page: str, folder: Path, width: int) -> dict[str, Any]:
    """What a real browser shows in a window of that width."""
    (folder / "page.html").write_text(page.replace("</body>", _LOOK + "</body>"))
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=5000",
        f"--user-data-dir={folder}/me",
    ]
    command = [str(BROWSER), *flags, f"--window-size={width},900", "--dump-dom", (folder / "page.html").as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r'<pre id="found">([\w+/=]+)</pre>', dumped)
    assert found is not None, "the page's script did not come to its end"
    return dict(json.loads(base64.b64decode(found[1])))


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")


@needs_browser
def test_the_slider_moves_the_forecast(page: str, content: dict[str, Any], tmp_path: Path) -> None:
    seen = look(page, tmp_path, 1240)
    assert seen["first"] == seen["day"]  # it opens in the afternoon
    assert seen["day"]["title"] == f"Walking report: {NAME}"
    assert seen["day"]["paths"] != seen["night"]["paths"]
    for hour, there in ((2, seen["night"]), (14, seen["day"])):
        asked = content["starts"][0]["hours"][hour]
        assert there["clock"] == f"{hour:02d}:00"
        assert there["night"] is (hour == 2)
        assert there["texts"] == [f"{int(100 * share + 0.5)} %" for share in asked["shares"]]
        assert f"{np.exp(asked['entropy']):.1f} equally likely places" in there["entropy"]
        assert f"{asked['entropy']:.2f} nats" in there["entropy"]
        assert len(there["paths"]) > 5000  # a picture with something on it
        assert ("No recorded walk" in there["rests"]) is (asked["walks"] == 0)


@needs_browser
@pytest.mark.parametrize("width", [500, 1240])
def test_charts_can_be_read_on_a_phone_and_on_a_desk(
    page: str, content: dict[str, Any], tmp_path: Path, width: int
) -> None:
    sizes = look(page, tmp_path, width)["sizes"]
    assert sizes["overflow"] <= 0, "the page is wider than the screen"
    assert min(sizes["charts"]) >= 150
    assert sizes["letters"] >= 12
    assert min(sizes["apart"]) >= 11, "labels of a vertical axis cover each other"
    shown = {hour for hour, asked in enumerate(content["starts"][0]["hours"]) if asked["walks"]}
    assert {int(column) for column in sizes["columns"]} == shown, "hours without walks are left open"


@needs_browser
def test_it_prints_on_two_pages(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/me", "--no-pdf-header-footer"]
    address = (tmp_path / "page.html").as_uri()
    command = [str(BROWSER), *flags, f"--print-to-pdf={tmp_path}/page.pdf", address]
    subprocess.run(command, capture_output=True, check=True)
    pages = re.findall(rb"/Type\s*/Page\b", (tmp_path / "page.pdf").read_bytes())
    assert len(pages) == 2
    assert re.search(rb"/MediaBox \[0 0 59[45]", (tmp_path / "page.pdf").read_bytes()), "A4 is 595 points wide"
