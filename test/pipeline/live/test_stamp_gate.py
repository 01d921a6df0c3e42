"""One wrong stamp is held back; a stream that moved as a whole is followed without loss."""

from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.pipeline.live.stamp_gate import StampGate

S = 10**9
NOW = 1_700_000_000 * S


def admitted(arrivals):
    """What comes out for each (arrival in seconds, stamp in nanoseconds)."""
    gate = StampGate(int)
    return [gate.admit(stamp, at) for at, stamp in arrivals], gate


@given(st.integers(0, 4 * 10**18), st.integers(1, 30))
def test_one_wrong_stamp_is_never_followed(wrong, place):
    stream = [(0.1 * i, NOW + i * S // 10) for i in range(40)]
    far = abs(wrong - NOW) > 100 * S
    out, gate = admitted([*stream[:place], (0.1 * place, wrong), *stream[place:]])
    passed = [stamp for items in out for stamp in items]
    assert [s for s in passed if s != wrong] == [s for _, s in stream if s != wrong]
    if far:
        assert wrong not in passed
        assert gate.refused == 1


def test_a_flood_of_forged_stamps_does_not_move_a_stream_that_goes_on():
    forged = [(0.001 * i, 5 * S + i) for i in range(3000)]
    real = [(0.1 * i, NOW + i * S // 10) for i in range(30)]
    out, gate = admitted(sorted([*real, *forged]) if forged[0] > real[0] else [real[0], *sorted([*real[1:], *forged])])
    passed = [stamp for items in out for stamp in items]
    assert passed == [stamp for _, stamp in real]
    assert gate.refused > 2000


def test_a_recording_that_begins_again_is_followed_and_nothing_is_lost():
    once = [NOW + i * S // 10 for i in range(50)]
    out, gate = admitted([(0.1 * i, stamp) for i, stamp in enumerate(once + once)])
    assert [stamp for items in out for stamp in items] == once + once
    assert gate.refused == gate.holds == 0


def test_a_long_pause_is_followed():
    before, after = [NOW + i * S // 10 for i in range(5)], [NOW + 3600 * S + i * S // 10 for i in range(10)]
    arrivals = [(0.1 * i, s) for i, s in enumerate(before)] + [(3600 + 0.1 * i, s) for i, s in enumerate(after)]
    out, _ = admitted(arrivals)
    assert [stamp for items in out for stamp in items] == before + after
