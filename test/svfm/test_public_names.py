"""The paper's library as its users import it."""

import subprocess
import sys

import pytest

from svfm_ros import svfm


@pytest.mark.parametrize("name", svfm.__all__)
def test_every_public_name_loads_and_is_documented(name):
    assert getattr(svfm, name).__doc__
    assert name in dir(svfm)


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'sove'"):
        _ = svfm.sove


def test_importing_the_library_does_not_import_torch():
    code = "import sys, svfm_ros.svfm; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_stay_functions_after_their_modules_are_imported():
    import svfm_ros.svfm.solver.solve
    import svfm_ros.svfm.training  # noqa: F401

    assert callable(svfm.train)
    assert callable(svfm.solve)
