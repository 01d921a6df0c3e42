from dataclasses import dataclass, field
from pathlib import Path

import pytest

from svfm_ros.config.options import check, dump_yaml, from_mapping, load_yaml, option, options_of, to_mapping
from svfm_ros.errors import ConfigError, SvfmError


@dataclass(frozen=True, slots=True)
class Inner:
    size_m: float = option(0.5, "how big", low=0.0, high=1.0)
    mode: str = option("fast", "how", choices=("fast", "slow"))
    window: tuple[float, ...] = option((1.0, 2.0), "where")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Outer:
    count: int = option(3, "how many", low=1)
    on: bool = option(True, "whether")
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        check(self)


def test_yaml_gives_back_what_was_written(tmp_path: Path) -> None:
    config = Outer(count=7, inner=Inner(size_m=0.25, window=(3.0,)))
    dump_yaml(config, tmp_path / "c.yaml")
    assert load_yaml(Outer, tmp_path / "c.yaml") == config


def test_mapping_gives_back_what_was_written() -> None:
    config = Outer(on=False)
    assert from_mapping(Outer, to_mapping(config)) == config


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"cuont": 3}, "unknown option 'cuont'"),
        ({"inner": {"sise": 1}}, "inner: unknown option 'sise'"),
        ({"count": 0}, "count: expected at least 1, got 0"),
        ({"count": 2.5}, "expected int, got 2.5"),
        ({"count": True}, "expected int, got True"),
        ({"inner": {"size_m": 1.5}}, "inner.size_m: expected 0.0 to 1.0, got 1.5"),
        ({"inner": {"size_m": float("nan")}}, "got nan"),
        ({"inner": {"mode": "warp"}}, "expected one of fast, slow, got 'warp'"),
        ({"inner": {"window": ["a"]}}, "got ('a',)"),
        ({"inner": 4}, "expected a section"),
        ({"on": "yes"}, "expected bool, got 'yes'"),
    ],
)
def test_a_wrong_value_is_refused_by_name(mapping: dict, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_mapping(Outer, mapping)
    assert says in str(error.value)


def test_an_int_is_welcome_as_a_float() -> None:
    assert from_mapping(Inner, {"size_m": 1}).size_m == 1


def test_options_carry_their_help() -> None:
    assert options_of(Inner)["size_m"].help == "how big"
    assert options_of(Inner)["size_m"].high == 1.0


@pytest.mark.parametrize(
    ("text", "says"), [("[1, 2]", "expected options by name"), ("a: [", "is not a file of options in YAML")]
)
def test_a_file_that_holds_something_else(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(SvfmError, match=says):
        load_yaml(Outer, path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SvfmError, match="nowhere"):
        load_yaml(Outer, tmp_path / "nowhere.yaml")
