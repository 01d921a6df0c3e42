"""Compiled loops: quick to load, and in nobody's way."""

import subprocess
import sys

PROGRAM = """
import sys
import numba
import numpy as np
from svfm_ros.compiled import kernel

@kernel
def total(x):
    out = 0.0
    for v in x:
        out += v
    return out

assert total(np.arange(4.0)) == 6.0
assert "scipy.linalg" not in sys.modules, "half a second of start-up for something no loop uses"

@numba.njit
def theirs(x):
    return np.cov(x), np.dot(x, x.T)

x = np.random.default_rng(0).normal(size=(3, 5))
covariance, product = theirs(x)
assert np.allclose(covariance, np.cov(x)) and np.allclose(product, x @ x.T)
"""


def test_kernels_load_without_linear_algebra_and_leave_it_to_others(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
