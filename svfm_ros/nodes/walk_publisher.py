"""Keeps finished walks: onto the disk first, then out on ``walk``, in a thread of its own.

A walk counts as finished only when it is safe: whoever hears of it on the topic finds it in the store.
"""

from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from nav_msgs.msg import Path
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from svfm_ros.nodes.messages import path_messages
from svfm_ros.pipeline.worker import Worker
from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks.walk_store import WalkStore

if TYPE_CHECKING:
    from svfm_ros.pipeline.walk_placer import WalkPlacer

__all__ = ["WalkKeeper"]

_QOS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_ROOM = 1000  # walks that may wait for the disk
_FIRST = "recorded while the house's map was made"


class WalkKeeper:
    """``frame`` is the walks' own; ``placed`` says that it is the house's map that was given, ``resumed`` that the map
    of before goes on: no alignment is needed then.

    A map that is being made becomes the house's when the store is empty: the first session lays down the frame that
    later ones are aligned to. ``start_over`` says that the map began anew, in a frame of its own.
    """

    def __init__(self, node: Node, store: str, frame: str, placed: bool, resumed: bool = False) -> None:
        self._node = node
        self._store = WalkStore.create(FilePath(store).expanduser()) if store else None
        self._frame = frame
        self._placer: WalkPlacer | None = None
        self._is_given = placed
        self._why = "recorded on the house's own map" if placed or resumed else _FIRST
        self.in_house_frame = placed or resumed or not self._store
        self._publisher = node.create_publisher(Path, "walk", _QOS)
        self.kept = self.refused = 0
        self.problem = ""
        self._worker: Worker[tuple[Walk, str] | None] = Worker(
            "keep walks", self._handle, capacity=_ROOM, on_error=self._say
        )
        self._worker.put(None)

    def keep(self, walk: Walk) -> None:
        """Hand over a walk."""
        self._worker.put((walk, self._why if self.in_house_frame else ""))

    def start_over(self) -> None:
        """What comes now is in another frame, unless the map was given or there is no house yet."""
        if not self._is_given:
            self.in_house_frame, self._why = not self._store, _FIRST

    def close(self) -> None:
        """Finish what waits; nothing that was handed over is lost."""
        self._worker.stop(timeout_s=10.0, finish=True)

    def _handle(self, handed: tuple[Walk, str] | None) -> None:
        if handed is None:
            self._place_leftovers()
        else:
            self._keep(*handed)

    def _place_leftovers(self) -> None:
        """Walks that were kept when their process ended, but not placed any more."""
        for walk_id in self._store.ids_by_alignment(None) if self._store is not None else ():
            if self._store is not None:
                self._place(self._store, self._store.load(walk_id), "")

    def _keep(self, walk: Walk, why: str) -> None:
        if self._store is not None and self._store.add(walk):
            self._place(self._store, walk, why)
        self.kept += 1
        self.problem = ""
        if self._node.context.ok():
            self._node.get_logger().info(f"walk {walk.walk_id}: {walk.times_s[-1]:.1f} s")
            self._publisher.publish(
                path_messages.to_wire(walk.stamps_ns, walk.poses, self._frame, int(walk.stamps_ns[-1]))
            )

    def _place(self, store: WalkStore, walk: Walk, why: str) -> None:
        """A walk on the house's map is where it is; one on a map of its own is laid onto the house."""
        if why:
            store.set_alignment(Alignment(walk.walk_id, Pose2(), None, True, why))
            return
        from svfm_ros.pipeline.walk_placer import WalkPlacer  # Open3D comes with it

        self._placer = self._placer or WalkPlacer(store)
        alignments = self._placer.place(walk)
        store.set_alignments(alignments)
        self.refused += not alignments[0].accepted
        for alignment in alignments:
            found = "has its place in the house" if alignment.accepted else "has no place in the house"
            self._node.get_logger().info(f"walk {alignment.walk_id} {found}: {alignment.reason}")

    def _say(self, error: Exception) -> None:
        self.problem = f"a walk was not kept: {error}"
        if self._node.context.ok():
            self._node.get_logger().error(self.problem)
