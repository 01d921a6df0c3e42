"""Compiled loops give the same result as Python and respect NaN and infinity."""

import numpy as np

from svfm_ros.compiled import kernel


@kernel
def count_finite(x):
    count = 0
    for v in x:
        if np.isfinite(v):
            count += 1
    return count


def test_kernels_respect_nan_and_infinity():
    x = np.array([1.0, np.nan, np.inf, -np.inf, 2.0])
    assert count_finite(x) == count_finite.py_func(x) == 2
