"""Asks the command svfm in this process, and looks at the files before and after."""

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from svfm_ros.cli.main import main

Make = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """A command, the files that are made for it in {here}, and the sentence it must end with."""

    name: str
    command: str
    sentence: str
    files: Mapping[str, str | bytes | Make] = field(default_factory=dict)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; what is no file counts by its name."""
    found = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in found if not p.is_symlink()}


def put(here: Path, files: Mapping[str, str | bytes | Make]) -> None:
    for name, content in files.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def ask(command: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command.split(" "))
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()
