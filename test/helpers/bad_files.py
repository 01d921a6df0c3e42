"""Tables of bad files: for each kind of file, what is in it and what is said about it."""

import gzip
import json
import os
import sqlite3
from contextlib import closing

MARKUP = "[/bold]\x1b[31m"  # closes a tag that is not open, and turns a terminal red

# --- maps ---
SHEET = {"image": "a.pgm", "resolution": "0.05", "origin": "[0, 0, 0]"}
PICTURE = b"P5\n2 1\n255\n\x00\xfe"
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefghijklmnopqrstuvwxy", "bcdefghijklmnopqrstuvwxyz", strict=True)
)


def sheet(**changes):
    """The YAML file of a map."""
    return "".join(f"{key}: {value}\n" for key, value in {**SHEET, **changes}.items())


NO_RESOLUTION = "expected resolution as a number from 0.0001 to 100, got"
MAPS = [
    *(
        (f"resolution {value}", sheet(resolution=value), PICTURE, NO_RESOLUTION)
        for value in ("coarse", "[0.05]", "null", "1e-300", ".inf", ".nan", "-1", "{a: 1}", "1e400", "0", "2026-11-18")
    ),
    *(
        (f"{key} {value}", sheet(**{key: value}), PICTURE, f"expected {key} as a number from 0 to 1, got")
        for key in ("occupied_thresh", "free_thresh", "negate")
        for value in ("high", "[0.5]", "null", ".inf", ".nan", "-1", "7")
    ),
    *(
        (f"origin {value}", sheet(origin=value), PICTURE, "expected an origin")
        for value in ("here", "null", "[0, 0]", "[0, 0, x]", "[.nan, 0, 0]", "[.inf, 0, 0]", "[1e300, 0, 0]", "{a: 1}")
    ),
    *(
        (f"image {value}", sheet(image=value), PICTURE, "expected the name of a picture")
        for value in ("null", "[a.pgm]", "3", '""', '"a\\0b"')
    ),
    ("image that is a folder", sheet(image="."), PICTURE, "expected a file, got a folder"),
    ("image that is a device", sheet(image="/dev/zero"), PICTURE, "expected a file, got a device"),
    ("image that is not there", sheet(image="b.pgm"), PICTURE, "No such file"),
    ("unsupported mode", sheet(mode="raw"), PICTURE, "expected mode trinary, got 'raw'"),
    ("mode that is a list", sheet(mode="[raw]"), PICTURE, "expected mode trinary"),
    ("deep YAML", "[" * 5_000, PICTURE, "nested too deeply"),
    ("YAML that grows", LAUGHS + sheet(mode="*z"), PICTURE, "expected mode trinary, got"),
    ("binary YAML", "\x00\x01", PICTURE, "is not a map of map_server in YAML"),
    ("no date", sheet(mode="2026-13-45"), PICTURE, "is not a map of map_server in YAML: month must be"),
    ("empty YAML", "", PICTURE, "image is missing"),
    ("large YAML", "# " + "x" * (1 << 20), PICTURE, "expected at most"),
    ("empty picture", sheet(), b"", "8 bits a pixel, got another file"),
    ("header alone", sheet(), b"P5\n2 1\n255\n", "truncated"),
    ("header without its end", sheet(), b"P5\n2 1\n255", "truncated"),
    ("header that stops early", sheet(), b"P5\n2", "Reached EOF while reading header"),
    ("no pixels", sheet(), b"P5\n0 0\n255\n", "8 bits a pixel"),
    ("too many digits", sheet(), b"P5\n99999999999999999999 1\n255\n", "Token too long"),
    ("more pixels than bytes", sheet(), b"P5\n99999 99999\n255\n12", "Image size .* exceeds limit"),
    ("16 bits", sheet(), b"P5\n1 1\n65535\n12", "8 bits"),
    ("colours", sheet(), b"P6\n1 1\n255\n012", "got a picture of mode RGB"),
    ("comment without an end", sheet(), b"P5 # 2 1 255", "Reached EOF while reading header"),
]

