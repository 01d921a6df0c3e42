#!/usr/bin/env python3
"""Draw every picture of the documentation again, each by the command that its page names.

`make pictures` runs it. The pictures of the report and of the live page need a browser: without chromium they stay as
they are.

    python scripts/make_pictures.py [NAME ...]     some of badges, pictures, experiments, tour, report, live
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
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
_LETTER, _PAD, _HIGH = 7, 8, 20  # pixels of a badge: width of a letter, beside the words, height
_BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" role="img" aria-label="{name}: {value}">
<rect width="{wide}" height="{high}" rx="3" fill="#555555"/>
<path d="M{split} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{split}z" fill="{colour}"/>
<g fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{name_x}" y="14">{name}</text>
<text x="{value_x}" y="14">{value}</text>
</g>
</svg>
"""


def main(names: Sequence[str]) -> int:
    """Draw the pictures of these names, or all."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        draw = {
            "badges": write_badges,
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


def write_badges() -> None:
    """The badges of the README."""
    for file, text in badges().items():
        (PICTURES / file).write_text(text)


def badges() -> dict[str, str]:
    """The badges (SVG) by file name, from what the package itself says of ROS, Python and its licence."""
    package = ET.parse(ROOT / "package.xml").getroot()
    ros = re.findall(r"ros-(\w+)-rclpy", (ROOT / "setup.py").read_text())[0]
    versions = re.search(r"not in \((.*)\)\)'", (ROOT / "scripts" / "setup.sh").read_text())
    assert versions is not None
    python = re.findall(r"\((\d+), (\d+)\)", versions[1])
    return {
        "ros.svg": badge("ROS 2", ros.capitalize(), "#22314e"),
        "python.svg": badge("Python", " | ".join(map(".".join, python)), "#306998"),
        "licence.svg": badge("licence", str(package.findtext("license")), "#2e8b57"),
    }


def badge(name: str, value: str, colour: str) -> str:
    """A name and its value side by side, as an SVG."""
    split, right = (2 * _PAD + _LETTER * len(words) for words in (name, value))
    places = {"name_x": split / 2, "value_x": split + right / 2, "split": split, "rest": right - 3}
    return _BADGE.format(name=name, value=value, colour=colour, wide=split + right, high=_HIGH, **places)


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
