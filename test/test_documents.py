"""The documents keep their promises: pages made from the code are current, links lead somewhere, commands exist."""

import argparse
import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from svfm_ros.cli.main import COMMANDS, command_module
from svfm_ros.experiments.experiment import EXPERIMENTS

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^|`|\$ |\.venv/bin/)(svfm [^`#\n]*)", re.MULTILINE)


def test_the_reference_is_what_the_code_says() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "make_reference.py"), "--check"]
    answer = subprocess.run(script, capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


def commands_in(page: Path) -> list[str]:
    text = page.read_text().replace("\\\n", " ")
    return [c.strip() for c in COMMAND.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_exist_with_their_options(page: Path) -> None:
    for line in commands_in(page):
        words = [w for w in shlex.split(line)[1:] if w not in ("…", "...")]
        if not words or words[0] in ("COMMAND", "X") or words[0].startswith("--"):
            continue
        assert words[0] in COMMANDS, f"{page.name}: {line}"
        parser = argparse.ArgumentParser()
        command_module(words[0]).add_arguments(parser)
        known = set(parser._option_string_actions)
        unknown = [w for w in words[1:] if w.startswith("--") and w.split("=")[0] not in known]
        assert not unknown, f"{page.name}: {line}"


def test_benchmarks_and_experiments_that_are_named_exist() -> None:
    known = {
        "bench": {p.stem for p in (ROOT / "benchmarks").glob("[a-z]*.py")},
        "reproduce": set(EXPERIMENTS),
        "pictures": {"front", "fields", "hours", "walk"},
    }
    for page in PAGES:
        for line in commands_in(page):
            command, *names = [w for w in shlex.split(line)[1:] if not w.startswith("-")] or [""]
            words = {w for w in names if w.islower() and "/" not in w}  # others are paths and placeholders
            assert not words - known.get(command, words) - {"out"}, f"{page.name}: {line}"


def test_the_pages_name_commands_at_all() -> None:
    """Otherwise the test above would hold for nothing."""
    assert len({c.split()[1] for page in PAGES for c in commands_in(page) if " " in c}) >= 6


def test_the_python_of_the_readme_runs_as_shown(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    assert len(blocks[0].splitlines()) <= 8
    assert re.findall(r"^(?:import|from) .*$", blocks[0], re.MULTILINE) == ["import svfm_ros as svfm"]
    (tmp_path / "config").symlink_to(ROOT / "config")
    (tmp_path / "shown.py").write_text(blocks[0])
    answer = subprocess.run(
        [sys.executable, str(tmp_path / "shown.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "model.pt").is_file()
    shares, entropy = answer.stdout.rsplit("} ", 1)
    assert {"kitchen", "study", "landing", "front_door"} <= set(ast.literal_eval(shares + "}"))
    assert 1.0 < float(entropy) < 1.6  # four places, about equally often


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_the_readme_work_without_ros(tmp_path: Path) -> None:
    """All commands of the section, one after the other in an empty folder, as a newcomer types them."""
    section = (ROOT / "README.md").read_text().split("## Without ROS")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    assert len(lines) >= 8
    for line in lines:
        command = [sys.executable, "-m", "svfm_ros.cli.main", *shlex.split(line)[1:]]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert answer.returncode == 0, f"{line}\n{answer.stderr}"
    for name in ("forecast.png", "report.html", "map/map.png", "recorded.pt"):
        assert (tmp_path / name).is_file(), name


def test_the_hooks_are_the_linters_of_make_lint() -> None:
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert lint is not None
    wanted = {line.strip() for line in re.sub(r"\$\(BIN\)/|@", "", lint[1]).split("&&")}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["entry"].removeprefix(".venv/bin/") for hook in hooks} == wanted


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "`make test`" in (ROOT / "README.md").read_text()
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test" in lines
    assert "scripts/colcon_build.sh" in lines


def test_badges_say_what_the_package_says() -> None:
    spec = importlib.util.spec_from_file_location("make_pictures", ROOT / "scripts" / "make_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made = script.badges()
    assert {name: ET.fromstring(text).get("aria-label") for name, text in made.items()} == {
        "ros.svg": "ROS 2: Jazzy",
        "python.svg": "Python: 3.11 | 3.12",
        "licence.svg": "licence: Apache-2.0",
    }
    for name, text in made.items():
        assert (ROOT / "docs" / "pictures" / name).read_text() == text, "type: python scripts/make_pictures.py badges"
        assert f"](docs/pictures/{name})" in (ROOT / "README.md").read_text()
