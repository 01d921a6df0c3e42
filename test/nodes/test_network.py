"""Two machines, as network namespaces: who hears whom."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import pytest

from svfm_ros.nodes.runtime.graph_description import NETWORK_VARIABLES

NODE = ("-m", "svfm_ros.nodes.trainer_node")
NAMES = """
import sys, time, rclpy
rclpy.init()
node = rclpy.create_node("listener")
until_s = time.monotonic() + float(sys.argv[1])
while "trainer_node" not in node.get_node_names() and time.monotonic() < until_s:
    time.sleep(0.1)
print("trainer_node" in node.get_node_names())
"""


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout


def run_in(machine, *words):
    command = ["ip", "netns", "exec", machine, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def reason_to_skip():
    if shutil.which("ip") is None:
        return "the command ip is not installed"
    tried = subprocess.run(["ip", "netns", "add", f"svfm{os.getpid()}t"], capture_output=True, text=True)
    if tried.returncode == 0:
        ip("netns", "del", f"svfm{os.getpid()}t")
    return "" if tried.returncode == 0 else "network namespaces need the rights of root"


pytestmark = [pytest.mark.ros, pytest.mark.slow]


@pytest.fixture
def machines():
    """Names of two namespaces, 10.77.0.1 and 10.77.0.2, with a cable between them."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    names = [f"svfm{os.getpid()}{side}" for side in "ab"]
    with contextlib.ExitStack() as stack:
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for number, name in enumerate(names, 1):
            run_in(name, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")  # which sends by itself
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
        for name in names:  # a program that starts earlier leaves the cable out for good
            while "state UP" not in ip("-n", name, "link", "show", "cable"):
                time.sleep(0.05)
        yield names


def at(machine, *arguments, **variables):
    unset = {*NETWORK_VARIABLES, "ROS_STATIC_PEERS"}
    environment = {k: v for k, v in os.environ.items() if k not in unset} | variables
    command = ["ip", "netns", "exec", machine, sys.executable, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def heard(machine, patience_s, **variables):
    return at(machine, "-c", NAMES, str(patience_s), **variables).communicate()[0].strip() == "True"


PEER = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", "ROS_STATIC_PEERS": "10.77.0.1"}


@pytest.mark.parametrize(("variables", "open_to_others"), [({}, False), ({NETWORK_VARIABLES[0]: "SUBNET"}, True)])
def test_another_machine_hears_us_only_where_the_network_is_opened(machines, variables, open_to_others):
    ours, other = machines
    node = at(ours, *NODE, **variables)
    try:
        assert heard(ours, 60, ROS_AUTOMATIC_DISCOVERY_RANGE="SUBNET")  # as RViz on this machine, with ROS's defaults
        assert heard(other, 60 if open_to_others else 5, **PEER) == open_to_others
    finally:
        node.kill()
        node.communicate()


LOOPBACK = "0100007F"
SEND = "import socket, sys; [socket.socket(2, 2).sendto(bytes(100), ('10.77.0.1', int(port))) for port in sys.argv[1:]]"


def sockets(machine, protocol):
    """Local addresses and ports of a machine's sockets, and the bytes that wait in them to be read."""
    rows = [line.split() for line in run_in(machine, "cat", f"/proc/net/{protocol}").splitlines()[1:]]
    return {tuple(row[1].split(":")): int(row[4].split(":")[1], 16) for row in rows}


def sent_over_the_cable(machine):
    line = next(line for line in run_in(machine, "cat", "/proc/net/dev").splitlines() if "cable:" in line)
    return int(line.split(":")[1].split()[9])  # packets


def test_the_whole_graph_sends_nothing_to_others_and_reads_nothing_of_theirs(machines, tmp_path):
    ours, other = machines
    graph = at(ours, "-m", "svfm_ros.cli.main", "run", f"store:={tmp_path / 'store'}")
    try:
        assert "walks stored" in graph.stdout.readline()
        until_s = time.monotonic() + 120
        while not sockets(ours, "tcp") and time.monotonic() < until_s:  # the live page
            time.sleep(0.1)
        assert {address for address, _ in sockets(ours, "tcp")} == {LOOPBACK}
        open_ports = [int(port, 16) for address, port in sockets(ours, "udp") if address != LOOPBACK]
        run_in(other, sys.executable, "-c", SEND, *map(str, open_ports))  # Fast DDS has them to send with, not to read
        while not all(waits for (a, _), waits in sockets(ours, "udp").items() if a != LOOPBACK):
            assert time.monotonic() < until_s, "what another machine sent was read"
            time.sleep(0.1)
        assert sent_over_the_cable(ours) <= 1  # the answer to the question (ARP) who has our address
    finally:
        graph.terminate()
        graph.communicate()
