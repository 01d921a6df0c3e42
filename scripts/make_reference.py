#!/usr/bin/env python3
"""Write docs/reference.md from the code: commands, launch arguments, topics, services, parameters.

`make docs` runs it; `--check` only checks whether the page is up to date, as the tests do.
"""

import argparse
import dataclasses
import sys
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

from svfm_ros.cli.main import COMMANDS
from svfm_ros.config.node_config import LIVE_SECTIONS, NODE_CONFIGS, LifecycleConfig
from svfm_ros.config.options import Option, options_of
from svfm_ros.nodes.runtime.interface import LIFECYCLE_SERVICES, SERVICES, TOPICS, TRANSITIONS
from svfm_ros.nodes.runtime.launch_arguments import ARGUMENTS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"

_HEAD = """\
# Reference

This page is generated from the code by `make docs`: change the code, not the page.

[Commands](#commands) · [launch arguments](#launch-arguments) · [topics](#topics) · [services](#services) ·
[parameters](#parameters)
"""

_TOPICS = """\
Names without a slash at the front follow the namespace and can be remapped. *Latched* means durability transient
local: late subscribers get the last message. Scans are subscribed to with best effort, which matches drivers of
either kind. All message types are standard ones.
"""

_SERVICES = """\
Each is below its node's name, for example `ros2 service call /slam_node/save_map std_srvs/srv/Trigger`.
"""

_LIFECYCLE = f"""\
All nodes are lifecycle nodes. With `autostart:=true`, the default, they configure and activate themselves. With
`autostart:=false` they wait for a lifecycle manager or for `ros2 lifecycle set /slam_node configure` and `activate`.
`deactivate` stops input and output (a replay and a simulation pause, the walk under way is stored), `cleanup` frees
everything. Each node has the services {", ".join(f"`{name}`" for name in LIFECYCLE_SERVICES)} and the topic
`{TRANSITIONS}` of such nodes.
"""

_PARAMETERS = """\
Give them in a file (`params_file:=my.yaml`, only what differs from the defaults) or one by one
(`--ros-args -p NAME:=VALUE`). An unknown name or a value out of its range is refused with the reason. *Live* parameters
can be changed while the node runs (`ros2 param set`); the others are read at start-up. Dots are sections in YAML:

```yaml
/**/forecast_node:
  ros__parameters:
    what_if_hour: 23.0
    forecast:
      samples: 400
```
"""


def main() -> int:
    """Write the page, or with --check compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    if not parser.parse_args().check:
        PAGE.write_text(page())
        return 0
    if PAGE.is_file() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE} is out of date: run `make docs`", file=sys.stderr)
    return 1


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## Commands\n", _commands(), "## Launch arguments\n", _arguments()]
    parts += [
        "## Topics\n",
        _TOPICS,
        _topics(),
        "## Services\n",
        _SERVICES,
        _services(),
        _LIFECYCLE,
        "## Parameters\n",
        _PARAMETERS,
    ]
    parts += [f"### all nodes\n\n{_parameters('', LifecycleConfig)}"]
    parts += [f"### {name}\n\n{config.__doc__}\n\n{_parameters(name, config)}" for name, config in NODE_CONFIGS.items()]
    return "\n".join(parts)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _commands() -> str:
    rows = [(f"`svfm {name}`", text) for name, text in COMMANDS.items()]
    return _table(("command", "what it does"), rows) + "\n`svfm COMMAND --help` prints its options and examples.\n"


def _arguments() -> str:
    rows = [(f"`{a.name}`", f"`{a.default}`" if a.default else "", a.help) for a in ARGUMENTS]
    how = "Of `ros2 launch svfm_ros forecast.launch.py` and of `svfm run`, as `NAME:=VALUE`.\n\n"
    return how + _table(("argument", "default", "what it does"), rows)


def _topics() -> str:
    rows = [
        (t.node, t.way, f"`{t.name}`", f"`{t.kind}`", "yes" if t.latched else "", t.help)
        for t in sorted(TOPICS, key=lambda t: list(NODE_CONFIGS).index(t.node))
    ]
    return _table(("node", "way", "topic", "type", "latched", "what it carries"), rows)


def _services() -> str:
    rows = [(f"`{s.node}/{s.name}`", f"`{s.kind}`", s.help) for s in SERVICES]
    return _table(("service", "type", "what it does"), rows)


def _parameters(node: str, config: type) -> str:
    rows = list(_rows(config, "", fixed=False, live=LIVE_SECTIONS.get(node, ())))
    return _table(("parameter", "type", "default", "range", "live", "what it is"), rows)


def _rows(config: type, prefix: str, *, fixed: bool, live: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    hints, described, defaults = typing.get_type_hints(config), options_of(config), config()
    for field in dataclasses.fields(config):
        name, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from _rows(typing.cast(type, hint), f"{name}.", fixed=name not in live, live=live)
            continue
        option, default = described[field.name], getattr(defaults, field.name)
        kind = getattr(hint, "__name__", str(hint)) if typing.get_origin(hint) is None else str(hint)
        yield (
            f"`{name}`",
            kind,
            "not set" if default is None else "empty" if default in ("", ()) else f"`{_plain(default)}`",
            _range(option),
            "" if fixed or option.read_only else "yes",
            option.help,
        )


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _range(option: Option) -> str:
    if option.choices:
        return ", ".join(option.choices)
    low, high = option.low, option.high
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}" if high is not None else ""


if __name__ == "__main__":
    sys.exit(main())
