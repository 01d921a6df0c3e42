"""ROS parameters from the config dataclasses: name, type, range and description come from the options, once.

A nested config becomes dotted names (``slam.matcher.range_m``). A value that the config refuses is refused with the
config's own reason, at start-up as a ``ConfigError`` and later through the set-parameters service. Where a float is
expected, an integer is accepted: ``rate: 10`` in a YAML file means 10.0.
"""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from svfm_ros.config.options import Option, from_mapping, options_of
from svfm_ros.errors import ConfigError

__all__ = ["Parameters", "parameter_names"]

T = TypeVar("T")

_SCALARS = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
}
_ARRAYS = {
    bool: Parameter.Type.BOOL_ARRAY,
    int: Parameter.Type.INTEGER_ARRAY,
    float: Parameter.Type.DOUBLE_ARRAY,
    str: Parameter.Type.STRING_ARRAY,
}
# Values that mean "not set", because a ROS parameter must have a value of its type.
_NONE = {float: math.nan, int: -1, str: ""}
_MAX_INT = 2**63 - 1
_MAX_FLOAT = 1.7e308
# Parameters of every node, declared elsewhere.
_COMMON = ("use_sim_time", "start_type_description_service", "autostart")


@dataclass(frozen=True, slots=True)
class _Spec:
    """One parameter: a leaf of the config."""

    name: str
    kind: type  # bool, int, float or str
    many: bool
    optional: bool
    option: Option
    default: Any
    read_only: bool

    @property
    def ros_type(self) -> Parameter.Type:
        return (_ARRAYS if self.many else _SCALARS)[self.kind]

    def to_ros(self, value: Any) -> Any:
        if self.many:
            return [self.kind(v) for v in value]
        return _NONE[self.kind] if value is None else self.kind(value)

    def from_ros(self, value: Any) -> Any:
        """Accept integers for floats; other values of a wrong type are refused by the config."""
        if self.many and value is None:  # an empty list in a file
            return ()
        if self.many and isinstance(value, Iterable) and not isinstance(value, str):
            return tuple(self._widen(v) for v in value)
        none = _NONE.get(self.kind)
        if self.optional and (value == none or (isinstance(value, float) and math.isnan(value))):
            return None
        return self._widen(value)

    def _widen(self, value: Any) -> Any:
        return float(value) if self.kind is float and type(value) is int else value

    def descriptor(self) -> ParameterDescriptor:
        text = self.option.help
        if self.option.choices:
            text += f" (one of {', '.join(self.option.choices)})"
        if self.optional:
            text += f" ({_NONE[self.kind]!r}: not set)"
        described = ParameterDescriptor(description=text, read_only=self.read_only)
        low, high = self.option.low, self.option.high
        if (low is not None or high is not None) and not self.many and not self.optional:
            if self.kind is int:
                first = -_MAX_INT if low is None else math.ceil(low)
                last = _MAX_INT if high is None else math.floor(high)
                described.integer_range = [IntegerRange(from_value=first, to_value=last)]
            elif self.kind is float:
                bottom = -_MAX_FLOAT if low is None else float(low)
                top = _MAX_FLOAT if high is None else float(high)
                described.floating_point_range = [FloatingPointRange(from_value=bottom, to_value=top)]
        return described


def _specs(config: Any, prefix: str, fixed: bool, live_sections: Collection[str]) -> Iterator[_Spec]:
    hints = typing.get_type_hints(type(config))
    described = options_of(config)
    for field in dataclasses.fields(config):
        name, value, hint = prefix + field.name, getattr(config, field.name), hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from _specs(value, f"{name}.", fixed=name not in live_sections, live_sections=live_sections)
            continue
        kind, many, optional = _kind_of(hint, name)
        option = described.get(field.name, Option(help=""))
        yield _Spec(name, kind, many, optional, option, value, read_only=fixed or option.read_only)