# --- walks as CSV ---
CSV = "walk_id,t,x,y\na,1,0,0\na,2,1,0\n"
RESIDENTS = "walk_id,t,x,y,resident\na,1,0,0,mary\na,2,1,0,mary\n"
CSVS = [
    ("empty", b"", "line 1: expected the columns"),
    ("header alone", b"walk_id,t,x,y\n", "header and nothing else"),
    ("other header", b"who,when,where\n1,2,3\n", "line 1: expected the columns"),
    ("a column twice", b"walk_id,t,x,x,y\na,1,0,0,0\n", "line 1: expected"),
    ("binary", b"\xff\xfe\x00", "not a CSV file in UTF-8"),
    ("zip", b"PK\x03\x04" + bytes(40), "expected"),
    ("1e400", CSV.replace("1,0\n", "1e400,0\n").encode(), "line 3: expected a finite number in column x"),
    ("1e300", CSV.replace("1,0\n", "1e300,0\n").encode(), "line 3: expected x in metres"),
    ("-1e300", CSV.replace("a,1,0,0", "a,1,0,-1e300").encode(), "line 2: expected y in metres"),
    ("nan", CSV.replace("1,0\n", "nan,0\n").encode(), "expected a finite number in column x"),
    ("inf", CSV.replace("1,0\n", "inf,0\n").encode(), "expected a finite number in column x"),
    ("a word", CSV.replace("1,0\n", "left,0\n").encode(), "expected a number in column x, got 'left'"),
    ("an escape code", CSV.replace("1,0\n", "\x1b[31m,0\n").encode(), "expected a number in column x"),
    ("time 1e300", CSV.replace("a,2", "a,1e300").encode(), "expected t in Unix seconds"),
    ("time -1e300", CSV.replace("a,1", "a,-1e300").encode(), "expected t in Unix seconds"),
    ("time backwards", CSV.replace("a,2", "a,0").encode(), "to increase, got 0 after 1"),
    ("time twice", CSV.replace("a,2", "a,1").encode(), "to increase, got 1 after 1"),
    ("too few cells", CSV.replace("1,0\n", "1\n").encode(), "line 3: expected 4 values, got 3"),
    ("too many cells", CSV.replace("1,0\n", "1,0,7\n").encode(), "line 3: expected 4 values, got 5"),
    ("a quote that never ends", CSV.replace("a,2", '"a,2').encode(), "not a CSV file"),
    ("NUL", CSV.replace("1,0\n", "\0,0\n").encode(), "expected a number in column x"),
    ("one point", b"walk_id,t,x,y\na,1,0,0\n", "one point"),
    ("no id", CSV.replace("a,", ",").encode(), "line 2: expected"),
    ("an id of 1,000 letters", CSV.replace("a,", "a" * 1000 + ",").encode(), "a walk_id of at most 255 letters"),
    ("a resident of 1,000 letters", RESIDENTS.replace("mary", "m" * 1000).encode(), "a resident of at most 255"),
    (
        "a number of 5,000 digits",
        CSV.replace("a,2", "a," + "9" * 5000).encode(),
        "a finite number in column t, got '99",
    ),
    ("100,000 columns", f"walk_id,t,x,y,{','.join(map(str, range(100_000)))}\na,1,0,0\n".encode(), "got 4"),
    ("a header of 1 MB", b"walk_id" + b";t" * 500_000 + b"\n1\n", "walk_id is not in walk_id;t"),
    ("tabs", CSV.replace(",", "\t").encode(), "line 1: expected the columns"),
    ("UTF-16", CSV.encode("utf-16"), "not a CSV file in UTF-8"),
    ("gzip", gzip.compress(CSV.encode()), "not a CSV file in UTF-8"),
    ("hexadecimal", CSV.replace("a,2", "a,0x2").encode(), "expected a number in column t, got '0x2'"),
    ("metres as millimetres a second", b"walk_id,t,x,y\na,1,0,0\na,2,9e5,0\nb,1,0,0\nb,2,9e5,0\n", "expected"),
    (
        "nobody moves",
        "".join(["walk_id,t,x,y\n", *(f"{w},{t},1,1\n" for w in "abc" for t in range(9))]).encode(),
        "moves",
    ),
    ("a walk in two parts", (CSV + "b,1,0,0\nb,2,0,0\na,3,1,1\n").encode(), "comes back after another walk"),
]

