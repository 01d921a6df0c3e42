"""The chain in real processes: a recording is replayed, placed on a map and forecast; nobody waits for anybody."""

import json
import re

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Path
from roslive import PATIENCE_S
from simbag import recorded
from std_msgs.msg import String
from tinymodel import save_tiny, tiny_file
from visualization_msgs.msg import Marker, MarkerArray

pytestmark = pytest.mark.ros

ROOM = ("-p", "inbox:=1000")  # no pause of a busy machine is to cost a scan


def has_a_model(message):
    return any(v.key == "model" and v.value != "none" for s in message.status for v in s.values)


def numbers_in(log):
    """Numbers with a point in the lines of nodes, but for stamps, names of walks, and durations in seconds."""
    lines = [line for line in log.splitlines() if line.startswith("[")]
    return re.findall(r"\d+\.\d+", re.sub(r"\[[\d.]+\]|T\d{6}\.\d+Z|\d+\.\d+ s\b", "", "\n".join(lines)))


def test_a_recording_becomes_forecasts_on_the_map(start, listener, latched, tmp_path):
    recorder, recording = recorded()
    recorder.write(recording, tmp_path / "bag")
    model = save_tiny(tmp_path / "model.pt")  # of walks that begin where the map does
    paths = listener.collect(MarkerArray, "forecast/paths", latched)
    summaries = listener.collect(String, "forecast/summary", latched)
    said = listener.collect(DiagnosticArray, "/diagnostics")
    walks = listener.collect(Path, "walk", latched)
    sim_time = ["-p", "use_sim_time:=true"]
    nodes = [
        start("-m", "svfm_ros.nodes.forecast_node", "--ros-args", *sim_time, "-p", f"model:={model}"),
        start("-m", "svfm_ros.nodes.slam_node", "--ros-args", *sim_time, "-p", "recorder.dwell_time_s:=3.0", *ROOM),
    ]
    said.wait_for(has_a_model)  # in a fresh clone it is compiled for
    start("-m", "svfm_ros.nodes.player", tmp_path / "bag", "--rate", 3, "--topics", "scan", "--wait-for", "scan")

    drawn = paths.wait_for(lambda m: any(s.type == Marker.LINE_LIST for s in m.markers))
    assert {s.header.frame_id for s in drawn.markers if s.action == Marker.ADD} == {"map"}
    walks.wait(1)
    known = json.loads(summaries.wait_for(lambda m: json.loads(m.data)["known"]).data)
    assert known["model_id"] == tiny_file().model_id
    # A forecast bears the stamp of the scan it came from.
    stamps = {scan.stamp_ns for scan in recorder.scans(recording)}
    assert {json.loads(s.data)["stamp_ns"] for s in summaries} <= stamps
    for node in nodes:
        node.terminate()
        _, err = node.communicate(timeout=PATIENCE_S)
        assert node.returncode == 0, err
        assert "Traceback" not in err
        assert numbers_in(err) == []  # logs hold no positions: docs/privacy.md
