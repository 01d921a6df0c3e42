"""The page of all homes, in a real browser: rows, order, search, pages, links, and names that look like markup."""

import base64
import json
import re
import shutil
import subprocess
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow here: pip install '.[fleet]'")

from svfm_ros.fleet.fleet_page import render_fleet
from svfm_ros.fleet.fleet_table import FleetTable
from svfm_ros.fleet.home_figures import HomeFigures
from svfm_ros.fleet.homes import Home

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NAME = "</script><b>mary & joe"
HOMES = 250

_LOOK = """
<script>
function seen() {
  const rows = [...document.querySelectorAll("#rows tr")];
  return { cells: rows.map((r) => [...r.cells].map((c) => c.textContent)), where: byId("where").textContent,
    links: rows.map((r) => r.querySelector("a")?.getAttribute("href") ?? null), failed: rows.map((r) => r.className) };
}
function press(element) { element.click(); return seen(); }
function type(text) { byId("search").value = text; byId("search").dispatchEvent(new Event("input")); return seen(); }
const by = (column) => document.querySelector(`[data-column="${column}"]`);
const all = { summary: byId("summary").textContent, first: seen(), next: press(byId("next")), walks: press(by("walks")),
  most: press(by("walks")), score: press(by("held_out_nll")), found: type("MARY"),
  pair: type("pair"), person: type("jim"), none: type("nobody"),
  warned: (type(""), press(byId("only"))), markup: document.querySelectorAll("b").length,
  overflow: document.documentElement.scrollWidth - innerWidth };
const found = document.createElement("pre");
found.id = "found";
found.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(all))));
document.body.appendChild(found);
</script>
"""


def figures(n: int, resident: str = "unknown", report: str = "report.html") -> HomeFigures:
    warnings = ("only 7 walks",) if n == 7 else ()
    wandering = (None, None, None) if n == 3 else (1.0 + n / 1000, 0.9, 1.2)
    scores = (5, -4.0 + n / 100, 0.1, None, 0.52, 0.91) if n != 5 else (0, None, None, None, None, None)
    days = (3, "2026-11-02", "2026-11-05")
    return HomeFigures(resident, n, *days, 4, *scores, *wandering, warnings, "abc", report)


@pytest.fixture(scope="module")
def page() -> str:
    table = FleetTable()
    for n in reversed(range(HOMES)):
        table.add(Home(f"home{n}", ""), figures(n))
    table.add(Home(NAME, ""), figures(400))
    table.add(Home("pair", ""), figures(500, "jim", "report-jim.html"))
    table.add(Home("pair", ""), figures(501, "a/b", "report-a%2Fb.html"))
    table.add_failed(Home("zoe", ""), "line 2: expected a number")
    return render_fleet(table.table())


@pytest.fixture(scope="module")
def seen(page: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What chromium shows, step by step."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.html").write_text(page.replace("</body>", _LOOK + "</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--window-size=1300,900"]
    command = [str(BROWSER), *flags, f"--user-data-dir={folder}/me", "--dump-dom", (folder / "page.html").as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True).stdout
    found = re.search(r'<pre id="found">([\w+/=]+)</pre>', dumped)
    assert found is not None, "the page's script did not come to its end"
    return dict(json.loads(base64.b64decode(found[1])))


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")


def test_it_needs_nothing_else(page: str) -> None:
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert NAME not in page


@needs_browser
def test_homes_are_rows_in_order(seen: dict[str, Any]) -> None:
    assert seen["summary"] == f"{HOMES + 2} homes, {sum(range(HOMES)) + 1401} walks; 1 could not be used"
    first = seen["first"]
    assert first["where"] == f"{HOMES + 4} rows, page 1 of 3"
    names = [row[0] for row in first["cells"]]
    assert len(names) == 100
    assert names.index("home9") < names.index("home10")  # numbers in names count as numbers
    row = first["cells"][names.index("home2")]
    assert row == ["home2", "", "2", "3", "-3.98", "52 %", "91 %", "1.00 (0.90 to 1.20)", ""]
    assert first["cells"][names.index("home3")][7] == "–"
    assert first["cells"][names.index("home5")][4:7] == ["–", "–", "–"]
    assert first["cells"][names.index("home7")][8] == "only 7 walks"
    assert first["links"][names.index("home2")] == "homes/home2/report.html"
    assert seen["next"]["where"].endswith("page 2 of 3")


@needs_browser
def test_rows_are_sorted_by_what_is_clicked(seen: dict[str, Any]) -> None:
    assert [row[2] for row in seen["walks"]["cells"][:3]] == ["0", "1", "2"]
    assert [row[2] for row in seen["most"]["cells"][:4]] == ["501", "500", "400", "249"]
    assert seen["score"]["cells"][0][0] == "home0"


@needs_browser
def test_residents_of_one_home_have_a_row_and_a_report_each(seen: dict[str, Any]) -> None:
    assert [row[:2] for row in seen["pair"]["cells"]] == [["pair", "jim"], ["pair", "a/b"]]  # the better score first
    assert seen["pair"]["links"] == ["homes/pair/report-jim.html", "homes/pair/report-a%252Fb.html"]
    assert [row[:2] for row in seen["person"]["cells"]] == [["pair", "jim"]]


@needs_browser
def test_names_are_text_and_failures_are_shown(seen: dict[str, Any]) -> None:
    assert seen["markup"] == 0
    assert [row[0] for row in seen["found"]["cells"]] == [NAME]
    assert seen["found"]["links"] == ["homes/%3C/script%3E%3Cb%3Emary%20%26%20joe/report.html"]
    assert seen["none"]["cells"] == []
    assert [row[0] for row in seen["warned"]["cells"]] == ["home7", "zoe"]
    assert seen["warned"]["cells"][1][8] == "failed: line 2: expected a number"
    assert seen["warned"]["links"][1] is None
    assert seen["warned"]["failed"] == ["", "failed"]
    assert seen["overflow"] <= 0
