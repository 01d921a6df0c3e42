"""One description of the graph: what runs for which arguments."""

import ast
import contextlib
import json
import socket
from pathlib import Path

import numpy as np
import pytest
import rclpy
import yaml
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.config.node_config import NODE_CONFIGS, SimNodeConfig, SlamNodeConfig
from svfm_ros.errors import SvfmError, UsageError
from svfm_ros.mapio import load_map
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.graph_description import (
    _SETS,
    NETWORK_VARIABLES,
    loopback_environment,
    make_plan,
)
from svfm_ros.nodes.runtime.interface import TOPICS
from svfm_ros.nodes.runtime.launch_arguments import ARGUMENTS, parse_pairs
from svfm_ros.nodes.runtime.parameters import parameter_names
from svfm_ros.nodes.runtime.rviz_view import fitted_config

ROOT = Path(__file__).resolve().parents[2]


def names(plan):
    return [node.name for node in plan.nodes]


def parameters(plan, name):
    return next(node.parameters for node in plan.nodes if node.name == name)


def test_source_of_scans():
    core = ["slam_node", "trainer_node", "forecast_node", "web_node"]
    assert names(make_plan({})) == ["sim_node", *core]
    assert names(make_plan({"bag": "/"})) == ["player", *core]
    assert names(make_plan({"live": "true"})) == core


def test_the_live_page():
    plan = make_plan({"web": "8765"})
    assert parameters(plan, "web_node") == {"use_sim_time": True, "host": "127.0.0.1", "port": 8765}
    assert plan.notes[0] == "live page: http://127.0.0.1:8765/"
    assert "SVFM_WEB_TOKEN" not in plan.environment
    assert "web_node" not in names(make_plan({"web": "false"}))
    taken = socket.create_server(("127.0.0.1", parameters(make_plan({}), "web_node")["port"]))
    with taken:
        assert parameters(make_plan({}), "web_node")["port"] != taken.getsockname()[1]
    open_to_all = make_plan({"web": "8765", "web_host": "0.0.0.0"})
    token = open_to_all.environment["SVFM_WEB_TOKEN"]
    assert open_to_all.notes[0] == f"live page: http://0.0.0.0:8765/?token={token}"
    assert len(token) > 20
    with pytest.raises(UsageError, match="web: expected"):
        make_plan({"web": "maybe"})


def test_arguments_become_parameters():
    plan = make_plan({"bag": "/", "rate": "2", "store": "/s", "device": "cpu", "what_if_hour": "23"})
    player = parameters(plan, "player")
    assert (player["bag"], player["rate"], player["wait_for"]) == ("/", 2.0, ["scan"])
    assert "loop" not in player  # not given: the parameters file keeps its say
    assert parameters(plan, "slam_node")["store"] == parameters(plan, "trainer_node")["store"] == "/s"
    assert parameters(plan, "forecast_node")["what_if_hour"] == 23.0
    assert parameters(plan, "forecast_node")["device"] == "cpu"


def test_one_time_zone_for_the_model_the_page_and_the_printed_hours():
    plan = make_plan({"time_zone": "Europe/London"})
    assert parameters(plan, "trainer_node")["windows.time_zone"] == "Europe/London"
    assert parameters(plan, "web_node")["time_zone"] == plan.time_zone == "Europe/London"
    assert "time_zone" not in parameters(make_plan({}), "web_node")


def test_paths_are_made_whole(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walks").mkdir()
    assert parameters(make_plan({"bag": "walks"}), "player")["bag"] == str(tmp_path / "walks")
    monkeypatch.setenv("HOME", "/home/mary")
    assert parameters(make_plan({"store": "~/walks"}), "slam_node")["store"] == "/home/mary/walks"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, True),
        ({"bag": "/"}, True),
        ({"live": "true"}, False),
        ({"live": "true", "use_sim_time": "true"}, True),
        ({"bag": "/", "use_sim_time": "false"}, False),
    ],
)
def test_simulated_time_where_time_is_simulated(texts, expected):
    plan = make_plan(texts)
    assert plan.use_sim_time is expected
    assert all(node.parameters["use_sim_time"] is expected for node in plan.nodes)


