"""The forward recursion of ``pathlik`` for one walk, compiled: a live forecast runs it over the whole walk so far."""

import numpy as np

from svfm_ros.compiled import kernel

__all__ = ["run_forward"]


@kernel
def _either(a, b):  # type: ignore[no-untyped-def]
    """Logarithm of the sum of two numbers given by theirs."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@kernel
def run_forward(state, log_says, log_again, pause, resume, switch):  # type: ignore[no-untyped-def]
    """Take ``state`` (2, K, G), logarithms for walking and pausing, over all moves (I, 2, K, G), in place.

    ``log_again`` (I, K) is what those who change their mind choose; with ``switch`` zero it is not looked at.
    """
    go, stay, on, stop = np.log(resume), np.log1p(-resume), np.log1p(-pause), np.log(pause)
    _, fields, paces = state.shape
    anew = np.empty((2, paces))
    for i in range(len(log_says)):
        for k in range(fields):
            for g in range(paces):
                walking, pausing = state[0, k, g] + log_says[i, 0, k, g], state[1, k, g] + log_says[i, 1, k, g]
                state[0, k, g] = _either(walking + on, pausing + go)
                state[1, k, g] = _either(walking + stop, pausing + stay)
        if switch == 0.0:
            continue
        anew[:] = -np.inf
        for k in range(fields):
            for g in range(paces):
                for mode in range(2):
                    anew[mode, g] = _either(anew[mode, g], state[mode, k, g])
        for k in range(fields):
            for g in range(paces):
                for mode in range(2):
                    kept = state[mode, k, g] + np.log1p(-switch)
                    state[mode, k, g] = _either(kept, anew[mode, g] + log_again[i, k] + np.log(switch))
