"""Runs every command that writes on a full and on a read-only file system; in a mount namespace of its own.

python on_small_disks.py GOOD DISKS   prints one line of JSON per command: name, exit code, output, error, what is left
"""

import json
import subprocess
import sys
from pathlib import Path

from ask_svfm import ask
from bad_commands import FOLDER_WRITERS, WRITERS, to

MORE_WRITERS = {
    "import": "store OUT --import {good}/walks.csv",
    "live store": "run web:=false live:=true store:=OUT",
    "live recording": "run web:=false live:=true store:={here}/s record:=OUT",
}


def mount(folder: Path, *options: str) -> Path:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "disk", str(folder)], check=True)
    return folder


def main() -> None:
    good, disks = (Path(word) for word in sys.argv[1:])
    for disk in (mount(disks / "full", "size=64k"), mount(disks / "read_only", "size=8m", "ro")):
        for name, command in {**WRITERS, **FOLDER_WRITERS, **MORE_WRITERS}.items():
            words = to(command, str(disk / "a")).replace("{good}", str(good)).replace("{here}", str(disks))
            code, out, err = ask(words)
            left = [p.name for p in disk.iterdir()]
            print(json.dumps([f"{name}, {disk.name}", code, out, err, left]))


if __name__ == "__main__":
    main()
