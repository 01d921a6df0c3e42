"""The script that breaks lines: what it makes is broken, and is Python."""

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def test_broken_lines_are_python_and_mean_something_else(mutants: ModuleType) -> None:
    for mutant in mutants.choose(60, seed=3):
        lines = (ROOT / mutant.file).read_text().splitlines()
        assert lines[mutant.line - 1].strip() == mutant.before
        whole = ast.dump(ast.parse("\n".join(lines)))
        lines[mutant.line - 1] = mutant.after
        assert ast.dump(ast.parse("\n".join(lines))) != whole, mutant


def test_the_seed_decides(mutants: ModuleType) -> None:
    assert mutants.choose(10, seed=1) == mutants.choose(10, seed=1)
    assert mutants.choose(10, seed=1) != mutants.choose(10, seed=2)


def test_every_line_has_tests_that_should_mind(mutants: ModuleType) -> None:
    for path in mutants.core_files():
        assert mutants.tests_of(path.relative_to(ROOT), ROOT), path