# --- places ---
PLACE = {"name": "a", "x": "1", "y": "1", "radius": "0.5", "colour": '"#112233"'}


def place(**changes):
    """The YAML file of one place; None leaves a key out."""
    cells = {key: value for key, value in {**PLACE, **changes}.items() if value is not None}
    return "places: [{" + ", ".join(f"{k}: {v}" for k, v in cells.items()) + "}]\n"


PLACES = [
    ("nothing", "", "expected a list called places"),
    ("a word", "kitchen", "expected a list called places"),
    ("a number", "places: 3", "expected a list called places"),
    ("a list of words", "places: [kitchen]", "expected name, x, y, radius, colour, got 'kitchen'"),
    ("deep", "[" * 5_000, "nested too deeply"),
    ("one that grows", LAUGHS + "places: [*z]", "expected name, x, y, radius, colour"),
    ("binary", "\x00", "is not a list of places in YAML"),
    *((f"without {key}", place(**{key: None}), f"{key} is missing") for key in ("name", "x", "y", "radius")),
    ("another key", place(size="3"), "got 'size'"),
    *(
        (f"{key} {value}", place(**{key: value}), f"{key}: expected")
        for key in ("x", "y", "radius")
        for value in ("far", "null", ".nan", ".inf", "true", "[1]", "1e400")
    ),
    ("x 1e300", place(x="1.0e+300"), "x: expected"),
    ("x of 5,000 digits", place(x="9" * 5000), "Exceeds the limit"),
    ("radius -1", place(radius="-1"), "radius: expected more than 0"),
    ("radius 1e300", place(radius="1.0e+300"), "radius: expected"),
    *(
        (f"colour {value}", place(colour=value), "colour: expected")
        for value in ("red", "3", '"#12"', "[1]", '"#gggggg"')
    ),
    *((f"name {value}", place(name=value), "name: expected text") for value in ("3", "null", '""', "[a]")),
    ("twice", place().replace("]", ", {name: a, x: 1, y: 2, radius: 1}]"), "expected each name once, got 'a' twice"),
]

# --- houses ---
HOUSE = """
name: cabin
walls: [[[0, 0], [6, 0], [6, 4], [0, 4], [0, 0]]]
places:
  - {name: couch, x: 1, y: 1, radius: 0.5, colour: "#112233"}
  - {name: table, x: 5, y: 3, radius: 0.5, colour: "#445566"}
"""
ZIGZAG = "[" + ", ".join(f"[{i % 6 + 0.0001 * i:.4f}, {i % 2}]" for i in range(20_002)) + "]"


def walls(text):
    """The cabin with other walls."""
    return HOUSE.replace("[[[0, 0], [6, 0], [6, 4], [0, 4], [0, 0]]]", text)


