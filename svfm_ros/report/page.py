"""The page itself: template, style, script and content become one file that needs nothing else.

Names of people and places come from outside, so they go in as data and the script writes them as text.
"""

import json
from dataclasses import asdict
from importlib.resources import files

from svfm_ros.report.content import Content

__all__ = ["render"]


def render(content: Content) -> str:
    """HTML with everything inside."""
    data = json.dumps(asdict(content), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    page = _part("page.html")
    for mark, text in (("/*style*/", _part("page.css")), ("/*script*/", _part("page.js")), ('"data"', data)):
        page = page.replace(mark, text, 1)
    return page


def _part(name: str) -> str:
    return files("svfm_ros.report").joinpath(name).read_text(encoding="utf-8")
