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


def test_machine_code_that_may_hold_the_broken_line_is_removed(mutants: ModuleType, tmp_path: Path) -> None:
    room, cache = tmp_path / "svfm_ros" / "slam", tmp_path / "cache" / "slam_1"
    room.mkdir(parents=True)
    cache.mkdir(parents=True)
    (room / "inner.py").write_text("@kernel\ndef f(): ...")
    (room / "outer.py").write_text("from svfm_ros.slam.inner import f\n@kernel\ndef g(): ...")
    (room / "apart.py").write_text("@kernel\ndef h(): ...")
    for name in ("inner.f-1.py311.nbi", "outer.g-2.py311.1.nbc", "apart.h-1.py311.nbi"):
        (cache / name).touch()
    mutants.forget_compiled(Path("svfm_ros/slam/inner.py"), tmp_path)
    assert [p.name for p in cache.iterdir()] == ["apart.h-1.py311.nbi"]


def test_the_nearest_tests_come_first(mutants: ModuleType) -> None:
    assert mutants.tests_of(Path("svfm_ros/svfm/selection.py"), ROOT)[0] == "test/svfm/test_selection.py"
