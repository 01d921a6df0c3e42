"""Keeps finished walks: onto the disk first, then out on ``walk``, in a thread of its own.

A walk counts as finished only when it is safe: whoever hears of it on the topic finds it in the store.
"""

from pathlib import Path as FilePath

from nav_msgs.msg import Path
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from svfm_ros.datatypes import Alignment, Pose2, Walk
from svfm_ros.nodes import tracks
from svfm_ros.nodes.worker import Worker
from svfm_ros.walks.store import WalkStore

__all__ = ["WalkKeeper"]

_QOS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_ROOM = 1000  # walks that may wait for the disk


class WalkKeeper:
    """``frame`` is the walks' own; ``placed`` says that it is the house's map, so that no alignment is needed.

    A map that is being made becomes the house's when the store is empty: the first session lays down the frame that
    later ones are aligned to. ``start_over`` says that the map began anew, in a frame of its own.
    """

    def __init__(self, node: Node, store: str, frame: str, placed: bool) -> None:
        self._node = node
        self._store = WalkStore.create(FilePath(store).expanduser()) if store else None
        self._frame = frame
        self._reason = "recorded on the house's own map" if placed else ""
        if self._store is not None and not len(self._store):
            self._reason = self._reason or "recorded while the house's map was made"
        self._own_map = placed
        self._publisher = node.create_publisher(Path, "walk", _QOS)
        self._worker: Worker[tuple[Walk, str]] = Worker("keep walks", self._keep, capacity=_ROOM, on_error=self._say)
        self.kept = 0
        self.problem = ""

    def keep(self, walk: Walk) -> None:
        """Hand over a walk."""
        self._worker.put((walk, self._reason))

    def start_over(self) -> None:
        """What comes now is in another frame, unless the map was given."""
        if not self._own_map:
            self._reason = ""

    def close(self) -> None:
        """Finish what waits; nothing that was handed over is lost."""
        self._worker.stop(timeout_s=10.0, finish=True)

    def _keep(self, handed: tuple[Walk, str]) -> None:
        walk, reason = handed
        if self._store is not None:
            new = self._store.add(walk)
            if new and reason:
                self._store.set_alignment(Alignment(walk.walk_id, Pose2(), None, True, reason))
        self.kept += 1
        self.problem = ""
        if self._node.context.ok():
            self._node.get_logger().info(f"walk {walk.walk_id}: {walk.times_s[-1]:.1f} s")
            self._publisher.publish(tracks.to_wire(walk.stamps_ns, walk.poses, self._frame, int(walk.stamps_ns[-1])))

    def _say(self, error: Exception) -> None:
        self.problem = f"a walk was not kept: {error}"
        if self._node.context.ok():
            self._node.get_logger().error(self.problem)