HOUSES = [
    ("nothing", "", "expected name, walls, places by name, got nothing"),
    ("a list", "[1, 2]", "expected name, walls, places by name, got list"),
    ("deep", "[" * 5_000, "nested too deeply"),
    ("no walls", walls("[]"), "expected at least one wall"),
    ("walls of text", walls("brick"), "walls: expected a list"),
    ("walls that grow", LAUGHS.replace("name", "n") + walls("*z"), "expected some of"),
    ("a wall of one corner", walls("[[[0, 0]]]"), "expected at least two corners"),
    ("the same corner twice", walls("[[[0, 0], [0, 0]]]"), "expected corners that differ"),
    ("a corner of text", walls("[[[0, left], [1, 1]]]"), "expected a number"),
    ("a corner of three numbers", walls("[[[0, 0, 0], [1, 1]]]"), "expected 2 numbers"),
    ("walls of 10^9 m", walls("[[[0, 0], [1.0e+9, 0], [1.0e+9, 1.0e+9], [0, 0]]]"), "expected a number from"),
    ("walls of 1 km", walls("[[[0, 0], [1000, 0], [1000, 1000], [0, 0]]]"), "expected a house of at most 300 m"),
    ("coordinates of 1e300", walls("[[[0, 0], [1.0e+300, 0]]]"), "expected a number from"),
    ("coordinates of 1e400", walls("[[[0, 0], [1.0e+400, 0]]]"), "expected a number"),
    ("20,000 segments", walls(f"[{ZIGZAG}]"), "expected at most 5000 pieces of wall, got 20001"),
    ("thickness of text", HOUSE + "wall_thickness: thick\n", "wall_thickness: expected a number"),
    ("thickness 0", HOUSE + "wall_thickness: 0\n", "wall_thickness: expected a number above 0"),
    ("thickness 1e300", HOUSE + "wall_thickness: 1.0e+300\n", "wall_thickness: expected"),
    ("one place", HOUSE.rpartition("  -")[0], "expected at least two places"),
    ("the same place twice", HOUSE.replace("table", "couch"), "expected each place once, got 'couch' 2 times"),
    ("a place in a wall", HOUSE.replace("x: 1, y: 1", "x: 0, y: 1"), "place 'couch': expected free floor"),
    ("a place far away", HOUSE.replace("x: 1, y: 1", "x: 1.0e+9, y: 1"), "expected"),
    (
        "a place behind a wall",
        walls("[[[0, 0], [6, 0], [6, 4], [0, 4], [0, 0]], [[3, 0], [3, 4]]]"),
        "expected a way for a body",
    ),
    ("colour red", HOUSE.replace('"#112233"', "red"), "colour: expected"),
    ("door in the air", HOUSE + "doors: [{name: d, from: [2, 2], to: [3, 2]}]\n", "expected both ends on one wall"),
    ("narrow door", HOUSE + "doors: [{name: d, from: [2, 0], to: [2, 0]}]\n", "at least 0.1 m wide"),
    (
        "furniture without a shape",
        HOUSE + "furniture: [{name: f, height: 1}]\n",
        "expected one of box, circle, polygon",
    ),
    ("box inside out", HOUSE + "furniture: [{name: f, height: 1, box: [3, 3, 2, 2]}]\n", "with x0 < x1"),
    ("height 0", HOUSE + "furniture: [{name: f, height: 0, box: [2, 2, 3, 3]}]\n", "height: expected a number above 0"),
    ("unknown key", HOUSE + "roof: red\n", "expected some of name"),
]

# --- options of the simulator as YAML ---
CONFIGS = [
    ("a list", "[1]", "expected options by name, got list"),
    ("deep", "[" * 5_000, "nested too deeply"),
    ("binary", "\x00", "is not a file of options in YAML"),
    ("first_day 2026-13-45", "habits: {first_day: 2026-13-45}", "month must be in 1..12"),
    ("first_day '2026-13-45'", 'habits: {first_day: "2026-13-45"}', "habits.first_day: expected a day such as"),
    ("first_day 0001-01-01", "habits: {first_day: 0001-01-01}", "habits.first_day: expected a day such as"),
    ("first_day 9999-12-31", "habits: {first_day: 9999-12-31}", "habits.first_day: expected a day such as"),
    ("first_day 3", "habits: {first_day: 3}", "habits.first_day: expected str, got 3"),
    ("time_zone", "habits: {time_zone: Mars/Olympus}", "expected an IANA time zone"),
    ("time_zone a path", "habits: {time_zone: ../../etc/passwd}", "expected an IANA time zone"),
    ("unknown section", "robot: {}", "unknown option 'robot'"),
    ("unknown option", "lidar: {colour: red}", "lidar: unknown option 'colour'"),
    ("section of text", "lidar: fast", "lidar: expected a section with options"),
    ("beams of text", "lidar: {beams: many}", "lidar.beams: expected int, got 'many'"),
    ("beams 0", "lidar: {beams: 0}", "lidar.beams: expected 4 to 4096, got 0"),
    ("beams nan", "lidar: {beams: .nan}", "lidar.beams: expected int, got nan"),
    ("rate nan", "lidar: {rate_hz: .nan}", "lidar.rate_hz: expected 1.0 to 40.0, got nan"),
    ("rate 1e400", "lidar: {rate_hz: 1.0e+400}", "lidar.rate_hz: expected 1.0 to 40.0, got inf"),
    ("seed -7", "resident: {seed: -7}", "resident.seed: expected"),
    ("option that grows", LAUGHS + "lidar: {beams: *z}", "unknown option"),
]


