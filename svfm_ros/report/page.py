"""The page as one HTML file that needs nothing else: template, style sheet, scripts and content.

Names of people and places are data: the scripts write them as text, never as markup.
"""

import html
import json
from dataclasses import asdict
from importlib.resources import files

from svfm_ros.report.content import ReportContent

__all__ = ["render"]


def render(content: ReportContent) -> str:
    """HTML with style, scripts, map and numbers inside."""
    data = json.dumps(asdict(content), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "/*style*/": _part("page.css"),
        "/*map*/": _part("map_drawing.js"),
        "/*plan*/": _part("plan.js"),
        "/*charts*/": _part("charts.js"),
        "/*script*/": _part("page.js"),
        '"data"': data,
        "<!--title-->": html.escape(content.title),  # last: a name may look like one of the marks above
    }
    page = _part("page.html")
    for mark, text in parts.items():
        page = page.replace(mark, text, 1)
    return page


def _part(name: str) -> str:
    return files("svfm_ros.report").joinpath(name).read_text(encoding="utf-8")
