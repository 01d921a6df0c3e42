"""A forecast as markers: the right colours, few markers, few bytes, nothing stale."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rclpy.serialization import deserialize_message, serialize_message
from visualization_msgs.msg import Marker, MarkerArray

from svfm_ros.nodes.messages.marker_shapes import Canvas, Shape, bytes_are_right, to_bytes, to_marker_array, to_wire
from svfm_ros.nodes.messages.markers import MarkerStyle, clear_shapes, endpoint_shapes, path_shapes
from svfm_ros.types import Forecast, Place, Places, Pose2

PLACES = Places(
    (
        Place("front_door", 5.0, 0.0, 0.8, "#800080"),
        Place("kitchen", 0.0, 5.0, 0.8, "#0000ff"),
        Place("landing", -5.0, 0.0, 0.8, "#808080"),
    )
)


def forecast(counts=(60, 30, 0), astray=10, known=True, steps=26, seed=0):
    """Straight walks from the origin: so many to each place, and some to nowhere."""
    rng = np.random.default_rng(seed)
    goals = [p.xy for p, n in zip(PLACES, counts, strict=True) for _ in range(n)] + [np.array([0.0, -5.0])] * astray
    ends = np.array(goals).reshape(-1, 2) + rng.normal(0, 0.1, (len(goals), 2))
    samples = ends[:, None] * np.linspace(0, 1, steps)[:, None]
    total = max(len(goals), 1)
    shares = {p.name: n / total for p, n in zip(PLACES, counts, strict=True)} | {"elsewhere": astray / total}
    entropy = -sum(s * math.log(s) for s in shares.values() if s)
    component = np.zeros(len(goals), dtype=np.int64)
    return Forecast(10**18, "map", np.linspace(0, 10, steps), samples, component, shares, entropy, 52, "m1", known)


def of_kind(shapes, kind):
    return [s for s in shapes if s.kind == kind and s.action == Marker.ADD]


# Bytes


floats = st.floats(-1e3, 1e3, width=32)
shape_strategy = st.builds(
    Shape,
    namespace=st.text(max_size=5),
    number=st.integers(0, 1000),
    kind=st.sampled_from([Marker.LINE_LIST, Marker.CYLINDER, Marker.TEXT_VIEW_FACING]),
    pose=st.builds(Pose2, floats, floats, floats),
    height_m=floats,
    scale=st.tuples(floats, floats, floats),
    colour=st.tuples(*[st.floats(0, 1, width=32)] * 4),
    points=hnp.arrays(float, st.tuples(st.integers(0, 5), st.just(2)), elements=floats),
    colours=hnp.arrays(float, st.tuples(st.integers(0, 5), st.just(4)), elements=st.floats(0, 1, width=32)),
    text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
).filter(lambda s: "\0" not in s.namespace)


@given(st.lists(shape_strategy, max_size=4), st.integers(0, 2 * 10**18), st.floats(0, 100))
@settings(deadline=None)
def test_bytes_say_the_same_as_the_messages(shapes, stamp_ns, lifetime_s):
    canvas = Canvas("map", stamp_ns, lifetime_s)
    assert deserialize_message(to_bytes(shapes, canvas), MarkerArray) == to_marker_array(shapes, canvas)


def test_bytes_are_used_where_they_are_right():
    assert bytes_are_right()
    assert isinstance(to_wire(clear_shapes(), Canvas("map", 0)), bytes)


# Paths


def test_one_list_of_lines_for_each_endpoint_in_its_colour():
    lines = of_kind(path_shapes(forecast(), PLACES, MarkerStyle()), Marker.LINE_LIST)
    by_colour = {s.colour[:3]: s for s in lines}
    assert len(lines) == 3  # two places and elsewhere; nobody goes to the landing
    assert set(by_colour) == {PLACES.places[0].rgb, PLACES.places[1].rgb, (0.35, 0.35, 0.35)}
    door, kitchen = by_colour[PLACES.places[0].rgb], by_colour[PLACES.places[1].rgb]
    assert door.colour[3] > kitchen.colour[3]  # the likelier, the more solid
    assert door.points[:, 0].max() == pytest.approx(5.0, abs=0.5)
    assert len(door.colours) == len(door.points)
    assert len(door.points) % 2 == 0


def test_paths_cut_at_the_horizon_have_the_colour_of_where_they_end_in_the_end():
    made = forecast((10, 0, 0), 0)
    short = replace(made, samples_xy=made.samples_xy[:, :8], endpoint=np.zeros(10, dtype=np.int64))
    (line,) = of_kind(path_shapes(short, PLACES, MarkerStyle()), Marker.LINE_LIST)
    assert line.colour[:3] == PLACES.places[0].rgb
    (disc,) = of_kind(endpoint_shapes(short, PLACES, MarkerStyle()), Marker.CYLINDER)
    assert (disc.pose.x, disc.pose.y, disc.scale[0]) == (5.0, 0.0, 1.6)  # nobody is there yet: the place itself


def test_lines_follow_the_samples():
    (line,) = of_kind(path_shapes(forecast((1, 0, 0), 0), PLACES, MarkerStyle(segments=5)), Marker.LINE_LIST)
    end = forecast((1, 0, 0), 0).samples_xy[0, -1]
    pairs = line.points.reshape(-1, 2, 2)
    np.testing.assert_allclose(pairs[:, 0], end * np.arange(5)[:, None] / 5, atol=1e-9)
    np.testing.assert_allclose(pairs[:, 1], end * np.arange(1, 6)[:, None] / 5, atol=1e-9)


@given(
    st.lists(st.integers(0, 300), min_size=3, max_size=3),
    st.integers(0, 50),
    st.integers(5_000, 200_000),
    st.integers(1, 20),
    st.booleans(),
)
@settings(deadline=None, max_examples=50)
def test_size_is_bounded_and_every_endpoint_is_drawn(counts, astray, max_bytes, segments, dashed):
    style = MarkerStyle(max_bytes=max_bytes, segments=segments, dashed=dashed)
    made = forecast(tuple(counts), astray)
    shapes = path_shapes(made, PLACES, style)
    present = sum(1 for n in (*counts, astray) if n)
    assert len(of_kind(shapes, Marker.LINE_LIST)) == present
    size = len(to_bytes(shapes, style.canvas(made)))
    assert size <= max_bytes + present * (80 * segments + 400) + 600


def test_a_second_of_forecasts_fits_into_a_megabyte():
    made, style = forecast((200, 200, 100), 0), MarkerStyle()
    size = sum(len(to_bytes(f(made, PLACES, style), style.canvas(made))) for f in (path_shapes, endpoint_shapes))
    assert 10 * size <= 1_000_000  # at 10 Hz


def test_stale_markers_go_away():
    shapes = path_shapes(forecast(), PLACES, MarkerStyle())
    assert shapes[0].action == Marker.DELETEALL
    message = to_marker_array(shapes, MarkerStyle(lifetime_s=2.0).canvas(forecast()))
    assert all((m.lifetime.sec, m.header.frame_id) == (2, "map") for m in message.markers)
    keys = [(m.ns, m.id) for m in message.markers[1:]]
    assert len(keys) == len(set(keys))


def test_a_what_if_is_dashed_and_in_a_namespace_of_its_own():
    live, style = MarkerStyle(), MarkerStyle().what_if()
    solid = of_kind(path_shapes(forecast((1, 0, 0), 0), PLACES, live), Marker.LINE_LIST)[0]
    dashed = of_kind(path_shapes(forecast((1, 0, 0), 0), PLACES, style), Marker.LINE_LIST)[0]
    length = [np.linalg.norm(np.diff(s.points.reshape(-1, 2, 2), axis=1)[:, 0], axis=1).sum() for s in (solid, dashed)]
    assert length[1] == pytest.approx(length[0] / 2, rel=0.1)
    names = {s.namespace for s in path_shapes(forecast(), PLACES, style)[1:]}
    assert all(n.startswith("forecast/what_if/") for n in names)
    both = path_shapes(forecast(), PLACES, style) + endpoint_shapes(forecast(), PLACES, style)
    texts = of_kind(both, Marker.TEXT_VIEW_FACING)
    assert len(texts) == 4
    assert sum(t.text.startswith("what if: ") for t in texts) == 1  # the line beside the walker
    assert dashed.colour[3] < 0.5 * solid.colour[3]


# Endpoints


def test_endpoints_have_a_name_a_percentage_and_an_ellipse_where_the_samples_end():
    shapes = endpoint_shapes(forecast(), PLACES, MarkerStyle())
    texts = {s.text for s in of_kind(shapes, Marker.TEXT_VIEW_FACING)}
    assert texts == {"front door 60 %", "kitchen 30 %", "elsewhere 10 %"}  # the landing has no share
    ellipses = of_kind(shapes, Marker.CYLINDER)
    assert len(ellipses) == 2  # none for elsewhere, which is no place
    door = min(ellipses, key=lambda s: math.hypot(s.pose.x - 5, s.pose.y))
    assert math.hypot(door.pose.x - 5, door.pose.y) < 0.1
    assert door.scale[0] == pytest.approx(0.4, abs=0.15)  # four sigmas of 0.1 m
    name = next(s for s in of_kind(shapes, Marker.TEXT_VIEW_FACING) if s.text == "front door 60 %")
    assert name.scale[2] > max(s.scale[2] for s in of_kind(shapes, Marker.TEXT_VIEW_FACING) if s is not name)
    assert name.pose.y - 0.5 * name.scale[2] > door.pose.y + 0.5 * door.scale[1]  # above it, not over its paths


def test_an_ellipse_lies_along_the_spread():
    made = forecast((400, 0, 0), 0)
    rng = np.random.default_rng(1)
    along = np.array([math.cos(0.5), math.sin(0.5)])
    made.samples_xy[:, -1] = PLACES.places[0].xy + rng.normal(0, 0.15, (400, 1)) * along
    (ellipse,) = of_kind(endpoint_shapes(made, PLACES, MarkerStyle()), Marker.CYLINDER)
    assert ellipse.scale[0] > 2 * ellipse.scale[1]
    assert math.sin(ellipse.pose.theta - 0.5) == pytest.approx(0.0, abs=0.05)  # either way round


def test_a_what_if_names_only_places_whose_share_differs():
    style = MarkerStyle().what_if()
    live, same, other = forecast((60, 30, 0), 10), forecast((62, 28, 0), 10), forecast((30, 60, 0), 10)
    assert of_kind(endpoint_shapes(same, PLACES, style, live), Marker.TEXT_VIEW_FACING) == []
    assert of_kind(path_shapes(same, PLACES, style, live), Marker.TEXT_VIEW_FACING) == []
    texts = {s.text for s in of_kind(endpoint_shapes(other, PLACES, style, live), Marker.TEXT_VIEW_FACING)}
    assert texts == {"what if 30 %", "what if 60 %"}


def test_labels_do_not_cover_each_other():
    near = Places(tuple(Place(f"seat_{i}", 5.0, 0.1 * i, 0.05, "#800080") for i in range(3)))
    made = replace(forecast((30, 0, 0), 0), shares={p.name: 1 / 3 for p in near})
    texts = of_kind(endpoint_shapes(made, near, MarkerStyle()), Marker.TEXT_VIEW_FACING)
    heights = sorted(t.pose.y for t in texts)
    assert len(texts) == 3
    assert np.diff(heights).min() >= MarkerStyle().text_m - 1e-9
    assert all(0.2 < t.scale[0] / t.scale[2] < 0.5 for t in texts)  # rviz2: a space is as wide as scale.x says


@pytest.mark.parametrize(
    ("counts", "changes", "expected"),
    [
        ((95, 5, 0), {}, "very likely: front door"),
        ((60, 40, 0), {}, "likely: front door"),
        ((40, 60, 0), {"samples_xy": -forecast((40, 60, 0), 0).samples_xy}, "likely: kitchen"),
        ((34, 33, 33), {}, "undecided: front door or kitchen"),
        ((95, 5, 0), {"unfamiliar": 0.8}, "an unfamiliar walk (80 %)"),
        ((95, 5, 0), {"known": False}, "unknown: no recorded walk came near here at about this hour"),
        ((95, 5, 0), {"known": False, "reason": "another frame"}, "unknown: another frame"),
        ((95, 5, 0), {"entropy": None}, "very likely: front door"),
    ],
)
def test_a_sentence_beside_the_walker_says_how_sure_it_is(counts, changes, expected):
    made = replace(forecast(counts, 0), **changes)
    text, *small = of_kind(path_shapes(made, PLACES, MarkerStyle()), Marker.TEXT_VIEW_FACING)
    assert text.text == expected
    assert math.hypot(text.pose.x, text.pose.y) < 0.7
    assert (text.pose.y > 0.0) == (made.samples_xy[:, -1, 1].mean() <= 0.0)  # not over the paths
    assert len(small) == (made.known and made.entropy is not None)
    for figures in small:
        assert figures.text == f"entropy {made.entropy:.2f} nats, 52 walks"
        assert figures.scale[2] < 0.7 * text.scale[2]
        assert figures.pose.y < text.pose.y - 0.5 * text.scale[2]
        assert figures.pose.y * text.pose.y > 0.0  # on the same side of the walker


def test_paths_of_the_free_walker_are_grey():
    made = forecast((10, 0, 0), 0)
    made.component[5:] = -1
    lines = of_kind(path_shapes(made, PLACES, MarkerStyle()), Marker.LINE_LIST)
    assert sorted(s.colour[:3] for s in lines) == sorted([PLACES.places[0].rgb, (0.6, 0.6, 0.6)])


def test_an_unknown_forecast_has_no_paths_and_no_places():
    made = forecast(known=False)
    assert of_kind(path_shapes(made, PLACES, MarkerStyle()), Marker.LINE_LIST) == []
    assert of_kind(endpoint_shapes(made, PLACES, MarkerStyle()), Marker.CYLINDER) == []


def test_without_samples_or_places_nothing_breaks():
    for places in (PLACES, Places()):
        for made in (forecast((0, 0, 0), 0), forecast()):
            for shapes in (path_shapes(made, places, MarkerStyle()), endpoint_shapes(made, places, MarkerStyle())):
                serialize_message(to_marker_array(shapes, MarkerStyle().canvas(made)))