def test_wearables_have_frames_of_their_own_and_share_a_given_map(tmp_path):
    (tmp_path / "house.yaml").touch()
    alone = parameters(make_plan({}), "slam_node")
    assert not {"map_frame", "odom_frame"} & set(alone)
    plan = make_plan({"namespace": "alice"})
    assert plan.namespace == "/alice"
    assert parameters(plan, "slam_node")["map_frame"] == plan.fixed_frame == "alice/map"
    shared = make_plan({"namespace": "/alice/", "map": str(tmp_path / "house.yaml")})
    assert shared.namespace == "/alice"
    assert shared.fixed_frame == "map"
    assert parameters(shared, "slam_node")["base_frame"] == "alice/base_link"
    assert parameters(plan, "sim_node")["laser_frame"] == "alice/laser"
    own_clock = (("/clock", "/alice/clock"),)
    assert {node.remappings for node in plan.nodes} == {own_clock} == {plan.remappings}
    assert not make_plan({"namespace": "alice", "live": "true"}).remappings


def test_nodes_wait_for_a_lifecycle_manager_only_when_asked_to():
    assert "autostart" not in parameters(make_plan({}), "slam_node")
    assert {node.parameters["autostart"] for node in make_plan({"autostart": "false"}).nodes} == {False}


def test_stores_are_in_the_state_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for texts, name in (({}, "simulated"), ({"bag": "/"}, "replayed"), ({"live": "true"}, "walks")):
        plan = make_plan(texts)
        store = str(tmp_path / "svfm_ros" / name)
        assert parameters(plan, "slam_node")["store"] == parameters(plan, "trainer_node")["store"] == store
        assert parameters(plan, "forecast_node")["model_folder"] == store
        assert plan.notes[1] == f"walks, map and model are kept in {store}"
    assert not (tmp_path / "svfm_ros").exists()
    assert parameters(make_plan({"model": "/models/m.pt"}), "forecast_node")["model_folder"] == "/models"


def test_a_model_that_is_yet_to_be_made_is_read_by_nobody_and_said_to_be_new(tmp_path):
    new, made = tmp_path / "new.pt", tmp_path / "made.pt"
    made.write_bytes(b"PK")
    plan = make_plan({"model": str(new)})
    assert "model" not in parameters(plan, "forecast_node")
    assert parameters(plan, "trainer_node")["model"] == str(new)
    assert f"{new} does not exist yet: it is written when there are walks" in plan.notes
    assert parameters(make_plan({"model": str(made)}), "forecast_node")["model"] == str(made)


def test_messages_stay_on_this_machine_unless_asked_for(monkeypatch):
    for name in NETWORK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ROS_STATIC_PEERS", raising=False)
    plan = make_plan({})
    assert plan.environment == loopback_environment()
    assert plan.notes[-1] == "network: this machine only (network:=lan opens it)"
    opened = make_plan({"network": "lan"})
    assert opened.environment == {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
    assert "all machines in this network" in opened.notes[-1]
    monkeypatch.setenv("ROS_STATIC_PEERS", "192.168.1.7")
    peers = make_plan({})
    assert peers.environment == {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    assert peers.notes[-1] == "network: this machine and ROS_STATIC_PEERS=192.168.1.7 (network:=lan opens it)"
    monkeypatch.setenv("ROS_LOCALHOST_ONLY", "1")
    respected = make_plan({"network": "lan"})
    assert respected.environment == {}
    assert respected.notes[-1] == "network: as set in the environment (ROS_LOCALHOST_ONLY=1)"


def test_single_nodes_stay_on_this_machine_unless_the_environment_says_otherwise(monkeypatch):
    for name in NETWORK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ROS_STATIC_PEERS", raising=False)
    assert loopback_environment()["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert Path(loopback_environment()["FASTRTPS_DEFAULT_PROFILES_FILE"]).name == "loopback.xml"
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    assert loopback_environment() == {}


def test_scans_of_another_name():
    plan = make_plan({"bag": "/", "scan": "base_scan"})
    slam = next(node for node in plan.nodes if node.name == "slam_node")
    assert slam.remappings == (("scan", "base_scan"),)
    assert parameters(plan, "player")["wait_for"] == ["base_scan"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"bags": "b"}, "unknown argument 'bags'; expected some of bag, rate"),
        ({"rate": "fast"}, "rate: expected a number, got 'fast'"),
        ({"live": "maybe"}, "live: expected true or false, got 'maybe'"),
        ({"bag": "b", "live": "true"}, "either bag:= or live:=true, got both"),
        ({"loop": "true"}, "loop:= goes with bag:="),
        ({"bag": "b", "loop": "true", "end_with_bag": "true"}, "a bag that loops has no end"),
        ({"params_file": "/nowhere/p.yaml"}, "cannot read /nowhere/p.yaml: No such file"),
        ({"record": "/"}, "record: expected the name of a new bag"),
        ({"bag": "/nowhere/bag"}, "bag: expected a bag, but /nowhere/bag does not exist"),
        ({"store": "/etc/passwd"}, "store: expected a folder, got the file /etc/passwd"),
        ({"what_if_hour": "99"}, "what_if_hour: expected 0 to 24, got 99"),
        ({"namespace": "mary-ann"}, "namespace: expected a ROS name"),
        ({"network": "internet"}, "network: expected local or lan, got 'internet'"),
        ({"topics": "scan"}, "topics:= goes with bag:="),
        ({"time_zone": "Mars/Base"}, "time_zone: expected an IANA time zone such as Europe/London, got 'Mars/Base'"),
    ],
)
def test_contradictions_and_wrong_values_are_refused(texts, message):
    with pytest.raises(SvfmError) as error:
        make_plan(texts)
    assert message in str(error.value)


