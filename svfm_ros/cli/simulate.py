"""Make walks through a simulated house: rosbags of a worn LiDAR, the true walks, a map.

By default this is the protocol of the paper: from the couch to each of the other places, ten times each,
one bag per walk. --walks, --days and --minutes simulate living instead, where the hour decides where people go;
with --resident, a person drawn at random with habits of their own.

for example:
  svfm simulate --out out/walks                            40 walks, one bag each, with the truth beside them
  svfm simulate --out out/tour --one-bag                   the same as one recording, with the ways back
  svfm simulate --minutes 30 --dwell 20 --out out/living   half an hour of someone who stays nowhere for long
  svfm simulate --walks 2000 --walks-csv walks.csv         true walks alone, thousands in seconds
  svfm simulate --house random:7 --resident 3 --days 30 --weekend --walks-csv walks.csv
                                                           a month of one person in a house drawn at random
  svfm simulate --one-bag --imu --people 2 --doors --worse-lidar --out out/hard
                                                           a loosely worn, poor sensor in a busy home
  svfm simulate --house my_house.yaml --export-map my_map.yaml

--out holds one folder per bag (/scan, /ground_truth/pose; /imu and /odom on demand), walks.csv (walk_id,t,x,y),
labels.csv (who went where) and simulation.yaml (every option used). The same options and seed give the same messages.
"""

import argparse
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.atomic_files import check_output, check_output_folder, make_folder, writing
from svfm_ros.cli.output import add_json_argument, positive, print_json, print_table, seed
from svfm_ros.errors import UsageError
from svfm_ros.progress import progress
from svfm_ros.wording import readable

if TYPE_CHECKING:
    from svfm_ros.config.sim_config import SimConfig
    from svfm_ros.sim.house import House
    from svfm_ros.sim.sim_recording import Recorder, Recording
    from svfm_ros.sim.trips import LabelledWalk
    from svfm_ros.types import Walk

__all__ = ["OPTION_NAMES", "add_arguments", "run"]

OPTION_NAMES = {
    "ResidentConfig.seed": "--resident",
    "RecordingConfig.turn_radps": "--turn-rate",
    "RecordingConfig.origin_x_m": "--shift",
    "RecordingConfig.origin_y_m": "--shift",
}
"""Options of the command line whose field in a config has another name."""

_MOST_DAYS = 3660.0
_MICROSECOND_NS = 1000
_EFFECTS = {
    "noise": "range noise",
    "quantisation": "steps of the range",
    "drops": "beams that bring nothing back",
    "motion": "motion of the wearer during a sweep",
    "shadow": "the shadow of the wearer's body",
    "sway": "tilt and bounce of the sensor with the steps",
}


_HOUSEHOLD = {
    "people": "other people who walk through the house",
    "pets": "pets that walk through the house",
    "clutter": "tall things that stand somewhere else on each day",
    "windows": "panes of glass in the outer walls: seen head-on only",
    "mirrors": "mirrors on the walls: beams go on to what they show",
    "doors": "other angles on each day, shut where the wearer does not pass",
    "furniture": "chairs stand M metres (standard deviation) off, by day",
}


