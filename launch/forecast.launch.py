"""Scans in; map, position, walks, a model that keeps learning, and forecasts on the map out.

    ros2 launch svfm_ros forecast.launch.py                       someone lives in a simulated house
    ros2 launch svfm_ros forecast.launch.py bag:=PATH rate:=2     a recording
    ros2 launch svfm_ros forecast.launch.py live:=true            a LiDAR driver publishes `scan`

`--show-args` explains every argument. What runs for which argument is described in
svfm_ros/nodes/runtime/graph_description.py; this file only hands it to launch.
"""

import os
import sys

from launch.actions import DeclareLaunchArgument, EmitEvent, ExecuteProcess, LogInfo, OpaqueFunction
from launch.events import Shutdown, matches_action
from launch.events.process import ShutdownProcess
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchDescription
from svfm_ros.nodes.runtime.graph_description import (
    ARGUMENTS,
    FINAL_CODES,
    PARENT_VARIABLE,
    RESPAWN_S,
    has_screen,
    make_plan,
    parse_pairs,
)


def generate_launch_description():
    declared = [DeclareLaunchArgument(a.name, default_value=a.default, description=a.help) for a in ARGUMENTS]
    return LaunchDescription([*declared, OpaqueFunction(function=start_graph)])


def start_graph(context):
    declared = {a.name: LaunchConfiguration(a.name).perform(context) for a in ARGUMENTS}
    plan = make_plan({**mistyped(declared), **declared})
    return [*recording(plan), *(process(plan, node) for node in plan.nodes), *rviz(plan)]


def mistyped(declared):
    """What was typed and nobody asks for: launch takes it silently. Nothing where another file includes this one."""
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
    """Launch starts again what died; it must not do so with what is done, or said that its input is not usable."""
    if event.returncode not in FINAL_CODES:
        return []
    if node.name == "player" and plan.end_with_bag:
        return [EmitEvent(event=Shutdown(reason="the bag has ended"))]
    return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(action)))]


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
    return [
        Node(
            package="rviz2",
            executable="rviz2",
            namespace=plan.namespace,
            arguments=["-d", str(plan.rviz_config), "-f", plan.fixed_frame],
            parameters=[{"use_sim_time": plan.use_sim_time}],
        )
    ]