@given(st.dictionaries(st.sampled_from([a.name for a in ARGUMENTS]), st.text(max_size=8)))
def test_any_text_gives_a_plan_or_is_refused(texts):
    with contextlib.suppress(SvfmError):  # any other error is ours
        assert make_plan(texts).nodes


def test_pairs():
    assert parse_pairs(["bag:=a:=b", "rate:="]) == {"bag": "a:=b", "rate": ""}
    with pytest.raises(UsageError, match="NAME:=VALUE"):
        parse_pairs(["--bag"])


def test_arguments_set_parameters_that_exist():
    for argument, targets in _SETS.items():
        assert argument in {a.name for a in ARGUMENTS}
        for target in targets:
            node, _, parameter = target.partition(".")
            if node in NODE_CONFIGS:
                assert parameter in parameter_names(NODE_CONFIGS[node]), target


def test_the_shipped_parameters_file_names_only_what_exists():
    sheet = yaml.safe_load((ROOT / "config" / "svfm.yaml").read_text())
    for key, body in sheet.items():
        node = key.removeprefix("/**/")
        assert set(flat(body["ros__parameters"])) <= set(parameter_names(NODE_CONFIGS[node]))


def flat(tree, prefix=""):
    """Dotted names and values."""
    found = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def test_nodes_take_the_values_of_the_shipped_parameters_file():
    path = ROOT / "config" / "svfm.yaml"
    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        for key, body in yaml.safe_load(path.read_text()).items():
            name = key.removeprefix("/**/")
            for namespace in (None, "/alice"):
                arguments = ["--ros-args", "--params-file", str(path)]
                node = ConfiguredNode(
                    name, NODE_CONFIGS[name], context=context, cli_args=arguments, namespace=namespace
                )
                for parameter, value in flat(body["ros__parameters"]).items():
                    assert node.get_parameter(parameter).value == value
                node.close()
    finally:
        rclpy.shutdown(context=context)


def test_rviz_shows_what_the_graph_publishes():
    sheet = yaml.safe_load((ROOT / "config" / "forecast.rviz").read_text())
    topics = {d["Topic"]["Value"] for d in sheet["Visualization Manager"]["Displays"] if "Topic" in d}
    assert {"map", "scan", "pose", "track", "forecast/paths", "forecast/endpoints", "forecast/density"} <= topics
    assert not any(t.startswith("/") for t in topics)  # relative, for namespaces
    assert sheet["Visualization Manager"]["Views"]["Current"]["Class"].endswith("TopDownOrtho")


def docks_of(state):
    """Names of the dock widgets of a QMainWindow state, and whether each is open (Qt: QDockAreaLayoutInfo)."""
    found = {}
    at = state.find(b"\xfb")  # marks a dock widget: length of its name in bytes, UTF-16 name, flags
    while at >= 0:
        length = int.from_bytes(state[at + 1 : at + 5], "big")
        name = state[at + 5 : at + 5 + length].decode("utf-16-be")
        found[name] = bool(state[at + 5 + length] & 1)
        at = state.find(b"\xfb", at + 5 + length)
    return found


def test_rviz_opens_with_its_docks_closed_and_can_set_the_initial_pose():
    sheet = yaml.safe_load((ROOT / "config" / "forecast.rviz").read_text())
    panels = {panel["Name"] for panel in sheet["Panels"]}
    state = bytes.fromhex(sheet["Window Geometry"]["QMainWindow State"])
    assert docks_of(state) == dict.fromkeys(panels, False)
    tools = {tool["Class"]: tool for tool in sheet["Visualization Manager"]["Tools"]}
    assert tools["rviz_default_plugins/SetInitialPose"]["Topic"]["Value"] == "initialpose"


