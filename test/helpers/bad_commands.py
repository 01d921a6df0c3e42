"""The table of commands that must be refused: the files they are given, and the sentence they end with."""

import os
import re
from pathlib import Path

import bad_files as bad
from ask_svfm import Case, Make
from bad_models import MODEL_FILES, PRIORS, RECORDINGS
from tinymodel import fill_store, walks

GOOD_MODEL = "{good}/walks.csv --model {good}/model.pt"


FORECAST = "forecast --model {good}/model.pt --at 1,0 --time 2026-11-16T10:00"
TRAIN = "train {good}/walks.csv --out {here}/m.pt"
SIMULATE = "simulate --walks 2 --walks-csv {here}/w.csv"
CONFIGS = [Case(f"config {n}", SIMULATE + " --config {here}/a.yaml", s, {"a.yaml": t}) for n, t, s in bad.CONFIGS]
MAPS = [Case(f"map {n}", FORECAST + " --map {here}/a.yaml", s, {"a.yaml": t, "a.pgm": p}) for n, t, p, s in bad.MAPS]
CSVS = [Case(f"CSV {n}", "train {here}/a.csv --out {here}/m.pt", s, {"a.csv": d}) for n, d, s in bad.CSVS]
PLACES = [Case(f"places {n}", FORECAST + " --places {here}/a.yaml", s, {"a.yaml": t}) for n, t, s in bad.PLACES]
HOUSES = [
    Case(f"house {n}", SIMULATE + " --profile wandering --house {here}/a.yaml", s, {"a.yaml": t})
    for n, t, s in bad.HOUSES
]


def changed_store(change: Make) -> Make:
    def make(path: Path) -> None:
        fill_store(path, walks(3))
        change(path)

    return make


STORES = [Case(f"store {n}", "store {here}/s", s, {"s": changed_store(c)}) for n, c, s in bad.STORES]
OLD_STORES = [
    Case(f"old store, {n}", "store {here}/new --import {here}/s", s, {"s": changed_store(bad.old_store(t))})
    for n, t, s in bad.OLD_STORES
]

READERS = {
    "map": FORECAST + " --map {here}/a.yaml",
    "CSV": "train {here}/a.csv --out {here}/m.pt",
    "walk so far": "forecast --model {good}/model.pt --walk-so-far {here}/a.csv",
    "places": FORECAST + " --places {here}/a.yaml",
    "model": "forecast --model {here}/a.pt --at 1,0",
    "prior": TRAIN + " --prior {here}/a.pt",
    "map to name places on": "places {here}/a.yaml",
    "options": SIMULATE + " --config {here}/a.yaml",
    "house": SIMULATE + " --house {here}/a.yaml",
    "options of SLAM": "slam {good}/scans.npz --out {here}/m --config {here}/a.yaml",
    "scans": "slam {here}/a.log --out {here}/m",
    "walks to import": "store {here}/new --import {here}/a.csv",
}
NOT_READ = "expected a file, got|got no folder|No such file|nothing at|Too many levels|no regular file|not a rosbag2|"
NOT_READ += "which has a file|no such file or folder"
NO_FILES = [
    Case(f"{reader} that is {name}", command, NOT_READ, {re.search(r"{here}/(a\.\w+)", command)[1]: make})  # type: ignore[index]
    for reader, command in READERS.items()
    for name, make in bad.NO_FILES
]

WRITERS = {
    "train": "train {good}/walks.csv --out OUT",
    "report": "report --store {good}/walks.csv --model {good}/model.pt --out OUT",
    "forecast": FORECAST + " --png OUT.png",
    "evaluate": "evaluate {good}/walks.csv --model {good}/model.pt --png OUT.png",
    "store": "store {good}/store --export OUT",
    "true walks": "simulate --walks 2 --walks-csv OUT",
    "labels": "simulate --walks 2 --labels-csv OUT",
    "map": "simulate --export-map OUT.yaml",
    "places": "simulate --export-places OUT",
    "random house": "simulate --house random:1 --export-house OUT",
    "results": "bench simulate --page OUT",
    "prior": "prior {good}/walks.csv --out OUT",
    "table": "tune {good} --markdown OUT",
}
FOLDER_WRITERS = {
    "bags": "simulate --walks 2 --out OUT",
    "SLAM": "slam {good}/scans.npz --out OUT",
    "reproduce": "reproduce crossing --quick --out OUT",
    "pictures": "pictures front --quick --out OUT",
    "demo": "demo --out OUT",
    "walks of recordings": "train {good}/scans.npz --out {here}/m.pt --store OUT",
}
NO_TARGETS: list[tuple[str, Make, str]] = [
    ("a folder", os.mkdir, "cannot write .*: expected a file, got a folder"),
    ("a pipe", os.mkfifo, "cannot write .*: expected a file, got a pipe"),
    ("a device", lambda path: os.symlink("/dev/null", path), "cannot write .*: expected a file, got a device"),
    ("a link", lambda path: os.symlink("elsewhere", path), "cannot write .*: expected a file, got a symbolic link"),
]


