"""A week of a resident through the live pipeline, and 100 starts and stops: does anything grow that should not?

week: seven simulated days of one person, as fast as no scan is dropped: the driver sends a scan when SLAM has answered
    the one some scans before it. The wearable sleeps while its wearer rests: scans begin a few seconds before each walk
    and end a few seconds after it; the clock goes on. Nodes are real processes.
cycles: the whole graph (svfm run with a simulated house) is started and stopped with Ctrl-C again and again. What is
    left of processes, shared memory and file handles is counted.

It runs in network and mount namespaces of its own and needs the right to make them (root).
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchlib.live_processes import NODES, LiveListener, Processes, wait
from benchlib.namespaces import in_namespaces, own_loopback_and_shared_memory, rerun_in_namespaces

from svfm_ros.cli.output import add_json_argument, report
from svfm_ros.targets import at_least, at_most

PARTS = ("week", "cycles")
_BEFORE_S, _AFTER_S = 3.0, 8.0  # scans around each walk; rests of 3 s end a walk
_WRONG_M = 0.5  # a walk stored farther from where it was walked has a wrong place
_AHEAD = 8  # scans that SLAM has not answered yet


def main(argv=None):
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; both without it")
    parser.add_argument("--days", type=int, default=7, help="simulated days (7)")
    parser.add_argument("--dwell", type=float, default=900.0, help="median stay at a place, seconds (900)")
    parser.add_argument("--pace", type=float, default=np.inf, help="scans a second at most; without it any number")
    parser.add_argument("--cycles", type=int, default=100, help="starts and stops (100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave recordings, stores and logs here")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    if not in_namespaces():
        return rerun_in_namespaces(__file__, argv)
    own_loopback_and_shared_memory()
    checks, payload = [], {}
    for part in args.only or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            out = (args.keep or Path(folder)) / part
            out.mkdir(parents=True, exist_ok=True)
            found, payload[part] = {"week": week, "cycles": cycles}[part](out.absolute(), args)
            checks += found
    return report("a week in hours", checks, payload, args.json)


def week(out, args):
    """Figures at the end of each day."""
    days, motions = record_days(out / "bag", args.days, args.dwell, args.seed)
    store = out / "store"
    parameters = {
        "slam_node": {"store": store, "inbox": 200},
        "trainer_node": {"store": store, "slack": 9.0, "niceness": 0},  # a day takes minutes here
        "forecast_node": {"model": store / "model.pt"},
    }
    with LiveListener() as listener, Processes(out, parameters) as nodes:
        driver = start_driver(out, args.pace, args.seed)
        try:
            rows = [day_figures(listener, nodes, driver, store, number, day) for number, day in enumerate(days, 1)]
        finally:
            driver.kill()
        figures = listener.figures.get("slam_node", {})
    checks = week_checks(rows, float(figures.get("scans_dropped", "nan")))
    off_m = stored_off_m(store, motions)
    checks.append(at_most("walks stored at a wrong place", int(np.sum(off_m > _WRONG_M)), 0))
    return checks, {"days": rows, "worst_walk_off_m": round(float(off_m.max(initial=0.0)), 3)}


def stored_off_m(store, motions):
    """How far each stored walk is from where it was walked, RMS in metres; the first scan is the map's origin."""
    from svfm_ros import geometry
    from svfm_ros.walks.walk_store import WalkStore

    starts_ns = np.array([motion.start_ns for motion in motions])
    T_map_truth = geometry.inverse(motions[0].poses_at(np.zeros(1))[0])
    off_m = []
    for walk in WalkStore.open(store).walks():
        motion = motions[int(np.searchsorted(starts_ns, walk.stamps_ns[0], side="right")) - 1]
        truth = geometry.compose(T_map_truth, motion.poses_at((walk.stamps_ns - motion.start_ns) / 1e9))
        off_m.append(np.sqrt(np.mean(np.sum((walk.poses - truth)[:, :2] ** 2, axis=1))))
    return np.array(off_m)


def record_days(folder, days, dwell_s, seed):
    """Write a bag of a resident's walks, with the rests between them left out.

    Returns scans and walks until each day's end, and the true motion around each walk.
    """
    from dataclasses import replace

    from svfm_ros.config.sim_config import RecordingConfig, ResidentConfig, SimConfig
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.resident import simulate_living
    from svfm_ros.sim.sim_recording import Recorder
    from svfm_ros.sources.bag_writer import BagWriter

    base = SimConfig()
    config = replace(
        base,
        resident=ResidentConfig(seed=seed, dwell_s=dwell_s),
        recording=RecordingConfig(before_s=_BEFORE_S, after_s=_AFTER_S),
    )
    house = load_house("home")
    recorder = Recorder(house, config)
    walks = simulate_living(house, config, seed, float(days), start_hour=0.0)
    first_ns = int(walks[0].walk.stamps_ns[0]) // (86400 * 10**9) * 86400 * 10**9
    ends, motions, last_ns = [], [], 0
    scans = written = 0
    with BagWriter(folder) as bag:
        for walk, recording in zip(walks, recorder.one_per_walk(walks, seed), strict=True):
            while (int(walk.walk.stamps_ns[0]) - first_ns) // (86400 * 10**9) > len(ends):
                ends.append({"scans": scans, "walks": written})
            for scan in recorder.scans(recording):
                if scan.stamp_ns > last_ns:  # scans around two walks in quick succession overlap
                    bag.write_scan(scan)
                    scans, last_ns = scans + 1, scan.stamp_ns
            motions.append(recording.motion)
            written += 1
    return [*ends, {"scans": scans, "walks": written}][-days:], motions


