"""The pages as single HTML files: template, style sheets and scripts, with the drawing of the report page."""

from importlib.resources import files

__all__ = ["live_page", "places_page"]


def live_page() -> str:
    """The live page."""
    return _assembled("live")


def places_page() -> str:
    """The page that names places."""
    return _assembled("places")


def _assembled(name: str) -> str:
    shared, own = files("svfm_ros.report"), files("svfm_ros.web")
    parts = {
        "/*shared style*/": shared.joinpath("page.css"),
        "/*style*/": own.joinpath("live.css"),
        "/*map*/": shared.joinpath("map_drawing.js"),
        "/*plan*/": shared.joinpath("plan.js"),
        "/*charts*/": shared.joinpath("charts.js"),
        "/*script*/": own.joinpath(f"{name}.js"),
    }
    page = own.joinpath(f"{name}.html").read_text(encoding="utf-8")
    for mark, file in parts.items():
        page = page.replace(mark, file.read_text(encoding="utf-8"), 1)
    return page
