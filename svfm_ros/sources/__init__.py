"""Scans from files: ROS 2 and ROS 1 bags, CARMEN logs, MRPT rawlogs and arrays, all through ``open_scans``."""

from svfm_ros.sources.open_scans import open_scans
from svfm_ros.sources.scan_source import ScanSource

__all__ = ["ScanSource", "open_scans"]
