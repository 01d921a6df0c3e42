"""One page about one person's walks that opens in any browser, offline: gathered, then poured into a template."""

from svfm_ros.report.content import Content, gather
from svfm_ros.report.page import render

__all__ = ["Content", "gather", "render"]
