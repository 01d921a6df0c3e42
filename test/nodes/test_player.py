"""The player in a process of its own, heard over DDS."""

import itertools
import re
from types import SimpleNamespace

import pytest
from bagmaker import LASER_SCAN, START_NS, STRING, scans, text_bytes, write_bag
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from roslive import PATIENCE_S
from sensor_msgs.msg import LaserScan
from std_msgs.msg import String
from std_srvs.srv import SetBool

from svfm_ros.errors import SvfmError
from svfm_ros.nodes.messages.convert import stamp_ns
from svfm_ros.nodes.player import Player, parameters_of

pytestmark = pytest.mark.ros

SCANS = scans(20)
MAP = ("/map", STRING, START_NS - 5_000_000_000, text_bytes("the map"))


def player(start, bag, *arguments):
    return start("-m", "svfm_ros.nodes.player", bag, *arguments)


def end(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out + err


def test_messages_arrive_byte_for_byte_in_order_with_the_clock(start, listener, tmp_path):
    bag = write_bag(tmp_path / "bag", SCANS)
    got = listener.collect(LaserScan, "scan", raw=True)
    clock = listener.collect(Clock, "/clock")
    process = player(start, bag, "--rate", 10, "--wait-for", "scan", "/clock")
    got.wait(20)
    code, text = end(process)
    assert code == 0
    assert "replayed 20 messages on 1 topics" in text
    assert got == [data for _, _, _, data in SCANS]
    ticks = [stamp_ns(c.clock) for c in clock]
    assert ticks == sorted(ticks)
    assert ticks[0] >= START_NS
    assert ticks[-1] <= SCANS[-1][2]


def test_a_player_that_waits_for_its_subscriber_says_that_it_has_not_begun(start, listener, tmp_path):
    bag = write_bag(tmp_path / "bag", scans(400))
    said = listener.collect(DiagnosticArray, "/diagnostics")
    waits = ("--wait-for", "scan", "--rate", 10, "--ros-args", "-p", "wait_s:=1000.0")
    process = player(start, bag, *waits)
    figures = [{v.key: v.value for v in m.status[0].values} for m in said.wait(3)]
    assert {float(f["position_s"]) for f in figures} == {0.0}
    assert {m.status[0].message for m in said} == {"has not begun yet"}
    listener.collect(LaserScan, "scan")
    said.wait_for(lambda m: float(m.status[0].values[0].value) > 0.0)
    end(process)


def test_a_player_that_is_killed_goes_on_where_it_was(start, listener, tmp_path):
    many = scans(400)
    bag, position = write_bag(tmp_path / "bag", many), tmp_path / "player.position"
    got = listener.collect(LaserScan, "scan")
    kept = ("--wait-for", "scan", "--rate", 10, "--ros-args", "-p", f"position:={position}")
    first = player(start, bag, *kept)
    got.wait(100)
    first.kill()
    first.wait()
    before = len(got)
    code, text = end(player(start, bag, *kept))
    assert code == 0, text
    assert "into the bag" in text
    stamps = [stamp_ns(m.header.stamp) for m in got.wait_for(lambda m: stamp_ns(m.header.stamp) == many[-1][2]) and got]
    again = stamps[before] - stamps[0]
    assert again >= stamps[90] - stamps[0]  # at most what was sent since the position was kept is sent twice
    assert set(stamps) == {t for _, _, t, _ in many}
    assert not position.exists()


def test_only_the_topics_asked_for_from_where_asked(start, listener, latched, tmp_path):
    bag = write_bag(tmp_path / "bag", sorted([*SCANS, *scans(20, topic="/other")], key=lambda m: m[2]))
    got = listener.collect(LaserScan, "scan")
    other = listener.collect(LaserScan, "other")
    process = player(start, bag, "--rate", 20, "--topics", "scan", "--start", 1.0, "--wait-for", "scan")
    assert end(process)[0] == 0
    got.wait(10)
    assert [stamp_ns(m.header.stamp) for m in got] == [t for _, _, t, _ in SCANS[10:]]
    assert not other


def test_late_subscribers_get_what_was_latched_even_from_before_the_start(start, listener, latched, tmp_path):
    bag = write_bag(tmp_path / "bag", [MAP, *SCANS], latched={"/map"})
    scan = listener.collect(LaserScan, "scan")
    player(start, bag, "--topics", "all", "--start", 5.5, "--loop")
    scan.wait(1)
    late = listener.collect(String, "map", latched)
    assert late.wait(1)[0].data == "the map"


def test_loop_begins_again_and_the_clock_jumps_back(start, listener, tmp_path):
    bag = write_bag(tmp_path / "bag", scans(3))
    got = listener.collect(LaserScan, "scan")
    clock = listener.collect(Clock, "/clock")
    process = player(start, bag, "--rate", 10, "--loop", "--wait-for", "scan")
    got.wait(8)
    clock.wait_until(jumps_back)
    process.terminate()
    assert end(process)[0] == 0
    first = [stamp_ns(m.header.stamp) for m in got[:6]]
    assert first == 2 * [t for _, _, t, _ in scans(3)]


def jumps_back(clock):
    return any(stamp_ns(b.clock) < stamp_ns(a.clock) for a, b in itertools.pairwise(clock))


def test_namespace_and_remapping(start, listener, tmp_path):
    bag = write_bag(tmp_path / "bag", SCANS)
    got = listener.collect(LaserScan, "/alice/front")
    clock = listener.collect(Clock, "/clock")
    player(start, bag, "--loop", "--ros-args", "-r", "__ns:=/alice", "-r", "scan:=front")
    got.wait(1)
    clock.wait(1)


def test_pause_rate_and_refusals_at_run_time(start, listener, tmp_path):
    bag = write_bag(tmp_path / "bag", scans(1000))
    got = listener.collect(LaserScan, "scan")
    player(start, bag, "--wait-for", "scan")
    got.wait(1)
    assert listener.call(SetBool, "/player/pause", SetBool.Request(data=True)).message == "paused"

    def put(name, value):
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        return listener.call(SetParameters, "/player/set_parameters", request).results[0]

    assert put("rate", 100).successful
    assert "out of range" in put("rate", -1.0).reason
    assert "read-only" in put("bag", "elsewhere").reason
    before = len(got)
    assert listener.call(SetBool, "/player/pause", SetBool.Request(data=False)).success
    got.wait(before + 100)  # 10 s of recording


def test_bad_input_is_one_line_and_exit_code_2(start, tmp_path):
    code, text = end(player(start, tmp_path / "nope"))
    assert code == 2
    assert text == f"player: expected a bag, but {tmp_path / 'nope'} does not exist\n"


@pytest.mark.parametrize("case", ["not a bag", "wrong topic", "no bag", "past the end", "bad rate"])
def test_bad_input_is_refused_in_one_sentence(listener, tmp_path, case):
    bag = str(write_bag(tmp_path / "bag", SCANS))
    (tmp_path / "diary.mcap").write_text("today I walked")
    arguments, expected = {
        "not a bag": ([str(tmp_path / "diary.mcap")], "is not a bag"),
        "wrong topic": ([bag, "--topics", "skan"], "has no topic to replay; it has /scan"),
        "no bag": ([], "expected the path of a bag"),
        "past the end": ([bag, "--start", "99"], "expected a start within the 1.9 s"),
        "bad rate": ([bag, "--rate", "0"], "rate: expected 0.01 to 1000.0, got 0.0"),
    }[case]
    with pytest.raises(SvfmError, match=re.escape(expected)) as error:
        Player(parameter_overrides=parameters_of(arguments), context=listener.context)
    assert "\n" not in str(error.value)


def test_types_that_are_not_installed_are_left_out_and_said(start, listener, tmp_path):
    from bagmaker import STORE, Writer

    bag = tmp_path / "bag"
    with Writer(bag, version=9) as writer:
        odd = writer.add_connection("/odd", "acme_msgs/msg/Odd", msgdef="int32 x\n", rihs01="RIHS01_" + "0" * 64)
        other = writer.add_connection("/twist", "std_msgs/msg/Int32", msgdef="int32 x\n", rihs01="RIHS01_" + "0" * 64)
        scan = writer.add_connection("/scan", LASER_SCAN, typestore=STORE)
        writer.write(odd, START_NS, b"\0\1\0\0\1\0\0\0")
        writer.write(other, START_NS, b"\0\1\0\0\1\0\0\0")
        writer.write(scan, START_NS, SCANS[0][3])
    got = listener.collect(LaserScan, "scan")
    code, text = end(player(start, bag, "--topics", "all", "--wait-for", "scan"))
    got.wait(1)
    assert code == 0
    assert "/odd is left out: its type acme_msgs/msg/Odd is not installed here" in text
    assert "/twist is left out: it was recorded with another definition of std_msgs/msg/Int32" in text


def test_a_bag_that_is_cut_off_is_replayed_as_far_as_it_goes(start, listener, tmp_path):
    bag = write_bag(tmp_path / "bag", scans(100))
    storage = bag / "bag.mcap"
    storage.write_bytes(storage.read_bytes()[:20_000])
    got = listener.collect(LaserScan, "scan", raw=True)
    code, text = end(player(start, bag, "--rate", 100, "--wait-for", "scan"))
    assert code == 0
    assert text.count("is damaged") == 1
    arrived = list(got.wait(11))
    assert len(arrived) < 100
    assert arrived == [data for _, _, _, data in scans(100)][: len(arrived)]


def test_outputs_of_a_recorded_run_are_replayed_only_by_name(start, listener, latched, tmp_path):
    bag = write_bag(tmp_path / "bag", [MAP, *SCANS, *scans(3, topic="/forecast/samples")], latched={"/map"})
    got = listener.collect(String, "map", latched)
    samples = listener.collect(LaserScan, "forecast/samples")
    scan = listener.collect(LaserScan, "scan")
    code, text = end(player(start, bag, "--rate", 20, "--wait-for", "scan"))
    assert code == 0
    assert "replayed 20 messages on 1 topics" in text
    scan.wait(20)
    assert not got
    assert not samples
    assert end(player(start, bag, "--topics", "map", "--wait-for", "map"))[0] == 0
    assert got.wait(1)[0].data == "the map"


def test_a_bag_without_inputs_is_refused(listener, tmp_path):
    bag = str(write_bag(tmp_path / "bag", [MAP], latched={"/map"}))
    with pytest.raises(SvfmError, match="has no topic to replay; it has /map"):
        Player(parameter_overrides=parameters_of([bag]), context=listener.context)


def test_names_in_a_bag_reach_the_terminal_without_control_characters():
    lines = []
    node = SimpleNamespace(get_logger=lambda: SimpleNamespace(warning=lines.append))
    Player._warn(node, "/\x1b[31mscan is left out")
    assert lines == ["/\\x1b[31mscan is left out"]
