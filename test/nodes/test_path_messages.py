"""Long tracks as bytes: the same as the messages."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from nav_msgs.msg import Path
from rclpy.serialization import deserialize_message

from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.path_messages import path_bytes, path_bytes_are_right, thinned


@given(
    hnp.arrays(float, st.tuples(st.integers(0, 6), st.just(3)), elements=st.floats(-100, 100)),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.integers(0, 2 * 10**18),
)
def test_bytes_say_the_same_as_the_message(poses, frame, time_ns):
    stamps_ns = time_ns + np.arange(len(poses), dtype=np.int64) * 123_456_789
    read = deserialize_message(path_bytes(stamps_ns, poses, frame, time_ns), Path)
    assert read == convert.to_path(stamps_ns, poses, frame, time_ns)


def test_bytes_are_used_where_they_are_right():
    assert path_bytes_are_right()


@given(st.integers(0, 300), st.integers(2, 50))
def test_thinning_keeps_both_ends(count, most):
    stamps_ns = np.arange(count, dtype=np.int64)
    kept, poses = thinned(stamps_ns, np.zeros((count, 3)), most)
    assert len(kept) == len(poses) == min(count, most)
    assert len(set(kept.tolist())) == len(kept)
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)
