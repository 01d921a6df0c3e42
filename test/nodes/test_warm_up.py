"""A process that has warmed up compiles nothing more: compiling stops all its threads for seconds."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, sys
from dataclasses import replace
sys.path.insert(0, sys.argv[1])
from numba.core.dispatcher import Dispatcher
from simbag import scans_and_truth
from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.pipeline.slam_engine import MapDrawer, warm_up
from svfm_ros.slam.localise import Localiser
from svfm_ros.slam.slam import Slam

def compiled():
    ours = (d for d in gc.get_objects() if isinstance(d, Dispatcher) and d.py_func.__module__.startswith("svfm_ros"))
    return {(d.py_func.__module__, d.py_func.__name__, s) for d in ours for s in d.signatures}

scans, _ = scans_and_truth(2)
config = SlamNodeConfig(map="given.yaml")
assert not any(name.startswith("svfm_ros.slam") for name, _, _ in compiled())
warm_up(config)
before = compiled()
soon = replace(config.slam, local_keyframes=20, submap_keyframes=20)  # loops after a short walk
slam, drawer = Slam(soon), MapDrawer(config.raster)
for scan in scans:
    slam.add_scan(scan)
drawer.draw(slam.keyframes())
slam.finish()
localiser = Localiser(drawer.draw(slam.keyframes()), config.slam)
for scan in scans[-50:]:
    localiser.add_scan(scan)
assert slam.counters["loops_found"] > 0, slam.counters
assert localiser.counters["tracked"] > 0, localiser.counters
print(len(before), sorted(f"{module}.{name}" for module, name, _ in compiled() - before))
"""


def test_everything_a_recording_needs_is_compiled_before_the_first_scan():
    here = str(Path(__file__).parents[1] / "helpers")
    done = subprocess.run([sys.executable, "-c", PROGRAM, here], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, late = done.stdout.split(maxsplit=1)
    assert int(count) > 10
    assert late.strip() == "[]"
