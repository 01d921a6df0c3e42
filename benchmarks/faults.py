"""A campaign of faults against the live pipeline: what is lost, and how long until poses and forecasts come again.

A resident's walks and rests are replayed five times as fast by a driver of its own; SLAM, trainer and forecaster are
real processes that are started again when they end, as by launch. Every 20 s comes a fault, drawn by the seed from:
kill and stop (SIGKILL; SIGSTOP for some seconds) of each node, a full disk, clock steps of an hour either way, scans
that are dropped, doubled, reordered or corrupted, a damaged map file before a kill of SLAM, a damaged model file before
a kill of the forecaster, no network between SLAM and forecaster (rules on the loopback interface), load on all cores.

It runs in network and mount namespaces of its own and needs the right to make them (root).
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchlib.faults_injected import KINDS, Campaign
from benchlib.live_processes import NODES, LiveListener, Processes, record_life, wait
from benchlib.namespaces import in_namespaces, own_loopback_and_shared_memory, rerun_in_namespaces

from svfm_ros.cli.output import add_json_argument, report
from svfm_ros.targets import at_least, at_most

_DISK = "256m"  # size of the store's file system
_QUIET_S = 40.0  # after the last fault, and before the first
_WATCH_S = 0.25
_FIRST_MODEL_S = 600.0


def main(argv=None):
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the campaign (60)")
    parser.add_argument("--rate", type=float, default=5.0, help="times real time (5)")
    parser.add_argument("--every", type=float, default=20.0, help="seconds from fault to fault (20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=[k.name for k in KINDS], help="these faults only")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave recordings, store and logs here")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    if not in_namespaces():  # shared memory cannot be cut by rules of the network: everything goes over loopback
        return rerun_in_namespaces(__file__, argv, FASTDDS_BUILTIN_TRANSPORTS="UDPv4")
    with tempfile.TemporaryDirectory() as folder:
        out = args.keep or Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        checks, payload = run(out.absolute(), args)
    return report("a campaign of faults", checks, payload, args.json)


def run(out, args):
    """The recording, the campaign, and what is left after it."""
    seconds = _FIRST_MODEL_S + 60.0 * args.minutes + 2 * _QUIET_S
    scans = record_life(out / "bag", seconds * args.rate, args.seed)
    store = out / "store"
    store.mkdir(exist_ok=True)
    prepare_namespaces(store)
    parameters = {
        "slam_node": {"store": store},
        "trainer_node": {"store": store, "min_walks": 8, "slack": 9.0, "niceness": 0},
        "forecast_node": {"model": store / "model.pt"},
    }
    with LiveListener() as listener, Processes(out, parameters) as nodes:
        driver = start_driver(out, 10.0 * args.rate, args.seed)
        campaign = Campaign(listener, nodes, driver, store, args.rate)
        try:
            found = run_campaign(campaign, args)
        finally:
            driver.kill()
    return checks_of(campaign, found), {
        "seed": args.seed,
        "minutes": args.minutes,
        "scans": scans,
        "walks_announced": len(listener.walk_ends_ns),
        "models_announced": len(listener.models),
        "restarts_of_nodes": nodes.restarts,
        "faults": campaign.by_kind(),
        "memory": [{"node": n, **found["memory"][n]} for n in NODES],
    }


def prepare_namespaces(store):
    """A small file system for the store; the routes of loopback after our rules."""
    own_loopback_and_shared_memory()
    for command in (
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK},mode=700", "store", str(store)],
        ["ip", "rule", "add", "pref", "1000", "lookup", "local"],
        ["ip", "rule", "del", "pref", "0"],
    ):
        subprocess.run(command, check=True)


def start_driver(out, pace_hz, seed):
    """The driver process."""
    script = Path(__file__).parent / "benchlib" / "faulty_driver.py"
    command = [sys.executable, str(script), str(out / "bag"), "--pace", str(pace_hz), "--seed", str(seed)]
    with (out / "driver.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, bufsize=1)


def run_campaign(campaign, args):
    """Fault after fault, then quiet; figures of the end."""
    rng = random.Random(args.seed)
    kinds = [k for k in KINDS if args.kinds is None or k.name in args.kinds]
    if not wait(lambda: campaign.watch() and campaign.has_model(), _FIRST_MODEL_S):
        raise SystemExit(f"no model was learnt within {_FIRST_MODEL_S:.0f} s, before the first fault")
    order = []
    end_s = time.monotonic() + 60.0 * args.minutes
    memory = []
    while (begun_s := time.monotonic()) < end_s:
        order = order or rng.sample(kinds, len(kinds))  # every kind equally often
        campaign.inject(order.pop(), rng)
        while time.monotonic() < begun_s + args.every:
            campaign.watch()
            memory.append(campaign.nodes.megabytes())
            time.sleep(_WATCH_S)
    campaign.end_faults()
    wait(lambda: campaign.watch() and False, _QUIET_S)
    memory.append(campaign.nodes.megabytes())
    found = campaign.at_the_end()
    found["memory"] = {n: growth([m.get(n, np.nan) for m in memory]) for n in NODES}
    return found


def growth(values):
    """Median resident memory (MB) of the second and of the last sixth of the campaign."""
    sixth = max(1, len(values) // 6)
    early, late = (float(np.nanmedian(part)) for part in (values[sixth : 2 * sixth] or values, values[-sixth:]))
    return {"early_mb": round(early, 1), "late_mb": round(late, 1)}


def checks_of(campaign, found):
    """The targets of the issue."""
    memory = found["memory"]
    return [
        at_least("faults", len(campaign.faults), 1),
        at_most("walks announced and not stored", found["walks_lost"], 0),
        at_most("walks in the store that cannot be read", found["walks_damaged"], 0),
        at_least("map kept, share of the largest map's cells", found["map_share"], 0.95),
        at_least("map file can be read", found["map_file_reads"], 1),
        at_least("the last good model is in use", found["last_good_model_in_use"], 1),
        at_least("nodes alive and heard from", found["alive"], len(NODES)),
        at_most("nodes that did not end within 60 s of SIGTERM", campaign.nodes.slow_stops, 0),
        *(at_most(f"{n}: memory, late over early", m["late_mb"] / m["early_mb"], 1.1) for n, m in memory.items()),
    ]


if __name__ == "__main__":
    sys.exit(main())