@dataclass(frozen=True, slots=True)
class _Written:
    """What the bags hold."""

    bags: int = 0
    scans: int = 0
    recorded_s: float = 0.0
    took_s: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm simulate``."""
    parser.add_argument(
        "--house", default="home", metavar="HOUSE", help="home, bungalow, random:SEED, or a drawing of your own"
    )
    _add_walk_arguments(parser.add_argument_group("who walks"))
    _add_output_arguments(parser.add_argument_group("what to write (at least one)"))
    _add_household_arguments(parser.add_argument_group("life in the house, for the sensors"))
    sensor = parser.add_argument_group("the sensors")
    sensor.add_argument("--imu", action="store_true", help="record an IMU of the MPU-6050 class: /imu")
    sensor.add_argument("--odometry", action="store_true", help="record dead reckoning: /odom")
    sensor.add_argument(
        "--turn-rate", type=positive(float), metavar="R", help="turns on the spot, rad/s on average (1.2)"
    )
    sensor.add_argument(
        "--worse-lidar",
        action="store_true",
        help="5.5 Hz, 180 beams, 6 m, 3 cm noise, 30 %% of beams lost, 10 deg swing",
    )
    for effect, text in _EFFECTS.items():
        sensor.add_argument(f"--no-{effect}", action="store_true", help=f"without {text}")
    sensor.add_argument("--ideal", action="store_true", help="without any of these effects")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="options by section: walker, habits, resident, lidar, imu, ..."
    )
    add_json_argument(parser)


def _add_walk_arguments(group: Any) -> None:
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--protocol", action="store_true", help="the paper's walks from the couch (the default)")
    kind.add_argument("--walks", type=positive(int), metavar="N", help="N walks from the couch at any hour")
    kind.add_argument(
        "--days", type=positive(float, _MOST_DAYS), metavar="D", help="D days of living: walk, stay, walk on"
    )
    kind.add_argument("--minutes", type=positive(float, _MOST_DAYS * 1440), metavar="M", help="M minutes of living")
    group.add_argument("--repeats", type=positive(int), default=10, metavar="N", help="walks per target (10)")
    group.add_argument("--profile", choices=("paper", "routine", "wandering"), help="where people go by the hour")
    group.add_argument(
        "--resident", type=int, metavar="SEED", help="draw a person: pace, route, side, hours, habits, pauses"
    )
    group.add_argument("--weekend", action="store_true", help="a resident with other habits at the weekend")
    group.add_argument(
        "--change-day", type=positive(int), metavar="N", help="a resident with a new routine N days after the first"
    )
    group.add_argument("--dwell", type=positive(float), metavar="S", help="median stay at a place, seconds")
    group.add_argument("--start-hour", type=_hour, default=8.0, metavar="H", help="hour at which living begins (8)")
    group.add_argument("--seed", type=seed, default=0, help="another seed, other walks (0)")


def _add_household_arguments(group: Any) -> None:
    for name in ("people", "pets", "clutter", "windows", "mirrors"):
        group.add_argument(f"--{name}", type=positive(int), metavar="N", help=_HOUSEHOLD[name])
    group.add_argument("--doors", action="store_true", help=_HOUSEHOLD["doors"])
    group.add_argument("--furniture", type=positive(float), metavar="M", help=_HOUSEHOLD["furniture"])


def _add_output_arguments(group: Any) -> None:
    group.add_argument("--out", type=Path, metavar="DIR", help="bags, with the truth beside them")
    group.add_argument("--one-bag", action="store_true", help="the protocol as one recording, with the ways back")
    group.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap", help="file format of the bags (mcap)")
    group.add_argument("--overwrite", action="store_true", help="replace older bags of the same name")
    group.add_argument("--walks-csv", type=Path, metavar="FILE", help="true walks: walk_id,t,x,y")
    group.add_argument("--labels-csv", type=Path, metavar="FILE", help="walk_id,origin,destination,start,end")
    group.add_argument("--export-map", type=Path, metavar="FILE", help="map in map_server's format, .yaml beside .pgm")
    group.add_argument("--export-places", type=Path, metavar="FILE", help="the places of the house")
    group.add_argument("--export-house", type=Path, metavar="FILE", help="the drawing of a house drawn at random")
    group.add_argument(
        "--shift", type=float, nargs=2, metavar=("X", "Y"), help="added to all true positions, as for UTM coordinates"
    )


def _hour(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < 24.0:
        raise argparse.ArgumentTypeError(f"expected an hour of the day, from 0 to 24, got {text}")
    return value


def run(args: argparse.Namespace) -> int:
    """Simulate and write the chosen outputs."""
    from svfm_ros.sim.house import load_house

    files = (args.walks_csv, args.labels_csv, args.export_map, args.export_places, args.export_house)
    if not any((args.out, *files)):
        raise UsageError("expected something to write: --out, --walks-csv, --labels-csv or one of --export-...")
    if args.one_bag and (args.walks or args.days or args.minutes):
        raise UsageError("expected --one-bag with the protocol alone: --days and --minutes are one bag anyway")
    given = [path for path in files if path]
    if len({path.absolute() for path in given}) < len(given):
        raise UsageError("expected another file for each output, got the same one twice")
    for path in given:
        check_output(path, read=[Path(args.house), *([args.config] if args.config else [])])
    if args.out:
        check_output_folder(args.out)
    config = _config(args)
    if config.resident.seed >= 0 and not (args.walks or args.days or args.minutes):
        raise UsageError("expected --walks, --days or --minutes with --resident: the protocol has no habits")
    if config.resident.seed < 0 and (args.weekend or args.change_day):
        raise UsageError("expected --resident with --weekend or --change-day: they change a resident's habits")
    house = load_house(args.house)
    _export(args, house, config)
    if not any((args.out, args.walks_csv, args.labels_csv)):
        return 0
    began = time.perf_counter()
    walks = _walks(args, house, config)
    walked_s = time.perf_counter() - began
    written = _write_bags(args, house, config, walks) if args.out else _Written()
    _write_truth(args, config, walks)
    _report(args, house, walks, walked_s, written)
    return 0


def _config(args: argparse.Namespace) -> "SimConfig":
    from svfm_ros.config.options import load_yaml
    from svfm_ros.config.sim_config import WORSE_LIDAR, SimConfig

    config = load_yaml(SimConfig, args.config) if args.config else SimConfig()
    off = {e: False for e in _EFFECTS if args.ideal or getattr(args, f"no_{e}")}
    habits = {"profile": args.profile, "dwell_s": args.dwell}
    person = {"seed": args.resident, "change_day": args.change_day, "weekend": args.weekend or None}
    if args.resident is not None:
        person["dwell_s"] = args.dwell
    shift = args.shift or (None, None)
    recording = {"turn_radps": args.turn_rate, "origin_x_m": shift[0], "origin_y_m": shift[1]}
    household = {
        name: getattr(args, name) or None for name in ("people", "pets", "clutter", "windows", "mirrors", "doors")
    }
    return replace(
        config,
        lidar=replace(WORSE_LIDAR if args.worse_lidar else config.lidar, **off),
        imu=replace(config.imu, enabled=config.imu.enabled or args.imu),
        odometry=replace(config.odometry, enabled=config.odometry.enabled or args.odometry),
        household=replace(config.household, **_given({**household, "furniture_m": args.furniture})),
        recording=replace(config.recording, **_given(recording)),
        habits=replace(config.habits, **_given(habits)),
        resident=replace(config.resident, **_given(person)),
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if v is not None}


def _export(args: argparse.Namespace, house: "House", config: "SimConfig") -> None:
    if args.export_map:
        from svfm_ros.mapio import save_map
        from svfm_ros.sim.house import floor_plan
        from svfm_ros.types import Pose2

        if args.export_map.suffix != ".yaml":
            raise UsageError(f"expected a map's name that ends in .yaml, got {args.export_map}")
        grid = floor_plan(house, config.lidar.height_m)
        x, y = config.recording.origin_x_m, config.recording.origin_y_m
        save_map(replace(grid, T_map_grid=Pose2(x, y, 0.0) @ grid.T_map_grid), args.export_map)
    if args.export_places:
        from svfm_ros.types import Places
        from svfm_ros.walks.places import save_places

        x, y = config.recording.origin_x_m, config.recording.origin_y_m
        with writing(args.export_places):
            save_places(Places(tuple(replace(p, x=p.x + x, y=p.y + y) for p in house.places)), args.export_places)
    if args.export_house:
        from svfm_ros.sim.random_house import write_drawing

        write_drawing(args.house, args.export_house)


def _walks(args: argparse.Namespace, house: "House", config: "SimConfig") -> "list[LabelledWalk]":
    from svfm_ros.sim.resident import resident_of, simulate_living, simulate_resident
    from svfm_ros.sim.walker import simulate_habit, simulate_protocol

    if args.walks and config.resident.seed >= 0:
        return simulate_resident(house, resident_of(house, config), walks=args.walks, seed=args.seed)
    if args.walks:
        return simulate_habit(house, config.walker, args.seed, args.walks, habits=config.habits)
    if not _days(args):
        return simulate_protocol(
            house, config.walker, args.seed, args.repeats, habits=config.habits, and_back=args.one_bag
        )
    walks = simulate_living(house, config, args.seed, _days(args), args.start_hour)
    if not walks:
        raise UsageError("expected time for at least one walk, got none: try more --minutes or a shorter --dwell")
    return walks


def _write_truth(args: argparse.Namespace, config: "SimConfig", walks: "list[LabelledWalk]") -> None:
    from svfm_ros.sim.sim_recording import write_labels_csv
    from svfm_ros.sim.trips import shifted_walks
    from svfm_ros.walks.walk_csv import write_walks_csv

    walks = shifted_walks(walks, config.recording.origin_x_m, config.recording.origin_y_m)

    for path in (args.walks_csv, args.out and args.out / "walks.csv"):
        if path:
            write_walks_csv([_as_measured(one.walk) for one in walks], path)
    for path in (args.labels_csv, args.out and args.out / "labels.csv"):
        if path:
            write_labels_csv(walks, path)


def _as_measured(walk: "Walk") -> "Walk":
    """The walk as a tracker would write it: to the microsecond and a tenth of a millimetre, without a name."""
    from svfm_ros.walks.walk_csv import NOBODY

    stamps_ns = walk.stamps_ns // _MICROSECOND_NS * _MICROSECOND_NS
    return replace(walk, stamps_ns=stamps_ns, poses=walk.poses.round(4), resident=NOBODY)


def _write_bags(args: argparse.Namespace, house: "House", config: "SimConfig", walks: "list[LabelledWalk]") -> _Written:
    from svfm_ros.config.options import dump_yaml
    from svfm_ros.sim.sim_recording import Recorder

    recorder = Recorder(house, config)
    recordings = _recordings(args, recorder, config, walks)
    in_the_way = [r.name for r in recordings if (args.out / r.name).exists()]
    if in_the_way and not args.overwrite:
        raise UsageError(f"expected a new folder, got {args.out} with the bag {in_the_way[0]}; --overwrite replaces it")
    check_output_folder(args.out, sum(recorder.count(r) for r in recordings) * _scan_bytes(config))
    make_folder(args.out)
    dump_yaml(config, args.out / "simulation.yaml")
    began = time.perf_counter()
    scans = 0
    with progress() as bar:
        task = bar.add_task("recording", total=sum(recorder.count(r) for r in recordings), note="")
        for recording in recordings:
            bar.update(task, note=recording.name)
            scans += recorder.write(
                recording, args.out / recording.name, args.storage, args.overwrite, lambda: bar.advance(task)
            )
    recorded_s = sum(r.motion.duration_s for r in recordings)
    return _Written(len(recordings), scans, recorded_s, time.perf_counter() - began)


def _scan_bytes(config: "SimConfig") -> int:
    """What a scan takes in a bag, with the true poses and inertial readings beside it."""
    return config.lidar.beams * 4 + 1000


def _recordings(
    args: argparse.Namespace, recorder: "Recorder", config: "SimConfig", walks: "list[LabelledWalk]"
) -> "list[Recording]":
    from svfm_ros.sim.walker import span_of_days

    if _days(args):
        span = span_of_days(config.habits, _days(args), args.start_hour)
        return [recorder.all_in_one(walks, args.seed, span_ns=span)]
    return [recorder.all_in_one(walks, args.seed)] if args.one_bag else recorder.one_per_walk(walks, args.seed)


def _days(args: argparse.Namespace) -> float:
    return float(args.days or (args.minutes or 0.0) / (24.0 * 60.0))


def _report(
    args: argparse.Namespace, house: "House", walks: "list[LabelledWalk]", walked_s: float, written: _Written
) -> None:
    ends = [w.destination for w in walks]
    figures: dict[str, Any] = {
        "house": house.name,
        "seed": args.seed,
        "walks": len(walks),
        "walks_by_destination": {n: ends.count(n) for n in house.places.names if n in ends},
        "walks_took_s": round(walked_s, 3),
    }
    if args.out:
        figures |= {f.name: getattr(written, f.name) for f in fields(written)}
        figures |= {"times_real_time": written.recorded_s / max(written.took_s, 1e-9), "out": str(args.out)}
    if args.json:
        print_json(figures)
        return
    figures["walks_by_destination"] = ", ".join(f"{n} {k}" for n, k in figures["walks_by_destination"].items())
    shown = {readable(k): f"{v:.1f}" if isinstance(v, float) else v for k, v in figures.items()}
    print_table("simulated", ("what", "value"), shown.items())