def start_driver(out, pace_hz, seed):
    """The driver process; its output counts the scans."""
    script = Path(__file__).parent / "benchlib" / "faulty_driver.py"
    command = [sys.executable, str(script), str(out / "bag"), "--pace", str(pace_hz), "--ahead", str(_AHEAD)]
    command += ["--seed", str(seed)]
    with (out / "driver.log").open("wb") as log:
        driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, bufsize=1)
    driver.log = out / "driver.log"
    return driver


def sent(driver):
    """Scans that the driver has sent."""
    lines = driver.log.read_text().split()
    return int(lines[-1]) if lines and lines[-1].isdigit() else 0


def day_figures(listener, nodes, driver, store, number, day):
    """Wait for the end of a day; memory, sizes, walks and the time a forecast takes."""
    from svfm_ros.walks.walk_store import WalkStore

    restarts = 0
    while sent(driver) < day["scans"] and driver.poll() is None:
        restarts = nodes.restarts
        nodes.revive()
        time.sleep(0.5)
    time.sleep(2.0)
    late = list(listener.forecast_s)[-500:]
    ms = [1e3 * (listener.forecast_s[n] - listener.scan_s[n]) for n in late if n in listener.scan_s]
    memory = {f"{n}_mb": round(m, 1) for n, m in nodes.megabytes().items()}
    walks = len(WalkStore.open(store))
    sizes = {"store_kb": kilobytes(store, "walks.sqlite*"), "map_kb": kilobytes(store, "map.state")}
    forecast_ms = round(float(np.median(ms)), 1) if ms else float("nan")
    row = {"day": number, "scans": day["scans"], "walked": day["walks"], "walks_stored": walks}
    return {**row, **memory, **sizes, "forecast_ms": forecast_ms, "restarts": restarts}


def kilobytes(folder, pattern):
    """Size of files."""
    return round(sum(path.stat().st_size for path in folder.glob(pattern)) / 1e3, 1)


def week_checks(rows, dropped):
    """The targets of the issue; sizes per walk between the first and the last day."""
    first, last = rows[0], rows[-1]
    per_walk = [row["store_kb"] / max(1, row["walks_stored"]) for row in (first, last)]
    return [
        at_most("scans dropped", dropped, 0),
        at_most("nodes restarted", last["restarts"], 0),
        at_least("walks stored, of those walked", last["walks_stored"] / max(1, last["walked"]), 0.9),
        *(at_most(f"{n}: memory, last day over first", last[f"{n}_mb"] / first[f"{n}_mb"], 1.1) for n in NODES),
        at_most("store per walk, last day over first", per_walk[1] / per_walk[0], 1.1),
        at_most(
            "map, growth over that of the walks",
            (last["map_kb"] / first["map_kb"]) / (last["walks_stored"] / max(1, first["walks_stored"])),
            1.0,
        ),
        at_most("scan to forecast, last day over first", last["forecast_ms"] / first["forecast_ms"], 1.1),
    ]


def cycles(out, args):
    """Start and stop the whole graph; what is left after each time."""
    first = cycle(out, 1)  # what libraries open once is no leak
    before = leftovers()
    rows = [first, *(cycle(out, number) for number in range(2, args.cycles + 1))]
    after = leftovers()
    checks = [
        at_least("starts and stops", len(rows), args.cycles),
        at_most(
            "ends with an exit code that is neither 0 nor 130", sum(row["code"] not in (0, 130) for row in rows), 0
        ),
        at_most("starts without a pose", sum(not row["poses"] for row in rows), 0),
        at_most("processes left", sum(row["processes_left"] for row in rows), 0),
        at_most("files of shared memory left", after["shared"] - before["shared"], 0),
        at_most("file handles of the benchmark gained", after["handles"] - before["handles"], 0),
    ]
    slow = max(rows, key=lambda row: row["stop_s"])
    return checks, {"cycles": len(rows), "slowest_stop_s": slow["stop_s"]}


def cycle(out, number):
    """One start, until there are poses, and one stop."""
    command = [sys.executable, "-m", "svfm_ros.cli.main", "run", f"store:={out / 'store'}"]
    with (out / "run.log").open("ab") as log:
        graph = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    with LiveListener() as listener:
        found = wait(lambda: bool(listener.pose_s) or graph.poll() is not None, 60.0) and bool(listener.pose_s)
    began_s = time.monotonic()
    os.killpg(graph.pid, signal.SIGINT)
    code = graph.wait(60.0)
    stop_s = round(time.monotonic() - began_s, 2)
    wait(lambda: not of_session(graph.pid), 10.0)
    return {
        "cycle": number,
        "code": code,
        "poses": found,
        "stop_s": stop_s,
        "processes_left": len(of_session(graph.pid)),
    }


def of_session(session):
    """Processes of a session that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(path.parent.name)
    return found


def leftovers():
    """Files of shared memory, and file handles of this process."""
    return {
        "shared": sum(1 for path in Path("/dev/shm").iterdir() if "fastrtps" in path.name or "fastdds" in path.name),
        "handles": len(os.listdir("/proc/self/fd")),
    }


if __name__ == "__main__":
    sys.exit(main())
