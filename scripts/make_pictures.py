#!/usr/bin/env python3
"""Draw every picture of the documentation again, each by the command that its page names.

`make pictures` runs it. The pictures of the report and of the live page need a browser: without chromium they stay as
they are.

    python scripts/make_pictures.py [NAME ...]     some of pictures, experiments, tour, report, live
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_DAYS, _STAY_S, _HOUR = 42, 4500, 23
_AT_ONCE = (
    "<style>* { transition: none !important }</style>"  # the colours of the night are there before the picture is taken
)
_PAPER = (246, 247, 249)  # background of the report page
_LARGEST = (1200, 1200)  # pixels of any other picture
_SCREEN, _SHARE, _CUT = (1260, 3790), 0.6, 0.4935  # pixels of the page, size of the picture, height of its first part
_WINDOW, _WINDOW_SHARE = (1400, 900), 0.72  # the same of the live page
_ON_THE_WAY = (
    "now.news?.caption.startsWith('Next morning') && now.soFar?.length > 24 && now.forecast?.known && now.paths"
)
_DEMO_S = 1200.0


def main(names: Sequence[str]) -> int:
    """Draw the pictures of these names, or all."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        draw = {
            "pictures": lambda: svfm("pictures", "--out", PICTURES),
            "experiments": lambda: draw_experiments(out),
            "tour": lambda: draw_tour(out),
            "report": lambda: draw_report(out),
            "live": lambda: draw_live(out),
        }
        for name in names or draw:
            if name in ("report", "live") and BROWSER is None:
                print(f"no chromium here: {name}.png stays as it is", file=sys.stderr)
            else:
                draw[name]()
    return 0


def svfm(*words: object) -> None:
    """Run a command."""
    subprocess.run([sys.executable, "-m", "svfm_ros.cli.main", *map(str, words)], check=True)


def keep(picture: Path, name: str) -> None:
    """Save a picture in the size that a page needs."""
    with Image.open(picture) as drawn:
        drawn.thumbnail(_LARGEST)
        drawn.convert("RGB").save(PICTURES / name, optimize=True)


def draw_experiments(out: Path) -> None:
    """Three kinds of uncertainty, and maps of single walks."""
    svfm("reproduce", "uncertainty", "slam", "--out", out)
    keep(out / "uncertainty.png", "uncertainty.png")
    keep(out / "slam.png", "slam_walks.png")


def draw_tour(out: Path) -> None:
    """A map of many walks in one recording."""
    svfm("simulate", "--out", out / "tour", "--one-bag", "--repeats", 2)
    svfm("slam", out / "tour" / "recording", "--out", out / "map")
    keep(out / "map" / "map.png", "slam_tour.png")


def draw_report(out: Path) -> None:
    """The upper and the lower half of the report page, side by side."""
    walks, model, page = out / "walks.csv", out / "model.pt", out / "report.html"
    house, places = out / "house.yaml", out / "places.yaml"
    habits = ("--days", _DAYS, "--profile", "routine", "--dwell", _STAY_S)
    svfm("simulate", *habits, "--walks-csv", walks, "--export-map", house, "--export-places", places)
    svfm("train", walks, "--out", model, "--places", places, "--time-zone", "Europe/London")
    svfm("report", "--store", walks, "--model", model, "--map", house, "--places", places, "--out", page)
    page.write_text(page.read_text().replace("</head>", _AT_ONCE + "</head>"))
    whole = photograph(page, out)
    cut = round(_CUT * whole.height)
    parts = [whole.crop((0, 0, whole.width, cut)), whole.crop((0, cut, whole.width, whole.height))]
    side_by_side(parts).save(PICTURES / "report.png", optimize=True)


def photograph(page: Path, out: Path) -> Image.Image:
    """The page in a browser, at night."""
    picture = out / "page.png"
    size = ",".join(map(str, _SCREEN))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={out / 'browser'}"]
    subprocess.run(
        [str(BROWSER), *flags, f"--window-size={size}", f"--screenshot={picture}", f"{page.as_uri()}#hour={_HOUR}"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    with Image.open(picture) as seen:
        size = (round(_SHARE * seen.width), round(_SHARE * seen.height))
        return seen.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def draw_live(out: Path) -> None:
    """The live page while the demo's wearer walks to the kitchen."""
    sys.path.insert(0, str(ROOT / "test" / "helpers"))
    from browser import Browser

    command = [sys.executable, "-m", "svfm_ros.cli.main", "demo", "--out", str(out / "demo")]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    address = demo.stdout.readline().split()[-1]
    browser = Browser()
    try:
        page = browser.open("about:blank", *_WINDOW)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        while page.eval("document.body.dataset.connected") is None:  # until the page is served
            page.call("Page.navigate", url=address)
            time.sleep(1.0)
        page.wait_for(_ON_THE_WAY, _DEMO_S)
        page.screenshot(out / "live.png")
        with Image.open(out / "live.png") as seen:
            size = (round(_WINDOW_SHARE * seen.width), round(_WINDOW_SHARE * seen.height))
            seen.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(PICTURES / "live.png", optimize=True)
    finally:
        browser.close()
        demo.communicate()


def side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    """One picture of several, from left to right."""
    joined = Image.new("RGB", (sum(p.width for p in pictures), max(p.height for p in pictures)), _PAPER)
    x = 0
    for picture in pictures:
        joined.paste(picture, (x, 0))
        x += picture.width
    return joined


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
