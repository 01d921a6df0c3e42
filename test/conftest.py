"""Settings for all tests: loopback only, a ROS domain for each run, no dependence on the speed of the machine."""

import os
import random

from hypothesis import HealthCheck, settings

# Jazzy leaves field checks of messages off; a wrong type would then pass silently.
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
# 1 to 101: the domains whose ports stay below the range that the system hands out to others.
os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
# Tests share two cores: libraries that start a thread per core only get in each other's way.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A busy machine must not fail a test: no deadline for an example, none for drawing it.
settings.register_profile("no deadlines", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no deadlines")
