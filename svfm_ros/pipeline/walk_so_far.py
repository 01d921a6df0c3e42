"""The walk that is being walked, from poses as they come. No ROS in here."""

from collections import deque
from itertools import takewhile

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import DataError
from svfm_ros.types import Pose2, Walk
from svfm_ros.walks.walk_recorder import WalkRecorder

__all__ = ["WalkSoFar"]

_BACK_NS = 1 * NS_PER_S  # stamps that go back by more than this mean that time began anew


class WalkSoFar:
    """Remembers poses since the wearer set off, by the rules that cut walks."""

    def __init__(self, config: RecorderConfig) -> None:
        self._config = config
        self._begin()

    def _begin(self) -> None:
        self._recorder = WalkRecorder(self._config)
        self._poses: deque[tuple[int, float, float, float]] = deque()

    def push(self, stamp_ns: int, pose: Pose2) -> None:
        """One more pose; one that is a little late is left out."""
        if self._poses and self._poses[-1][0] - stamp_ns > _BACK_NS:
            self._begin()
        try:
            self._recorder.push(stamp_ns, pose)
        except DataError:
            return
        self._poses.append((stamp_ns, pose.x, pose.y, pose.theta))
        keep_ns = round((self._config.longest_s + self._config.dwell_time_s) * NS_PER_S)
        while stamp_ns - self._poses[0][0] > keep_ns:
            self._poses.popleft()

    def walk(self) -> Walk | None:
        """What was walked so far; None at rest."""
        since_ns = self._recorder.walk_so_far_ns
        if since_ns is None:
            return None
        rows = list(takewhile(lambda p: p[0] >= since_ns, reversed(self._poses)))[::-1]
        if len(rows) < 2:
            return None
        stamps_ns = np.array([p[0] for p in rows], dtype=np.int64)  # (T,)
        return Walk("now", "", stamps_ns, np.array([p[1:] for p in rows]))
