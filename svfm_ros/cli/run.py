"""Start the live pipeline: SLAM, training and forecasts from scans.

Takes the arguments of `ros2 launch svfm_ros forecast.launch.py` and runs the same nodes in one process; use it where
the launch packages are not installed. Without arguments a house is simulated. All messages stay on this machine
unless network:=lan is given.

for example:
  svfm run                                      a simulated house
  svfm run bag:=out/walks rate:=2               a recording, twice as fast
  svfm run live:=true store:=~/walks            a LiDAR driver publishes `scan`

Ctrl-C ends it.
"""

import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm run``: the launch file's arguments, as NAME:=VALUE."""
    from svfm_ros.nodes.runtime.graph_description import ARGUMENTS

    width = max(len(a.name) for a in ARGUMENTS)
    lines = [f"  {a.name:{width}}  {a.help}" + (f" (default {a.default})" if a.default else "") for a in ARGUMENTS]
    parser.epilog = "arguments:\n" + "\n".join(lines)
    parser.add_argument("pairs", nargs="*", metavar="NAME:=VALUE", help="arguments, see below")


def run(args: argparse.Namespace) -> int:
    """Plan the graph and run it until it ends."""
    from svfm_ros.nodes.runtime.graph_description import make_plan, parse_pairs

    plan = make_plan(parse_pairs(args.pairs))
    from svfm_ros.nodes.runtime.single_process import run_graph

    return run_graph(plan)
