#!/usr/bin/env python3
"""Mutation testing: break random lines of the core, one at a time, and report whether a test fails.

Works on a copy of the tree. The same seed breaks the same lines. Exit code 1 when fewer than nine in ten are noticed.

    scripts/mutants.py --count 10 --seed 0
    scripts/mutants.py --list            only show what would be broken
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("slam", "walks", "svfm", "forecasting", "pipeline", "sim")
TARGET = 0.9
_COPIED = ("svfm_ros", "test", "benchmarks", "config", "maps", "launch", "pyproject.toml", "package.xml")
_SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_SWAPS |= {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_SWAPS |= {ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken line."""

    file: Path  # relative to the root
    line: int
    before: str
    after: str


def main() -> int:
    """Choose lines, break each, run tests, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10, help="how many lines to break (10)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument(
        "--timeout", type=float, default=600.0, help="tests that take longer count as failed, seconds (600)"
    )
    parser.add_argument("--from", type=int, default=1, dest="first", help="go on with this one (1)")
    parser.add_argument("--list", action="store_true", help="show the mutants and stop")
    args = parser.parse_args()
    mutants = choose(args.count, args.seed)[args.first - 1 :]
    if args.list:
        for m in mutants:
            print(f"{m.file}:{m.line}\n  - {m.before}\n  + {m.after}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy_to(Path(folder))
        caught = [show(m, *is_caught(m, Path(folder), args.timeout)) for m in mutants]
    print(f"{sum(caught)} of {len(caught)} noticed (target: {TARGET:.0%})")
    return 0 if sum(caught) >= TARGET * len(caught) else 1


def core_files() -> list[Path]:
    """The rooms of the core and the base modules."""
    rooms = [p for room in ROOMS for p in sorted((ROOT / "svfm_ros" / room).rglob("*.py"))]
    base = [p for p in sorted((ROOT / "svfm_ros").glob("*.py")) if p.name != "installed_files.py"]
    return [p for p in rooms + base if p.name != "__init__.py"]


def choose(count: int, seed: int) -> list[Mutant]:
    """Lines drawn uniformly from the whole core, each with one of its possible mutations."""
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    for path in core_files():
        for mutant in breaks_of(path):
            by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    rng = random.Random(seed)
    lines = rng.sample(sorted(by_line), count)
    return [rng.choice(by_line[line]) for line in lines]


def breaks_of(path: Path) -> Iterator[Mutant]:
    """Mutations of the one-line statements of functions: a swapped operator, a negated condition, a removed call."""
    lines = path.read_text().splitlines()
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in ast.walk(function):
            if not isinstance(statement, ast.stmt) or isinstance(statement, ast.FunctionDef):
                continue
            head = _head(statement)
            if head is None:
                continue
            before = lines[statement.lineno - 1]
            indent = before[: len(before) - len(before.lstrip())]
            for after in _broken(statement, head):
                yield Mutant(path.relative_to(ROOT), statement.lineno, before.strip(), indent + after)


def _head(statement: ast.stmt) -> ast.expr | None:
    """The expression to break, of statements that stand on one line; a message to the user is none."""
    if isinstance(statement, ast.If | ast.While):
        return statement.test if statement.test.end_lineno == statement.lineno else None
    if statement.end_lineno != statement.lineno:
        return None
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.AnnAssign):
        return statement.value
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return statement.value if is_call else None


def _broken(statement: ast.stmt, head: ast.expr) -> Iterator[str]:
    if isinstance(statement, ast.Expr):
        yield "pass"
        return
    if isinstance(statement, ast.If):
        yield f"if not ({ast.unparse(head)}):"
        return
    for part in ast.walk(head):
        yield from _swapped(statement, part)


def _swapped(statement: ast.stmt, part: ast.AST) -> Iterator[str]:
    """The statement with one operator swapped, unparsed; the tree is put back as it was."""
    if isinstance(part, ast.BinOp | ast.BoolOp) and type(part.op) in _SWAPS:
        kept, part.op = part.op, _SWAPS[type(part.op)]()
        yield ast.unparse(statement).splitlines()[0]
        part.op = kept
    elif isinstance(part, ast.Compare) and type(part.ops[0]) in _SWAPS:
        kept_op, part.ops[0] = part.ops[0], _SWAPS[type(part.ops[0])]()
        yield ast.unparse(statement).splitlines()[0]
        part.ops[0] = kept_op


def copy_to(folder: Path) -> None:
    """Copy what the tests need."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def is_caught(mutant: Mutant, folder: Path, timeout_s: float) -> tuple[bool, str]:
    """Whether a test fails or runs into the timeout, and how long that took."""
    path = folder / mutant.file
    original = path.read_text()
    lines = original.splitlines()
    lines[mutant.line - 1] = mutant.after
    path.write_text("\n".join(lines) + "\n")
    forget_compiled(mutant.file, folder)
    env = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    began = time.monotonic()
    try:
        code = subprocess.run(
            [*command, *tests_of(mutant.file, folder)],
            cwd=folder,
            env=env,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        code = -1
    finally:
        path.write_text(original)
        forget_compiled(mutant.file, folder)
    return code != 0, f"{time.monotonic() - began:.0f} s{': the time was over, repeat with more' if code == -1 else ''}"


def forget_compiled(file: Path, folder: Path) -> None:
    """Remove the cached machine code of a file and of all files that import it, whose code may contain its own."""
    texts = {p.relative_to(folder): p.read_text() for p in (folder / "svfm_ros").rglob("*.py")}
    if "@kernel" not in texts[file]:
        return
    stale: set[Path] = set()
    found = {file}
    while found:
        stale |= found
        modules = [_module(f) for f in found]
        found = {f for f, text in texts.items() if f not in stale and any(m in text for m in modules)}
    for compiled in (folder / "cache").rglob("*.nb?"):
        if compiled.name.split(".")[0] in {f.stem for f in stale}:
            compiled.unlink()


def _module(file: Path) -> str:
    return ".".join(file.with_suffix("").parts)


def tests_of(file: Path, folder: Path) -> list[str]:
    """Test files, nearest first: of the same name, those that name the module, the others of its room.

    For a base module those of all rooms that use it.
    """
    module = _module(file)
    found = [p for p in sorted((folder / "test").rglob("test_*.py")) if module in p.read_text()]
    found.sort(key=lambda p: p.stem != f"test_{file.stem}")
    rooms = [file.parts[1]] if len(file.parts) > 2 else [r for r in ROOMS if _uses(folder / "svfm_ros" / r, module)]
    for room in rooms:
        found += [p for p in sorted((folder / "test" / room).rglob("test_*.py")) if p not in found]
    if not found:
        found = sorted((folder / "test").glob("test_*.py"))
    return [str(p.relative_to(folder)) for p in found if "nodes" not in p.relative_to(folder).parts]


def _uses(room: Path, module: str) -> bool:
    return any(module in path.read_text() for path in room.rglob("*.py"))


def show(mutant: Mutant, caught: bool, took: str) -> bool:
    """Print one line per mutant, and the mutation where no test failed."""
    print(f"{'noticed ' if caught else 'SURVIVED'} {mutant.file}:{mutant.line}  ({took})", flush=True)
    if not caught:
        print(f"  - {mutant.before}\n  + {mutant.after.strip()}", flush=True)
    return caught


if __name__ == "__main__":
    sys.exit(main())
