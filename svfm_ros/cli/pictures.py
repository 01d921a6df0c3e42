"""Draw the pictures of the documentation from a model that is trained first (a few minutes).

  front     the house, the walks and the forecast paths, day and night side by side
  fields    every field of the mixture on the floor plan
  hours     probabilities of the places, hour by hour
  walk      film of a walk with its forecast at every moment (WebP; GIF with --gif)

for example:
  svfm pictures --out docs/pictures
  svfm pictures walk --gif --out out
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.atomic_files import check_output_folder, make_folder
from svfm_ros.errors import UsageError

if TYPE_CHECKING:
    from svfm_ros.figures.front_pictures import HomeModel

__all__ = ["add_arguments", "run"]

_NAMES = ("front", "fields", "hours", "walk")
_MOST_BYTES = 3_000_000
_ROOM_BYTES = 4 * _MOST_BYTES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm pictures``."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all when none is named")
    parser.add_argument("--out", type=Path, default=Path("out/pictures"), metavar="DIR", help="where they go")
    parser.add_argument("--gif", action="store_true", help="write the walk as GIF")
    parser.add_argument("--quick", action="store_true", help="few walks, little training: shows that it works")


def run(args: argparse.Namespace) -> int:
    """Train once, draw all; return 1 if a file is too large for a web page."""
    from svfm_ros.figures.front_pictures import learn_front

    unknown = [n for n in args.names if n not in _NAMES]
    if unknown:
        raise UsageError(f"expected some of {', '.join(_NAMES)}, got {unknown[0]}")
    check_output_folder(args.out, _ROOM_BYTES)
    make_folder(args.out)
    home = learn_front(args.quick)
    sizes = {name: _draw(home, name, args) for name in args.names or _NAMES}
    for path in sizes.values():
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    return 1 if any(path.stat().st_size > _MOST_BYTES for path in sizes.values()) else 0


def _draw(home: "HomeModel", name: str, args: argparse.Namespace) -> Path:
    from svfm_ros.figures import animation, front_pictures
    from svfm_ros.figures.map_figure import save_picture

    if name == "walk":
        path: Path = args.out / ("walk.gif" if args.gif else "walk.webp")
        animation.write_film(home, animation.film_moments(home, animation.unseen_walk(home)), path)
        return path
    draw = {
        "front": front_pictures.draw_front,
        "fields": front_pictures.draw_fields,
        "hours": front_pictures.draw_hours,
    }[name]
    path = args.out / f"{name}.png"
    save_picture(draw(home), path)
    return path