def _kind_of(hint: Any, name: str) -> tuple[type, bool, bool]:
    """The scalar type of a hint, whether it is a tuple, and whether it may be None."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and type(None) in args and len(args) == 2:
        kind, many, _ = _kind_of(next(a for a in args if a is not type(None)), name)
        if kind in _NONE and not many:
            return kind, False, True
    elif origin is typing.Literal:
        return type(args[0]), False, False
    elif origin is tuple:
        return _kind_of(args[0], name)[0], True, False
    elif hint in _SCALARS:
        return hint, False, False
    raise TypeError(f"{name}: no ROS parameter can hold {hint}")


def parameter_names(config_class: type) -> list[str]:
    """The dotted names of all options of a config."""
    return [spec.name for spec in _specs(config_class(), "", False, ())]


class Parameters(Generic[T]):
    """The config of a node as ROS parameters.

    ``live_sections`` names nested configs that may change while the node runs; all others go into building something at
    start-up and are read-only. ``elsewhere`` holds names that belong to other nodes of the same graph: a file may give
    them to all nodes at once.
    """

    def __init__(
        self, node: Node, config_class: type[T], live_sections: Collection[str] = (), elsewhere: Collection[str] = ()
    ) -> None:
        self._class = config_class
        self._specs = {s.name: s for s in _specs(config_class(), "", False, live_sections)}
        self._listeners: list[Callable[[T], None]] = []
        given = self._take_overrides(node, elsewhere)
        self._values = {name: given.get(name, spec.default) for name, spec in self._specs.items()}
        self._config = self._build({})
        self._declare(node)
        node.add_pre_set_parameters_callback(self._widen)
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._accept)

    @property
    def config(self) -> T:
        """The current, immutable config."""
        return self._config

    def on_change(self, listener: Callable[[T], None]) -> None:
        """Call ``listener`` with the new config after each accepted change."""
        self._listeners.append(listener)

    def _take_overrides(self, node: Node, elsewhere: Collection[str]) -> dict[str, Any]:
        """Values from files and arguments by name; raises for an unknown name."""
        given: dict[str, Any] = {}
        # rclpy has no public list of overrides; declaring all of them first fails for empty lists.
        for name, parameter in node._parameter_overrides.items():
            if name in self._specs:
                given[name] = self._specs[name].from_ros(parameter.value)
            elif name in elsewhere:
                node.get_logger().info(f"the parameter {name!r} belongs to other nodes and is ignored")
            elif name not in _COMMON and not name.startswith("qos_overrides."):
                raise ConfigError(_unknown(name, self._specs))
        return given

    def _declare(self, node: Node) -> None:
        for name, spec in self._specs.items():
            value, descriptor = spec.to_ros(self._values[name]), spec.descriptor()
            if value == []:
                _declare_empty(node, name, spec.ros_type, descriptor)
            else:
                node.declare_parameter(name, value, descriptor, ignore_override=True)

    def _build(self, changes: Mapping[str, Any]) -> T:
        return from_mapping(self._class, _nest({**self._values, **changes}))

    def _ours(self, parameters: Iterable[Parameter]) -> dict[str, Any]:
        return {p.name: self._specs[p.name].from_ros(p.value) for p in parameters if p.name in self._specs}

    def _widen(self, parameters: list[Parameter]) -> list[Parameter]:
        return [_widened(p, self._specs[p.name]) if p.name in self._specs else p for p in parameters]

    def _check(self, parameters: list[Parameter]) -> SetParametersResult:
        try:
            self._build(self._ours(parameters))
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _accept(self, parameters: list[Parameter]) -> None:
        changes = self._ours(parameters)
        if changes:
            self._config = self._build(changes)
            self._values.update(changes)
            for listener in self._listeners:
                listener(self._config)


def _widened(parameter: Parameter, spec: _Spec) -> Parameter:
    """The value in the declared type where that is exact; otherwise unchanged, so that rclpy refuses it."""
    value = parameter.value
    if spec.many and isinstance(value, Iterable) and not isinstance(value, str):
        value = [float(v) if spec.kind is float and type(v) is int else v for v in value]
    elif spec.kind is float and type(value) is int:
        value = float(value)
    return Parameter(parameter.name, spec.ros_type, value) if spec.ros_type.check(value) else parameter


def _declare_empty(node: Node, name: str, kind: Parameter.Type, descriptor: ParameterDescriptor) -> None:
    """An empty list has no type of its own: declare the type, set the value, then describe it."""
    node.declare_parameter(name, kind, ParameterDescriptor(), ignore_override=True)
    node.set_parameters([Parameter(name, kind, [])])
    descriptor.type = kind.value
    node.set_descriptor(name, descriptor)


def _unknown(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected some of {', '.join(known)}"
    return f"unknown parameter {name!r}; {hint}"


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as sections."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *sections, leaf = name.split(".")
        at = nested
        for section in sections:
            at = at.setdefault(section, {})
        at[leaf] = value
    return nested
