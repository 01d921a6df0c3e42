"""One page about one person's walks that opens in any browser, offline: content is gathered, then rendered."""

from svfm_ros.report.content import ReportContent, gather
from svfm_ros.report.page import render

__all__ = ["ReportContent", "gather", "render"]
