"""How a process makes itself known to the others, so that one that was killed is heard again at once.

Fast DDS gives a process the first ports that are free. One that takes the place of a killed one would get the ports of
the dead, under which the others still know the dead; and everybody says only every three seconds that they are there.
It then takes up to three seconds until a process that is back is heard. So ours take ports at random among the free
ones, say that they are there five times a second, and forget who has been silent for three. Other middlewares, and
people with profiles of their own, are left alone.
"""

import contextlib
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["fresh_ports"]

_PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
_LOCAL_PROFILE = "DEFAULT_FASTRTPS_PROFILES.xml"  # Fast DDS reads it from the folder it is started in
_PLACES = 32  # on one machine: where ROS looks for others when it stays on this machine
# How DDS numbers ports: of the first domain, from one domain to the next, of the first participant, to the next.
_BASE, _PER_DOMAIN, _FIRST, _PER_PLACE = 7400, 250, 10, 2
_PROFILE = """<?xml version="1.0" encoding="UTF-8" ?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <participant profile_name="svfm_ros" is_default_profile="true">
    <rtps>
      <participantID>{place}</participantID>
      <builtin>
        <discovery_config>
          <leaseDuration><sec>3</sec></leaseDuration>
          <leaseAnnouncement><sec>0</sec><nanosec>200000000</nanosec></leaseAnnouncement>
        </discovery_config>
      </builtin>
    </rtps>
  </participant>
</profiles>
"""


@contextlib.contextmanager
def fresh_ports() -> Iterator[int | None]:
    """The first node made in here speaks from ports chosen at random; yields their place, None where none is chosen."""
    place = _free_place(_domain()) if _may_choose() else None
    if place is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="svfm_ros_") as folder:
        path = Path(folder) / "ports.xml"
        path.write_text(_PROFILE.format(place=place))
        os.environ[_PROFILES[0]] = str(path)
        try:
            yield place
        finally:
            del os.environ[_PROFILES[0]]


def _may_choose() -> bool:
    middleware = os.environ.get("RMW_IMPLEMENTATION", "")
    own_profile = any(os.environ.get(name) for name in _PROFILES) or Path(_LOCAL_PROFILE).exists()
    return (not middleware or middleware.startswith("rmw_fastrtps")) and not own_profile


def _domain() -> int:
    text = os.environ.get("ROS_DOMAIN_ID", "0")
    return int(text) if text.isdigit() else 0


def _free_place(domain: int) -> int | None:
    places = list(range(_PLACES))
    random.SystemRandom().shuffle(places)
    return next((place for place in places if _is_free(domain, place)), None)


def _is_free(domain: int, place: int) -> bool:
    """Whether nobody listens on either of its ports."""
    first = _BASE + _PER_DOMAIN * domain + _FIRST + _PER_PLACE * place
    try:
        for port in range(first, first + _PER_PLACE):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind(("", port))
    except (OSError, OverflowError):
        return False
    return True
