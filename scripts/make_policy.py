#!/usr/bin/env python3
"""Write config/sros2/policy.xml, the SROS 2 policy with which each node may use its own topics and services alone.

The table of topics and services is svfm_ros/nodes/runtime/interface.py. `--check` compares and writes nothing.
"""

import argparse
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from svfm_ros.nodes.runtime.interface import LIFECYCLE_SERVICES, PARAMETER_SERVICES, SERVICES, TOPICS, TRANSITIONS

POLICY = Path(__file__).resolve().parent.parent / "config" / "sros2" / "policy.xml"
NODES = ("slam_node", "trainer_node", "forecast_node", "sim_node", "player", "web_node")

_PUBLISHED_BY_ALL = ("/parameter_events", "/rosout", f"~/{TRANSITIONS}")
_SUBSCRIBED_BY_ALL = ("/clock",)
_REPLAYED = ("scan", "points", "imu", "odom", "ground_truth/pose")  # by the player


def main() -> int:
    """Write the policy, or with --check compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the file is outdated")
    if not parser.parse_args().check:
        POLICY.write_text(policy())
        return 0
    if POLICY.is_file() and POLICY.read_text() == policy():
        return 0
    print(f"{POLICY} is outdated: run scripts/make_policy.py", file=sys.stderr)
    return 1


def policy() -> str:
    """The policy of all nodes as XML."""
    root = ET.Element("policy", version="0.2.0")
    enclaves = ET.SubElement(root, "enclaves")
    for node in NODES:
        profiles = ET.SubElement(ET.SubElement(enclaves, "enclave", path=f"/svfm/{node}"), "profiles")
        profile = ET.SubElement(profiles, "profile", ns="/", node=node)
        _add(profile, "topic", "publish", {*_topics(node, "out"), *_PUBLISHED_BY_ALL})
        _add(profile, "topic", "subscribe", {*_topics(node, "in"), *_SUBSCRIBED_BY_ALL})
        _add(
            profile,
            "service",
            "reply",
            {f"~/{name}" for name in (*PARAMETER_SERVICES, *LIFECYCLE_SERVICES, *_services(node))},
        )
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _topics(node: str, way: str) -> set[str]:
    replayed = _REPLAYED if (node, way) == ("player", "out") else ()
    return {t.name for t in TOPICS if (t.node, t.way) == (node, way)} | set(replayed)


def _services(node: str) -> list[str]:
    return [s.name for s in SERVICES if s.node == node]


def _add(profile: ET.Element, kind: str, permission: str, names: set[str]) -> None:
    group = ET.SubElement(profile, f"{kind}s", {permission: "ALLOW"})
    for name in sorted(names):
        ET.SubElement(group, kind).text = name


if __name__ == "__main__":
    sys.exit(main())
