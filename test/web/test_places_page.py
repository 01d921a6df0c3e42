"""``svfm places``: click on the map in a real browser, name what is there, and find it in places.yaml."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, needs_browser
from floor_plans import LOWER_LEFT, UPPER_RIGHT, floor_plan

from svfm_ros.cli.main import main
from svfm_ros.mapio import save_map
from svfm_ros.types import OccupancyGrid, Place, Places, Pose2
from svfm_ros.walks.places import load_places, places_file, save_places


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """The map of a room of 6 by 4 metres whose lower left corner is at (1, -2), turned by 20 degrees."""
    prob = np.full((80, 120), 0.0, dtype=np.float32)
    prob[[0, -1]] = prob[:, [0, -1]] = 1.0
    save_map(OccupancyGrid(prob, 0.05, Pose2(1.0, -2.0, 0.35)), tmp_path / "house.yaml")
    return tmp_path / "house.yaml"


@pytest.fixture
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@needs_browser
def test_a_click_and_a_name_become_a_place(house: Path, browser: Browser) -> None:
    command = [sys.executable, "-m", "svfm_ros.cli.main", "places", str(house)]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None
        page = browser.open(serving.stdout.readline().split()[-1], 1000, 700)
        page.wait_for("map && bounds")
        box = page.eval("(() => { const b = byId('plan').getBoundingClientRect(); return [b.left, b.top]; })()")
        for (x, y), name in (((2.0, -1.0), "kitchen"), ((6.0, 1.0), "front door")):
            px, py = page.eval(f"[plan.X({x}, {y}) / plan.dots, plan.Y({x}, {y}) / plan.dots]")
            page.click(box[0] + px, box[1] + py)
            page.wait_for("document.activeElement.tagName === 'INPUT' && document.activeElement.value === ''")
            page.type(name)
        assert page.eval("byId('kept').textContent") == "Not saved yet"
        page.eval("byId('save').click()")
        page.wait_for("byId('line').textContent.includes('2 places saved')")
        assert page.eval("byId('kept').textContent") == "Saved"
        assert serving.stdout.readline() == f"{house.parent / 'places.yaml'}: 2 places saved\n"
        found = load_places(house.parent / "places.yaml")
        assert found.names == ("kitchen", "front door")
        assert np.allclose(found.centres, [[2.0, -1.0], [6.0, 1.0]], atol=0.05)
        page.eval("(() => { places[1].name = 'kitchen'; return save(); })()")
        assert "'kitchen' twice" in page.eval("byId('problem').textContent")
        page.eval("(() => { places[1].name = ''; return save(); })()")
        assert page.eval("byId('problem').textContent") == "place 2 has no name yet"
        assert load_places(house.parent / "places.yaml") == found
    finally:
        serving.terminate()
        serving.communicate()


@needs_browser
def test_a_place_is_called_by_its_room_until_a_name_is_typed(tmp_path: Path, browser: Browser) -> None:
    save_map(floor_plan(), tmp_path / "house.yaml")
    command = [sys.executable, "-m", "svfm_ros.cli.main", "places", str(tmp_path / "house.yaml")]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None
        page = browser.open(serving.stdout.readline().split()[-1], 1000, 700)
        page.wait_for("map && bounds")
        for n, (x, y) in enumerate((LOWER_LEFT, (0.3, 1.2), UPPER_RIGHT)):
            page.eval(f"add({x}, {y})")
            page.wait_for(f"document.activeElement.getAttribute('aria-label') === 'name of place {n + 1}'")
            page.wait_for("document.activeElement.value !== ''")
        page.type("bedroom")  # in place of the suggestion
        page.eval("byId('save').click()")
        page.wait_for("byId('line').textContent.includes('3 places saved')")
        names = ("bottom left room", "bottom left room (left)", "bedroom")
        assert load_places(tmp_path / "places.yaml").names == names
        assert page.eval("post('name', { x: 'left', y: 0, taken: [] }).then((answer) => answer.status)") == 400
    finally:
        serving.terminate()
        serving.communicate()


@needs_browser
def test_places_that_are_there_are_shown_and_can_be_moved_and_removed(house: Path, browser: Browser) -> None:
    beside = house.parent / "places.yaml"
    save_places(Places((Place("bed", 3.0, 0.0, 0.7, "#0072b2"), Place("sink", 5.0, 0.0, 0.5, "#d55e00"))), beside)
    serving = subprocess.Popen(
        [sys.executable, "-m", "svfm_ros.cli.main", "places", str(house)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert serving.stdout is not None
        page = browser.open(serving.stdout.readline().split()[-1], 390, 844, phone=True)
        page.wait_for("bounds && byId('places').children.length === 2")
        assert page.eval("document.documentElement.scrollWidth") <= 390
        page.eval("byId('places').children[1].querySelector('button').click()")
        page.eval("byId('save').click()")
        page.wait_for("byId('line').textContent.includes('1 place saved')")
        assert load_places(beside) == Places((Place("bed", 3.0, 0.0, 0.7, "#0072b2"),))
    finally:
        serving.terminate()
        serving.communicate()


def test_a_map_that_is_not_there_gets_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["places", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_places_beside_a_map_are_used_unless_others_are_given(house: Path) -> None:
    assert places_file(None, house) is None
    save_places(Places(), house.parent / "places.yaml")
    assert places_file(None, house) == house.parent / "places.yaml"
    assert places_file(Path("other.yaml"), house) == Path("other.yaml")
