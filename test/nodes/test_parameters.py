"""Parameters come from configs: types, ranges, texts, refusals."""

import math
from dataclasses import dataclass, field

import pytest
import rclpy
from rcl_interfaces.msg import ParameterType
from rclpy.parameter import Parameter

from svfm_ros.config.node_config import NODE_CONFIGS
from svfm_ros.config.options import check, option
from svfm_ros.errors import ConfigError
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.parameters import parameter_names


@dataclass(frozen=True, slots=True)
class Inner:
    window_m: float = option(0.5, "search window, m", low=0.1, high=2.0)
    steps: int = option(3, "steps", low=1)

    def __post_init__(self):
        check(self)


@dataclass(frozen=True, slots=True)
class Outer:
    rate: float = option(2.0, "how fast, Hz", low=0.5, high=50.0)
    mode: str = option("map", "what to do", choices=("map", "locate"))
    folder: str = option("here", "where", read_only=True)
    hour: float | None = option(None, "hour of the day", low=0.0, high=24.0)
    names: tuple[str, ...] = option((), "which")
    fixed_names: tuple[str, ...] = option((), "which, for good", read_only=True)
    corner: tuple[float, float] = option((1.0, 2.0), "x and y, m")
    low: int = option(0, "must not exceed high")
    high: int = option(10, "must not be below low")
    inner: Inner = field(default_factory=Inner)
    tuning: Inner = field(default_factory=Inner)

    def __post_init__(self):
        check(self)
        if self.low > self.high:
            raise ConfigError(f"expected low <= high, got {self.low} and {self.high}")


@pytest.fixture(scope="module")
def context():
    context = rclpy.Context()
    rclpy.init(context=context)
    yield context
    rclpy.shutdown(context=context)


@pytest.fixture
def make(context):
    made = []

    def build(*arguments, **options):
        cli = ["--ros-args", *arguments] if arguments else None
        node = ConfiguredNode("n", Outer, live_sections=("tuning",), context=context, cli_args=cli, **options)
        made.append(node)
        return node

    yield build
    for node in made:
        node.close()


def put(node, name, value, kind=None):
    return node.set_parameters([Parameter(name, kind, value)])[0]


def test_defaults_are_the_configs_own(make):
    assert make().config == Outer()


def test_names_of_nested_options_are_dotted():
    assert {"rate", "inner.window_m", "tuning.steps"} <= set(parameter_names(Outer))


def test_descriptors_say_what_the_options_say(make):
    node = make()
    rate, steps, folder = (node.describe_parameter(n) for n in ("rate", "inner.steps", "folder"))
    assert (rate.description, rate.type) == ("how fast, Hz", ParameterType.PARAMETER_DOUBLE)
    assert (rate.floating_point_range[0].from_value, rate.floating_point_range[0].to_value) == (0.5, 50.0)
    assert (steps.type, steps.integer_range[0].from_value) == (ParameterType.PARAMETER_INTEGER, 1)
    assert (rate.read_only, folder.read_only, steps.read_only) == (False, True, True)
    assert not node.describe_parameter("tuning.steps").read_only
    assert "map, locate" in node.describe_parameter("mode").description


def test_empty_lists_keep_their_type(make):
    node = make()
    assert node.get_parameter("names").type_ == Parameter.Type.STRING_ARRAY
    assert node.describe_parameter("fixed_names").type == ParameterType.PARAMETER_STRING_ARRAY
    assert not put(node, "fixed_names", ["a"]).successful
    assert put(node, "names", ["a", "b"]).successful
    assert node.config.names == ("a", "b")
    assert put(node, "names", []).successful
    assert node.config.names == ()


