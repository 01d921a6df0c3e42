"""Frozen dataclasses as configuration: each option carries its help, its range and whether it may change at run time.

A config is built with ``option(...)`` fields, checked when it is made, read with ``from_mapping`` (which refuses
unknown keys) and written with ``to_mapping``. YAML files may nest one section per room.

pydantic 2 would do the checks in 0.004 ms instead of 0.03 ms per config, but takes 83 to 94 ms to import where this
module takes 25 (``benchmarks/libraries.py``). Configs are made a few times per process and ``svfm --help`` imports
them, so the import decides.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from svfm_ros.atomic_files import read_yaml, write_whole
from svfm_ros.errors import ConfigError, short

__all__ = [
    "CheckedOptions",
    "Option",
    "check",
    "dump_yaml",
    "from_mapping",
    "load_yaml",
    "option",
    "options_of",
    "to_mapping",
]

T = TypeVar("T")

_KEY = "svfm"


@dataclass(frozen=True, slots=True)
class Option:
    """Help, range and choices of one option."""

    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = False  # as a ROS parameter: set at start-up, refused later


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    read_only: bool = False,
) -> Any:
    """A dataclass field with its description; bounds are inclusive."""
    return field(default=default, metadata={_KEY: Option(help, low, high, choices, read_only)})


def options_of(config: type | object) -> dict[str, Option]:
    """Name to description for every field of a config made with ``option``."""
    return {f.name: f.metadata[_KEY] for f in fields(typing.cast(Any, config)) if _KEY in f.metadata}


_HINTS: dict[type, dict[str, Any]] = {}  # looking them up takes most of the time of a check


def _hints(cls: type) -> dict[str, Any]:
    """Types of the fields of a config."""
    if cls not in _HINTS:
        _HINTS[cls] = typing.get_type_hints(cls)
    return _HINTS[cls]


class CheckedOptions:
    """Base of dataclasses of options whose values are checked when one is made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check(self)


def check(config: object) -> None:
    """Refuse a value of the wrong type, out of its range or not among its choices."""
    hints = _hints(type(config))
    for name, described in options_of(config).items():
        _check_one(type(config).__name__, name, getattr(config, name), hints[name], described)


def _check_one(owner: str, name: str, value: Any, hint: Any, described: Option) -> None:
    if not _is_a(value, hint):
        raise ConfigError(f"expected {_type_name(hint)}, got {short(value)}", name, owner)
    if described.choices and value not in described.choices:
        raise ConfigError(f"expected one of {', '.join(described.choices)}, got {short(value)}", name, owner)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = described.low, described.high
        if value != value or (low is not None and value < low) or (high is not None and value > high):
            raise ConfigError(f"expected {_range_text(low, high)}, got {short(value)}", name, owner)


def _range_text(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}" if high is not None else "a number"


def _type_name(hint: Any) -> str:
    return str(getattr(hint, "__name__", hint)) if typing.get_origin(hint) is None else str(hint)


def _is_a(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_is_a(value, h) for h in typing.get_args(hint))
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is tuple:
        return _is_tuple_of(value, typing.get_args(hint))
    if hint is float:  # an int may stand for a float; a bool may not
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _is_tuple_of(value: Any, args: tuple[Any, ...]) -> bool:
    if not isinstance(value, tuple):
        return False
    if len(args) == 2 and args[1] is Ellipsis:
        return all(_is_a(v, args[0]) for v in value)
    return len(value) == len(args) and all(_is_a(v, a) for v, a in zip(value, args, strict=True))


def from_mapping(cls: type[T], mapping: Mapping[str, Any], where: str = "") -> T:
    """A config from plain data, nested configs included; unknown keys are refused by name."""
    hints = _hints(cls)
    names = [f.name for f in fields(typing.cast(Any, cls))]
    unknown = [k for k in mapping if k not in names]
    if unknown:
        at = f"{where}: " if where else ""
        raise ConfigError(f"{at}unknown option {short(unknown[0])}; expected some of {', '.join(names)}")
    plain = {k: _from_plain(hints[k], v, f"{where}.{k}" if where else k) for k, v in mapping.items()}
    try:
        return cls(**plain)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}" if where and error.option else str(error)) from error


def _from_plain(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: expected a section with options, got {short(value)}")
        return from_mapping(typing.cast(type, hint), value, where)
    if hint is str and isinstance(value, date):  # YAML reads 2026-11-02 as a date
        return value.isoformat()
    return tuple(value) if isinstance(value, list) else value


def to_mapping(config: object) -> dict[str, Any]:
    """Plain data (dicts, lists, numbers, strings) that ``from_mapping`` reads back."""
    return {f.name: _plain(getattr(config, f.name)) for f in fields(typing.cast(Any, config))}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_mapping(value)
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def load_yaml(cls: type[T], path: Path) -> T:
    """A config from a YAML file."""
    data = read_yaml(path, "a file of options")
    if data is not None and not isinstance(data, Mapping):
        raise ConfigError(f"{path}: expected options by name, got {type(data).__name__}")
    try:
        return from_mapping(cls, data or {})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def dump_yaml(config: object, path: Path) -> None:
    """Write a config so that ``load_yaml`` gives it back."""
    import yaml

    write_whole(path, yaml.safe_dump(to_mapping(config), sort_keys=False).encode())
