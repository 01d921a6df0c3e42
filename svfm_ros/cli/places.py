"""Name the places of a map: opens the map in a page where one clicks and types, and writes places.yaml.

MAP is a map_server YAML file, as svfm slam and the service save_map write it. The places are read from and written to
places.yaml beside the map, where `map:=`, svfm train --map and svfm forecast --map find them by themselves; any other
file is given with --out there and places:= or --places later.

for example:
  svfm places maps/house.yaml
  svfm places out/map.yaml --out config/places.yaml

Ctrl-C ends it.
"""

import argparse
import sys
from pathlib import Path

from svfm_ros.atomic_files import check_output
from svfm_ros.cli.output import open_in_browser

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm places``."""
    parser.add_argument("map", type=Path, metavar="MAP", help="map of the house (map_server YAML)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="places to read and write (places.yaml beside the map)"
    )
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port of the page (any that is free)")


def _port(text: str) -> int:
    if not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from svfm_ros.mapio import load_map
    from svfm_ros.types import Places
    from svfm_ros.walks.places import beside_map, load_places
    from svfm_ros.web.places_server import serve_places

    grid = load_map(args.map)
    file = args.out or beside_map(args.map)
    places = load_places(file) if file.exists() else Places()
    check_output(file, read=[args.map])

    def say(line: str) -> None:
        print(line, flush=True)

    def start(address: str) -> None:
        say(f"name the places: {address}")
        open_in_browser(address)

    try:
        serve_places(grid, places, file, args.port, start, say)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return 0
