"""Message classes by the name a bag gives them, and whether the bag means the same by that name."""

import importlib
import os
from typing import Any

__all__ = ["message_class", "same_definition"]


def message_class(msgtype: str) -> Any | None:
    """The class of ``sensor_msgs/msg/LaserScan``; ``None`` where its package is not installed."""
    package, _, name = msgtype.partition("/msg/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), name, None)
    except (ImportError, ValueError):
        return None


def same_definition(msgtype: str, digest: str) -> bool:
    """Whether a recorded type is laid out as in the ROS we run; True where nobody can tell."""
    if not digest:
        return True
    from rosbags.typesys import Stores, get_typestore

    distribution = os.environ.get("ROS_DISTRO", "jazzy").upper()
    store = get_typestore(getattr(Stores, f"ROS2_{distribution}", Stores.ROS2_JAZZY))
    return msgtype not in store.fielddefs or store.hash_rihs01(msgtype) == digest
