"""The graph in one process: it replays, records, starts again what broke and ends as told."""

import signal

import pytest
from bagmaker import START_NS, STRING, scans, text_bytes, write_bag
from roslive import PATIENCE_S
from sensor_msgs.msg import LaserScan

from svfm_ros.sources.raw_bag import open_raw_bag

pytestmark = pytest.mark.ros

# The source of the scans alone, and nodes of the test's own beside it.
RUN = """
import sys, types
from dataclasses import dataclass, replace
from svfm_ros.config.options import option
from svfm_ros.errors import DataError
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.single_process import run_graph
from svfm_ros.nodes.runtime.graph_description import NodePlan, make_plan
from svfm_ros.nodes.runtime.launch_arguments import parse_pairs

@dataclass(frozen=True)
class Config:
    word: str = option("", "any")

class Fragile(ConfiguredNode):
    made = 0
    def __init__(self, **options):
        super().__init__("fragile", Config, **options)
        Fragile.made += 1
        print("made", Fragile.made, self.config.word, flush=True)
        if Fragile.made < 3:
            self.create_timer(0.01, lambda: 1 / 0)

def refuse(**options):
    raise DataError("expected a model, got a boot")

for name, make in (("fragile", Fragile), ("picky", refuse)):
    module = types.ModuleType(f"svfm_ros.nodes.{name}")
    module.make = make
    sys.modules[module.__name__] = module
names, *pairs = sys.argv[1:]
plan = make_plan(parse_pairs(pairs))
player = plan.nodes[0]
player.parameters["wait_for_node"] = "bag_recorder" if plan.record else ""
others = tuple(NodePlan(n, {"word": "hello"} if n == "fragile" else {}) for n in names.split(",") if n)
sys.exit(run_graph(replace(plan, nodes=(player, *others))))
"""


def test_a_bag_is_replayed_recorded_and_ends_the_run(start, tmp_path):
    messages = [("/map", STRING, START_NS - 1, text_bytes("the map")), *scans(20)]
    bag = write_bag(tmp_path / "bag", messages, latched={"/map"})
    record = f"record:={tmp_path / 'out'}"
    process = start(
        "-c", RUN, "", f"bag:={bag}", "rate:=10", "end_with_bag:=true", "topics:=all", "namespace:=alice", record
    )
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    recording = open_raw_bag(tmp_path / "out", pytest.fail)
    topics = {t.name: t for t in recording.topics}
    assert topics["/alice/map"].latched
    assert not topics["/alice/scan"].latched
    assert "/alice/clock" in topics  # each wearable has its own
    assert [m.data for m in recording.read({"/alice/map"}, pytest.fail)] == [messages[0][3]]
    assert [m.data for m in recording.read({"/alice/scan"}, pytest.fail)] == [m[3] for m in messages[1:]]


def test_a_node_that_finds_its_input_not_usable_ends_the_run_with_code_2(start, tmp_path):
    bag = write_bag(tmp_path / "bag", scans(3))
    process = start("-c", RUN, "picky", f"bag:={bag}", "loop:=true", "rviz:=false")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "picky: expected a model, got a boot\n" in err


def test_what_breaks_is_made_again(start, listener, tmp_path):
    bag = write_bag(tmp_path / "bag", scans(3))
    got = listener.collect(LaserScan, "scan")
    process = start("-c", RUN, "fragile", f"bag:={bag}", "loop:=true", "rviz:=false")
    assert [process.stdout.readline() for _ in range(3)] == [f"made {n} hello\n" for n in (1, 2, 3)]
    got.wait(4)  # meanwhile the player plays
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert out == ""
    assert err.count("ZeroDivisionError") == 2


def test_svfm_run_explains_its_arguments_and_refuses_wrong_ones(start):
    out, _ = start("-m", "svfm_ros.cli.main", "run", "--help").communicate(timeout=PATIENCE_S)
    assert "NAME:=VALUE" in out
    assert "a map for localisation" in out
    wrong = start("-m", "svfm_ros.cli.main", "run", "rate:=fast")
    _, err = wrong.communicate(timeout=PATIENCE_S)
    assert (wrong.returncode, err) == (2, "svfm run: rate: expected a number, got 'fast'\n")