# --- stores ---
def replace_file(path, make):
    (path / "walks.sqlite").unlink()
    make(path / "walks.sqlite")


def change_rows(path, *statements):
    """Change a store's tables behind its back."""
    with closing(sqlite3.connect(path / "walks.sqlite")) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def other_tables(path):
    (path / "walks.sqlite").unlink()
    change_rows(
        path,
        "PRAGMA application_id = 1937139309",
        "PRAGMA user_version = 1",
        "CREATE TABLE walks (number, walk_id)",
        "CREATE TABLE store (frame)",
        "INSERT INTO store VALUES ('map')",
    )


ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i AS frame FROM c WHERE i < 0"
TRIGGER = "CREATE TRIGGER t AFTER DELETE ON walks BEGIN DELETE FROM alignments; END"


def endless_view(path):
    change_rows(path, "DROP TABLE store", f"CREATE VIEW store AS {ENDLESS}")


def loop(path):
    path.rename(path.with_name("moved"))
    path.symlink_to(path)


def old_store(text):
    def make(path):
        replace_file(path, lambda f: None)
        (path / "walks").mkdir()
        (path / "store.json").write_text(text)

    return make


STORES = [
    ("a pipe", lambda p: replace_file(p, os.mkfifo), "no file"),
    ("a folder", lambda p: replace_file(p, os.mkdir), "no file"),
    ("a device", lambda p: replace_file(p, lambda f: f.symlink_to("/dev/zero")), "no file"),
    ("text", lambda p: (p / "walks.sqlite").write_text("hello " * 2000), "damaged .*svfm store NEW --import"),
    ("zeros", lambda p: (p / "walks.sqlite").write_bytes(bytes(8192)), "damaged"),
    ("empty", lambda p: (p / "walks.sqlite").write_bytes(b""), "damaged: it holds no tables"),
    ("half", lambda p: os.truncate(p / "walks.sqlite", 6000), "damaged"),
    ("other tables", other_tables, "damaged .*no such column"),
    ("another program's", lambda p: change_rows(p, "PRAGMA application_id = 7"), "got another SQLite file"),
    ("schema 99", lambda p: change_rows(p, "PRAGMA user_version = 99"), "schema 99: expected 1"),
    ("a view that never ends", endless_view, "expected tables alone, got views"),
    ("a trigger", lambda p: change_rows(p, TRIGGER), "expected tables alone, got views, triggers"),
    ("a frame of 1 MB", lambda p: change_rows(p, f"UPDATE store SET frame = '{'x' * 10**6}'"), "no name of a frame"),
    ("no frame", lambda p: change_rows(p, "DELETE FROM store"), "damaged .*row of table store is missing"),
    ("a symlink loop", loop, "got no folder"),
    ("nothing in it", lambda p: (p / "walks.sqlite").unlink(), "which has a file walks.sqlite"),
    ("the earlier format", old_store("{}"), "walk store of the earlier format"),
]
OLD_STORES = [
    ("empty sheet", "", "is damaged"),
    ("no JSON", "{", "is damaged"),
    ("deep JSON", "[" * 100_000, "is damaged"),
    ("a list", "[]", "is damaged"),
    ("another schema", json.dumps({"format": "svfm_ros walk store", "schema": 7, "frame": "map"}), "something else"),
    (
        "a frame of the wrong type",
        json.dumps({"format": "svfm_ros walk store", "schema": 1, "frame": 3}),
        "something else",
    ),
]

# --- what is no file ---
NO_FILES = [
    ("a pipe", os.mkfifo),
    ("a folder", os.mkdir),
    ("a loop", lambda path: os.symlink(path, path)),
    ("a device", lambda path: os.symlink("/dev/zero", path)),
    ("nothing", lambda path: None),
]
"""What stands in the place of a file that is to be read."""