def test_an_accepted_change_reaches_the_config_and_its_listeners(make):
    node, seen = make(), []
    node.parameters.on_change(seen.append)
    assert put(node, "rate", 4.0).successful
    assert put(node, "tuning.window_m", 1).successful  # an int where a float belongs
    assert (node.config.rate, node.config.tuning.window_m) == (4.0, 1.0)
    assert seen[-1] == node.config
    assert node.get_parameter("tuning.window_m").value == 1.0


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("rate", 0.1, "out of range"),
        ("rate", "fast", "Wrong parameter type"),
        ("mode", "fly", "one of map, locate"),
        ("hour", 25.0, "0.0 to 24.0"),
        ("corner", [1.0], "expected"),
        ("low", 11, "expected low <= high, got 11 and 10"),
        ("folder", "there", "read-only"),
        ("inner.steps", 4, "read-only"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason(make, name, value, reason):
    node = make()
    before = node.config
    result = put(node, name, value)
    assert not result.successful
    assert reason in result.reason
    assert node.config == before


def test_values_that_belong_together_change_together(make):
    node = make()
    both = [Parameter("low", value=20), Parameter("high", value=30)]
    assert node.set_parameters_atomically(both).successful
    assert (node.config.low, node.config.high) == (20, 30)


def test_not_set_has_a_value_of_its_own(make):
    node = make()
    assert math.isnan(node.get_parameter("hour").value)
    assert put(node, "hour", 23).successful
    assert node.config.hour == 23.0
    assert put(node, "hour", math.nan).successful
    assert node.config.hour is None


def test_overrides_from_arguments_and_files(make, tmp_path):
    sheet = tmp_path / "p.yaml"
    sheet.write_text(
        "n:\n  ros__parameters:\n    rate: 10\n    names: [a]\n    corner: [1, 2]\n    inner: {window_m: 1.5}\n"
        "    use_sim_time: true\n"
    )
    node = make("--params-file", str(sheet), "-p", "folder:=there")
    config = node.config
    assert (config.rate, config.names, config.corner) == (10.0, ("a",), (1.0, 2.0))
    assert (config.inner.window_m, config.folder) == (1.5, "there")
    assert node.get_parameter("rate").type_ == Parameter.Type.DOUBLE
    assert node.get_parameter("use_sim_time").value is True


def test_dumped_empty_lists_load_again(make):
    assert make("-p", "names:=[]").config.names == ()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("rat:=1.0", "unknown parameter 'rat'; did you mean 'rate'"),
        ("inner.wnidow_m:=1.0", "did you mean 'inner.window_m'"),
        ("zzz:=1", "expected some of rate, mode"),
        ("rate:=100.0", "rate: expected 0.5 to 50.0, got 100.0"),
        ("rate:=fast", "rate: expected float, got 'fast'"),
        ("inner.steps:=0", "steps: expected at least 1, got 0"),
    ],
)
def test_a_wrong_start_is_refused_in_one_line(make, argument, message):
    with pytest.raises(ConfigError) as error:
        make("-p", argument)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_names_of_other_nodes_may_stand_in_a_common_file(make):
    assert make("-p", "map_frame:=house").config == Outer()


def test_every_node_config_can_be_parameters():
    for config in NODE_CONFIGS.values():
        names = parameter_names(config)
        assert len(names) == len(set(names)) > 0


def test_what_no_parameter_can_hold_is_a_programming_error():
    @dataclass(frozen=True)
    class Odd:
        table: dict[str, int] = field(default_factory=dict)

    with pytest.raises(TypeError, match="table"):
        parameter_names(Odd)


@pytest.mark.ros
def test_quality_of_service_can_be_overridden_for_one_topic(listener):
    from rclpy.qos import ReliabilityPolicy
    from std_msgs.msg import String

    from svfm_ros.config.node_config import ForecastNodeConfig
    from svfm_ros.nodes.runtime.subscriptions import LATCHED

    given = {"qos_overrides./model.subscription.reliability": "best_effort", "qos_overrides./a.publisher.depth": 7}
    overrides = [Parameter(name, value=value) for name, value in given.items()]
    node = ConfiguredNode("forecast_node", ForecastNodeConfig, context=listener.context, parameter_overrides=overrides)
    changed = node.create_subscription(String, "model", print, LATCHED)
    same = node.create_subscription(String, "other", print, LATCHED)
    publisher = node.create_publisher(String, "a", 10)
    assert changed.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
    assert same.qos_profile.reliability == LATCHED.reliability == ReliabilityPolicy.RELIABLE
    assert publisher.qos_profile.depth == 7
    node.close()
