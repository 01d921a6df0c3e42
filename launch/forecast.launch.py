"""Starts SLAM, training and forecasts for one wearable, with scans from a simulation, a bag or a LiDAR driver.

    ros2 launch svfm_ros forecast.launch.py                       a simulated house
    ros2 launch svfm_ros forecast.launch.py bag:=PATH rate:=2     a recording
    ros2 launch svfm_ros forecast.launch.py live:=true            a LiDAR driver publishes `scan`

`--show-args` lists all arguments. svfm_ros/nodes/runtime/graph_description.py defines which nodes run with which
parameters; this file only passes that to launch. A node whose input is not usable ends the launch with exit code 1.
"""

import os
import sys

from ament_index_python.packages import get_packages_with_prefixes
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    LogInfo,
    OpaqueFunction,
    SetEnvironmentVariable,
)
from launch.events import Shutdown, matches_action
from launch.events.process import ShutdownProcess
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchDescription
from svfm_ros.nodes.runtime.graph_description import (
    FINAL_CODES,
    RESPAWN_S,
    UNUSABLE,
    has_screen,
    make_plan,
)
from svfm_ros.nodes.runtime.launch_arguments import ARGUMENTS, parse_pairs
from svfm_ros.nodes.runtime.rviz_view import fitted_config
from svfm_ros.pipeline.live.process_control import PARENT_VARIABLE


def generate_launch_description():
    declared = [DeclareLaunchArgument(a.name, default_value=a.default, description=a.help) for a in ARGUMENTS]
    return LaunchDescription([*declared, OpaqueFunction(function=start_graph)])


def start_graph(context):
    declared = {a.name: LaunchConfiguration(a.name).perform(context) for a in ARGUMENTS}
    plan = make_plan({**mistyped(declared), **declared})
    notes = [LogInfo(msg=line) for line in plan.notes]
    variables = [SetEnvironmentVariable(name, value) for name, value in plan.environment.items()]
    return [*notes, *variables, *recording(plan), *(process(plan, node) for node in plan.nodes), *rviz(plan)]


def mistyped(declared):
    """Unknown arguments of the command line, which launch ignores; none where another launch file includes this one."""
    if not any(word.endswith(os.path.basename(__file__)) for word in sys.argv):
        return {}
    typed = parse_pairs(word for word in sys.argv if ":=" in word)
    return {name: text for name, text in typed.items() if name not in declared}


def process(plan, node):
    action = Node(
        package="svfm_ros",
        executable=node.name,
        name=node.name,
        namespace=plan.namespace,
        parameters=[str(plan.params_file), dict(node.parameters)],
        remappings=list(node.remappings),
        additional_env={PARENT_VARIABLE: str(os.getpid())},
        output="screen",
        respawn=True,
        respawn_delay=RESPAWN_S,
        on_exit=lambda event, _context: after_exit(plan, node, action, event),
    )
    return action


def after_exit(plan, node, action, event):
    """Keep launch from restarting a node that is finished; end the launch where the input of a node is not usable."""
    if event.returncode not in FINAL_CODES:
        return []
    if event.returncode == UNUSABLE:
        return [OpaqueFunction(function=lambda _context: fail(f"{node.name}: the input is not usable, see above"))]
    if node.name == "player" and plan.end_with_bag:
        return [EmitEvent(event=Shutdown(reason="the bag has ended"))]
    return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(action)))]


def fail(sentence):
    """End the launch with a non-zero exit code."""
    raise RuntimeError(sentence)


def recording(plan):
    if plan.record is None:
        return []
    command = ["ros2", "bag", "record", "--all", "--storage", "mcap", "--output", str(plan.record)]
    return [ExecuteProcess(cmd=command + ["--use-sim-time"] * plan.use_sim_time, output="screen")]


def rviz(plan):
    if not plan.rviz:
        return []
    if not has_screen():
        return [LogInfo(msg="RViz is not opened: there is no screen")]
    if "rviz2" not in get_packages_with_prefixes():
        return [LogInfo(msg="RViz is not opened: it is not installed")]
    return [
        Node(
            package="rviz2",
            executable="rviz2",
            namespace=plan.namespace,
            arguments=["-d", str(fitted_config(plan)), "-f", plan.fixed_frame],
            parameters=[{"use_sim_time": plan.use_sim_time}],
            remappings=list(plan.remappings),
        )
    ]