def to(command: str, target: str) -> str:
    return re.sub(r"OUT(\.\w+)?", lambda found: target + (found[1] or ""), command)


OUTPUTS = [
    *(
        Case(f"{writer} onto {name}", to(command, "{here}/a"), sentence, {to("OUT", "a") + ending(command): make})
        for ending in [lambda c: re.search(r"OUT(\.\w+)?", c)[1] or ""]  # type: ignore[index]
        for writer, command in WRITERS.items()
        for name, make, sentence in NO_TARGETS
    ),
    *(
        Case(f"{writer} below a file", to(command, "{here}/a/b"), "cannot write .*: Not a directory", {"a": "x"})
        for writer, command in {**WRITERS, **FOLDER_WRITERS}.items()
    ),
    *(
        Case(f"{writer} where nothing can be written", to(command, "/sys/a"), "cannot write .*: Permission denied")
        for writer, command in {**WRITERS, **FOLDER_WRITERS}.items()
    ),
]


def zone(name: str, sentence: str) -> Case:
    return Case(f"time zone {name!r}", TRAIN + f" --time-zone {name}", sentence)


ARGUMENTS = [
    *(
        Case(f"--time {text}", FORECAST.replace("2026-11-16T10:00", text), sentence)
        for text, sentence in {
            "0001-01-01T00:00": "expected a time from 1970 to 2199",
            "9999-12-31T23:59": "expected a time from 1970 to 2199",
            "2026-13-45": "expected a time such as",
            "tea": "expected a time such as",
            "1e400": "expected a time such as",
            "2026-11-16T25:00": "expected a time such as",
        }.items()
    ),
    *(
        Case(f"--at {text}", FORECAST.replace("1,0", text), sentence)
        for text, sentence in {
            "here": "expected X,Y in metres after --at",
            "1": "expected X,Y in metres after --at",
            "1,2,3": "expected X,Y in metres after --at",
            "nan,0": "expected finite numbers after --at",
            "1e400,0": "expected finite numbers after --at",
            "1e300,0": "expected .* after --at",
            "-1e300,0": "expected .* after --at",
        }.items()
    ),
    *(
        Case(f"--what-if {text}", FORECAST + f" --what-if {text}", "expected an hour such as 23:00 after --what-if")
        for text in ("24:00", "12:60", "noon", "1", "99:99")
    ),
    *(
        Case(f"forecast {option} {value}", f"{FORECAST} {option} {value}", f"{option}: expected")
        for option, values in {
            "--seed": ("-1", "99999999999999999999999"),
            "--samples": ("0", "-5", "1000000000"),
            "--horizon": ("0", "-1", "nan", "inf", "1e300"),
        }.items()
        for value in values
    ),
    *(
        Case(f"forecast {option} {value}", f"{FORECAST} {option} {value}", f"argument {option}: invalid")
        for option in ("--seed", "--samples", "--horizon")
        for value in ("x", "1,5", "[1]")
    ),
    *(
        Case(f"{command.split()[0]} --seed {value}", f"{command} --seed {value}", "--seed: expected")
        for command in (TRAIN, SIMULATE, "evaluate {good}/walks.csv --model {good}/model.pt")
        for value in ("-1", "99999999999999999999999")
    ),
    Case("demo seed", "demo --out {here}/d --seed -1", "--seed: expected"),
    *(
        Case(f"demo {option}", f"demo --out {{here}}/d {option}", "expected a number above 0|invalid number")
        for option in (
            "--rate 0",
            "--rate nan",
            "--rate 1e9",
            "--rate x",
            "--repeats 0",
            "--repeats -3",
            "--repeats 1.5",
        )
    ),
    *(
        Case(f"demo over a folder called {name}", "demo --out {here}", "not from an earlier demo", {name: Path.mkdir})
        for name in ("store", "day")
    ),
    zone("Mars/Olympus", "--time-zone: expected an IANA time zone|expected an IANA time zone"),
    zone("../../etc/passwd", "expected an IANA time zone"),
    zone("/etc/localtime", "expected an IANA time zone"),
    *(
        Case(f"simulate {option}", f"simulate --walks-csv {{here}}/w.csv {option}", sentence)
        for option, sentence in {
            "--walks 0": "expected a number above 0",
            "--walks -3": "expected a number above 0",
            "--walks 1e9": "invalid number",
            "--walks nan": "invalid number",
            "--days nan": "expected a number above 0",
            "--days inf": "expected a number above 0",
            "--minutes 1e400": "expected a number above 0",
            "--minutes 0.001": "expected time for at least one walk",
            "--days 1e8": "--days: expected",
            "--house nowhere": "expected config/houses/nowhere.yaml|expected home, bungalow",
            "--house ../../etc/passwd": "expected config/houses|expected home, bungalow",
            "--house random:": "expected a whole number after random:",
            "--house random:-1": "expected a whole number after random:",
            "--house random:x": "expected a whole number after random:",
            "--resident 3": "expected --walks, --days or --minutes with --resident",
            "--resident -7 --walks 2": "--resident: expected",
            "--resident 99999999999999999999999 --walks 2": "--resident: expected",
            "--weekend --walks 2": "expected --resident with --weekend",
            "--change-day 99999 --resident 1 --walks 2": "--change-day: expected",
            "--dwell 1e8 --days 1": "--dwell: expected",
            "--turn-rate 1e8": "--turn-rate: expected",
            "--shift 1e300 0": "--shift: expected",
            "--shift nan 0": "--shift: expected",
            "--people 100000": "--people: expected",
            "--furniture 1e8": "--furniture: expected",
            "--start-hour nan --days 1": "--start-hour: expected",
            "--start-hour 99 --days 1": "--start-hour: expected",
            "--start-hour -1e300 --days 1": "--start-hour: expected",
            "--profile pirate": "invalid choice",
            "--one-bag --walks 3": "expected --one-bag with the protocol alone",
            "--repeats 0": "expected a number above 0",
            "--storage zip": "invalid choice",
        }.items()
    ),
    Case("nothing to write", "simulate --walks 2", "expected something to write"),
    Case("map with another ending", "simulate --export-map {here}/a.png", "expected a map's name that ends in .yaml"),
    Case("export of a given house", "simulate --export-house {here}/a.yaml", "expected a house drawn at random"),
    Case(
        "a bag in the way",
        "simulate --repeats 1 --out {here}/o",
        "--overwrite replaces it",
        {"o/walk-00000/metadata.yaml": "x"},
    ),
    *(
        Case(f"slam {option}", f"slam {{good}}/scans.npz --out {{here}}/m {option}", sentence)
        for option, sentence in {
            "--resolution 0": "--resolution: expected",
            "--resolution -1": "--resolution: expected",
            "--resolution nan": "--resolution: expected",
            "--resolution 1e300": "--resolution: expected",
            "--resolution fine": "argument --resolution: invalid float",
            "--map {good}/map.yaml --resolution 0.1": "does not go with --map",
            "--map {here}/none.yaml": "No such file",
            "--config {here}/none.yaml": "No such file",
        }.items()
    ),
    Case("picture with another ending", FORECAST + " --png {here}/a.jpg", "expected a file that ends in .png"),
    Case(
        "picture of an evaluation", "evaluate {good}/walks.csv --model {good}/model.pt --png {here}/a", "ends in .png"
    ),
    Case(
        "few samples", "evaluate {good}/walks.csv --model {good}/model.pt --samples 3", "expected at least 20 samples"
    ),
    Case(
        "many samples", "evaluate {good}/walks.csv --model {good}/model.pt --samples 1000000000", "--samples: expected"
    ),
    Case("no position", "forecast --model {good}/model.pt", "expected where they are"),
    Case(
        "walk so far elsewhere",
        "forecast --model {good}/model.pt --at 9,9 --walk-so-far {here}/a.csv",
        "m from there",
        {"a.csv": bad.CSV},
    ),
    Case("two walks so far", "forecast --model {good}/model.pt --walk-so-far {good}/walks.csv", "expected one walk"),
    Case("unknown resident", TRAIN + " --resident nobody", "expected a resident of"),
    Case("resident with an escape code", TRAIN + " --resident \x1b[31m[/bold]", r"got '\\x1b\[31m\[/bold\]'"),
    Case("two stores", "train {good}/store {good}/walks.csv --out {here}/m.pt", "expected one walk store or CSV file"),
    Case("no walks there", "train {here}/none --out {here}/m.pt", "got nothing at"),
    Case("go on from nothing", TRAIN + " --continue-from {here}/none.pt", "No such file"),
    Case(
        "go on in another zone",
        TRAIN + " --continue-from {good}/model.pt --time-zone Asia/Tokyo",
        "expected the model's time zone",
    ),
    Case("store without a store", "store {here}/none", "got no folder"),
    Case("import of nothing", "store {here}/new --import {here}/none", "got nothing at"),
    Case("import of itself", "store {good}/store --import {good}/store", "expected another store"),
    Case("--resident alone", "store {good}/store --resident mary", "--resident goes with --import"),
    Case("nobody to delete", "store {good}/store --delete-resident nobody", "expected a resident among"),
    Case("import and export", "store {good}/store --import a --export b", "not allowed with"),
    Case(
        "a store in a full folder",
        "store {here}/s --import {good}/walks.csv",
        "expected a new or empty folder",
        {"s/letter.txt": "x"},
    ),
    Case(
        "report without walks",
        "report --store {here}/none --model {good}/model.pt --out {here}/r.html",
        "got nothing at",
    ),
    Case(
        "report without a model",
        "report --store {good}/walks.csv --model {here}/none --out {here}/r.html",
        "No such file",
    ),
    *(
        Case(f"run {pairs}", f"run web:=false {pairs}", sentence)
        for pairs, sentence in {
            "bag": "expected NAME:=VALUE, got 'bag'",
            "colour:=red": "unknown argument 'colour'",
            "what_if_hour:=99": "what_if_hour: expected 0 to 24, got 99",
            "what_if_hour:=nan": "what_if_hour: expected 0 to 24, got nan",
            "rate:=fast": "rate: expected a number, got 'fast'",
            "live:=maybe": "live: expected true or false, got 'maybe'",
            "namespace:=mary-ann": "namespace: expected a ROS name",
            "network:=wan": "network: expected local or lan, got 'wan'",
            "web_host:=example.org": "web_host: expected an IP address",
            "live:=true scan:=a-b": "scan: expected the name of a topic, got 'a-b'",
            "live:=true bag:={good}/scans.npz": "expected either bag:= or live:=true, got both",
            "loop:=true": "loop:= goes with bag:=",
            "live:=true rate:=2": "rate:= goes with bag:= or the simulated house",
            "bag:={here}/none": "bag: expected a bag, but .* does not exist",
            "map:={here}/none.yaml": "cannot read .*none.yaml: No such file",
            "places:={here}/none.yaml": "cannot read .*none.yaml: No such file",
            "params_file:={here}/none.yaml": "cannot read .*none.yaml: No such file",
            "params_file:={good}": "expected a file, got a folder",
            "params_file:=/dev/zero": "expected a file, got a device",
            "model:={good}": "expected a file, got a folder",
            "model:={good}/walks.csv": "model: expected a walk model or the name of a new one, but .* is another file",
            "store:={good}/walks.csv": "store: expected a folder, got the file",
            "record:={good}": "record: expected the name of a new bag",
            "record:=/sys/a": "cannot write /sys/a: Permission denied",
        }.items()
    ),
    *(
        Case(f"run with {name} that is a pipe", f"run web:=false {name}:={{here}}/a", "got a pipe", {"a": os.mkfifo})
        for name in ("bag", "map", "places", "model", "params_file")
    ),
    *(
        Case(f"run with parameters {text[:20]!r}", "run web:=false params_file:={here}/a.yaml", said, {"a.yaml": text})
        for text, said in {
            "\0": "is not a file of parameters in YAML",
            "[" * 5_000: "nested too deeply",
            "": "params_file: expected NODE",
            "[1]": "params_file: expected NODE",
            "slam_node: 3": "params_file: expected NODE",
            "slam_node: {store: x}": "params_file: expected NODE",
            "slam_node: {ros__parameters: 3}": "params_file: expected NODE",
        }.items()
    ),
    Case("places on a port of 99999", "places {good}/map.yaml --port 99999", "expected a port from 0 to 65535"),
    Case("places on a port below 0", "places {good}/map.yaml --port -1", "expected a port from 0 to 65535"),
    Case("places of nothing", "places {here}/none.yaml", "No such file"),
    Case("places of a picture", "places {good}/map.pgm", "is not a map of map_server in YAML"),
    Case(
        "a page of places where nothing can be written",
        "places {good}/map.yaml --out /sys/a",
        "cannot write /sys/a: Permission denied",
    ),
    Case("prior of nothing", "prior {here}/none --out {here}/p", "got nothing at"),
    Case("prior of a model", "prior {good}/model.pt --out {here}/p", "expected a home to learn from"),
    Case("tune of nothing", "tune {here}/none", "expected a folder of homes"),
    Case("fleet of nothing", "fleet run {here}/none --out {here}/o", "expected a folder of homes"),
    Case("fleet with another action", "fleet walk {here} --out {here}/o", "invalid choice: 'walk'"),
    *(
        Case(f"{name} over what is read", command, "it is what is read, and would be lost")
        for name, command in {
            "train": "train {good}/walks.csv --out {good}/walks.csv",
            "report": f"report --store {GOOD_MODEL} --out {{good}}/model.pt",
            "report over walks": f"report --store {GOOD_MODEL} --out {{good}}/walks.csv",
            "prior": "prior {good}/walks.csv --out {good}/walks.csv",
            "simulate": "simulate --config {good}/options.yaml --walks-csv {good}/options.yaml",
        }.items()
    ),
    *(
        Case(f"{name} over a store", command, "it is a database, such as a walk store")
        for name, command in {
            "export": "store {good}/store --export {good}/store/walks.sqlite",
            "train": "train {good}/store --out {good}/store/walks.sqlite",
            "report": f"report --store {GOOD_MODEL} --out {{good}}/store/walks.sqlite",
            "simulate": "simulate --walks 2 --walks-csv {good}/store/walks.sqlite",
        }.items()
    ),
    Case("one file for two outputs", "simulate --walks 2 --walks-csv {here}/a --labels-csv {here}/a", "the same one"),
    Case(
        "a model with a long name", f"forecast --model {'a' * 5000} --at 1,0", "cannot read a.* ... a*: File name too"
    ),
    Case("a position of 5,000 digits", FORECAST.replace("1,0", "9" * 5000 + ",0"), "expected finite numbers"),
    Case("time beyond a day", FORECAST.replace("T10:00", "T10:00+99:00"), "expected a time such as"),
    Case("train of a folder", "train /etc --out {here}/m.pt", "which has a file walks.sqlite"),
    Case("walks from standard input", "train /dev/null --out {here}/m.pt", "expected a file, got a device"),
    Case("store of a file", "store {good}/walks.csv", "got no folder"),
    Case("unknown experiment", "reproduce nonsense", "expected some of"),
    Case("unknown picture", "pictures nonsense --out {here}/p", "expected some of"),
    Case("unknown benchmark", "bench nonsense", "expected some of"),
    Case("unknown command", "forcast", "invalid choice: 'forcast'"),
    Case("unknown option", "train --fast", "required: WALKS, --out"),
    Case("missing option", "forecast --at 1,0", "required: --model"),
    Case("option twice as list", "forecast --model", "expected one argument"),
]

MODELS = [
    Case(f"model {n}", FORECAST.replace("{good}/model.pt", "{here}/a.pt"), s, {"a.pt": m}) for n, m, s in MODEL_FILES
]
POPULATIONS = [Case(f"prior, {n}", TRAIN + " --prior {here}/a.pt", s, {"a.pt": m}) for n, m, s in PRIORS]
SCANS = [
    Case(f"scans, {n}", f"slam {{here}}/{f.partition('/')[0]} --out {{here}}/m", s, {f: c}) for n, f, c, s in RECORDINGS
]
CASES = [
    *MAPS,
    *CSVS,
    *PLACES,
    *HOUSES,
    *CONFIGS,
    *STORES,
    *OLD_STORES,
    *NO_FILES,
    *OUTPUTS,
    *ARGUMENTS,
    *MODELS,
    *POPULATIONS,
    *SCANS,
]