def test_the_view_of_rviz_is_fitted_to_a_given_map(monkeypatch, tmp_path):
    """The shipped house: it fills 95 % of what RViz's menu, tools, status and closed docks leave of the window."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    map_yaml = ROOT / "maps" / "house.yaml"
    sheet = yaml.safe_load(fitted_config(make_plan({"map": str(map_yaml)})).read_text())
    view, window = sheet["Visualization Manager"]["Views"]["Current"], sheet["Window Geometry"]
    grid = load_map(map_yaml)
    pixels = np.abs(grid.centres_of(np.isfinite(grid.prob)) - [view["X"], view["Y"]]).max(axis=0) * view["Scale"]
    filled = 2 * pixels / [window["Width"] - 32, window["Height"] - 92]  # measured on the window of RViz
    assert filled.max() == pytest.approx(0.95, abs=0.001)
    plain = make_plan({})
    assert fitted_config(plain) == plain.rviz_config


def test_the_foxglove_layout_shows_what_the_graph_publishes():
    layout = json.loads((ROOT / "config" / "forecast.foxglove.json").read_text())
    panels = layout["configById"]

    def leaves(tree):
        return {tree} if isinstance(tree, str) else leaves(tree["first"]) | leaves(tree["second"])

    assert leaves(layout["layout"]) == set(panels)
    assert {name.partition("!")[0] for name in panels} == {"3D", "Plot", "RawMessages", "DiagnosticSummary"}
    published = {"/" + topic.name.lstrip("/") for topic in TOPICS if topic.way == "out"}
    assert set(panels["3D!home"]["topics"]) <= published
    assert "/" + panels["3D!home"]["publish"]["poseEstimateTopic"].lstrip("/") in {
        "/" + topic.name for topic in TOPICS if topic.way == "in"
    }
    shown = panels["3D!home"]["transforms"]  # settings of single frames: the scene has no switch for all of them
    frames = [getattr(SlamNodeConfig(), name) for name in ("map_frame", "odom_frame", "base_frame")]
    assert shown == {f"frame:{name}": {"visible": False} for name in [*frames, SimNodeConfig().laser_frame]}
    for path in panels["Plot!entropy"]["paths"]:
        topic, _, part = path["value"].rpartition(".")
        assert (topic in published, part) == (True, "data")
    assert {panels["RawMessages!summary"]["topicPath"], panels["DiagnosticSummary!nodes"]["topicToRender"]} <= published


# Fields of Foxglove's panels and of the settings of a topic by its message type, as the layout API of its SDK
# documents them.
PANEL_FIELDS = {
    "3D": "cameraState followMode followTf scene transforms topics layers publish imageMode",
    "Plot": "paths showXAxisLabels showYAxisLabels showLegend legendDisplay showPlotValuesInLegend isSynced xAxisVal"
    " minYValue timeWindowMode playbackBarPosition followingViewWidth sidebarDimension",
    "RawMessages": "topicPath diffEnabled diffMethod diffTopicPath showFullMessageForDiff",
    "DiagnosticSummary": "minLevel pinnedIds hardwareIdFilter topicToRender sortByLevel",
}
TOPIC_FIELDS = {
    "OccupancyGrid": "colorMode alpha drawBehind frameLocked minColor maxColor unknownColor invalidColor",
    "MarkerArray": "color showOutlines selectedIdVariable namespaces",
    "PointCloud2": "pointSize pointShape decayTime colorMode flatColor colorField gradient colorMap",
    "LaserScan": "pointSize pointShape decayTime colorMode flatColor colorField gradient colorMap",
    "Path": "type axisScale arrowScale lineWidth gradient",
    "PoseWithCovarianceStamped": "type axisScale arrowScale color showCovariance covarianceColor",
}


def test_the_foxglove_layout_has_documented_fields_only():
    layout = json.loads((ROOT / "config" / "forecast.foxglove.json").read_text())
    assert set(layout) == {"configById", "globalVariables", "userNodes", "playbackConfig", "layout"}
    for name, panel in layout["configById"].items():
        assert set(panel) <= {"foxglovePanelTitle", *PANEL_FIELDS[name.partition("!")[0]].split()}
    home = layout["configById"]["3D!home"]
    camera = "perspective distance phi thetaOffset targetOffset target targetOrientation fovy near far"
    assert set(home["cameraState"]) == set(camera.split())
    kinds = {"/" + topic.name.lstrip("/"): topic.kind.rpartition("/")[2] for topic in TOPICS if topic.way == "out"}
    for name, settings in home["topics"].items():
        assert set(settings) <= {"visible", *TOPIC_FIELDS[kinds[name]].split()}, name
    assert home["topics"]["/forecast/density"]["colorMode"] in ("custom", "costmap", "map", "raw")


def test_the_launch_file_reads_the_description_and_nothing_else_imports_launch():
    source = (ROOT / "launch" / "forecast.launch.py").read_text()
    assert "svfm_ros.nodes.runtime.graph_description" in {
        n.module for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom)
    }
