"""Ground truth as files: the walks, what the walkers had in mind, the places of the house."""

from collections.abc import Sequence
from pathlib import Path

from svfm_ros import atomic_files
from svfm_ros.clock import NS_PER_S
from svfm_ros.sim.house import House
from svfm_ros.sim.trips import LabelledWalk

__all__ = ["write_labels_csv", "write_places", "write_walks_csv"]

_PLACES_HEAD = """\
# Where people go in the house {name!r}: metres, in the frame of its map. `svfm simulate --export-places` wrote this
# from the drawing of the house; change it as you like. Who stops within the radius of a place has arrived there.
places:
"""


def write_walks_csv(walks: Sequence[LabelledWalk], path: Path) -> int:
    """``walk_id,t,x,y`` with t in Unix seconds to the microsecond; returns the number of rows."""
    rows = ["walk_id,t,x,y"]
    for labelled in walks:
        walk = labelled.walk
        seconds, rest = (walk.stamps_ns // NS_PER_S).tolist(), (walk.stamps_ns % NS_PER_S // 1000).tolist()
        x, y = walk.xy.T.tolist()
        cells = zip(seconds, rest, x, y, strict=True)
        rows += [f"{walk.walk_id},{s}.{us:06d},{a:.4f},{b:.4f}" for s, us, a, b in cells]
    _write(path, "\n".join(rows) + "\n")
    return len(rows) - 1


def write_labels_csv(walks: Sequence[LabelledWalk], path: Path) -> None:
    """``walk_id,origin,destination,start,end`` with times in Unix seconds."""
    rows = ["walk_id,origin,destination,start,end"]
    for labelled in walks:
        begin, end = (f"{int(s) / NS_PER_S:.3f}" for s in labelled.walk.stamps_ns[[0, -1]])
        rows.append(f"{labelled.walk.walk_id},{labelled.origin},{labelled.destination},{begin},{end}")
    _write(path, "\n".join(rows) + "\n")


def write_places(house: House, path: Path) -> None:
    """The places as ``config/places.yaml`` has them."""
    lines = [
        f'  - {{name: {p.name}, x: {p.x:g}, y: {p.y:g}, radius: {p.radius_m:g}, colour: "{p.colour}"}}\n'
        for p in house.places
    ]
    _write(path, _PLACES_HEAD.format(name=house.name) + "".join(lines))


def _write(path: Path, text: str) -> None:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.write_whole(path, text.encode())
