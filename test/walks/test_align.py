"""Walks brought into the house's frame, in a small house whose walls are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.errors import DataError
from svfm_ros.types import OccupancyGrid, Pose2, Walk
from svfm_ros.walks.align import Aligner, align_walks, refine_pose
from svfm_ros.walks.long_walls import on_long_walls, surface_normals
from svfm_ros.walks.reference_map import FREE, UNKNOWN, WALL, ReferenceMap

# Walls as lines: a living room, a kitchen beyond a door at the top, a hall to the right.
LIVING = [
    ((0, 0), (5, 0)),
    ((0, 0), (0, 4)),
    ((5, 0), (5, 1.2)),
    ((5, 2.2), (5, 4)),
    ((0, 4), (1.5, 4)),
    ((2.5, 4), (5, 4)),
]
KITCHEN = [((0, 4), (0, 7)), ((0, 7), (3.2, 7)), ((3.2, 7), (3.2, 4)), ((0.8, 6.2), (0.8, 7)), ((0, 6.2), (0.8, 6.2))]
HALL = [((5, 0.5), (9, 0.5)), ((5, 3), (7.5, 3)), ((7.5, 3), (7.5, 5)), ((9, 0.5), (9, 5)), ((7.5, 5), (9, 5))]
FURNITURE = [((1, 1), (2.2, 1)), ((2.2, 1), (2.2, 1.8)), ((3.6, 3.1), (4.4, 3.5)), ((6.5, 0.5), (6.5, 1.1))]
HOUSE = np.array([*LIVING, *KITCHEN, *HALL, *FURNITURE], dtype=float)  # (walls, 2 ends, 2)

TO_KITCHEN = [(3.0, 1.4), (2.8, 2.6), (2.0, 3.9), (1.9, 5.5)]
TO_HALL = [(3.0, 1.4), (3.8, 1.9), (5.0, 1.7), (6.0, 2.0), (8.0, 2.2), (8.3, 4.2)]
EVERYWHERE = [*TO_KITCHEN, *TO_KITCHEN[::-1], *TO_HALL]


def seen_from(place: np.ndarray, walls: np.ndarray, beams: int = 300) -> np.ndarray:
    """Where beams from a place end; those that end nowhere are left out."""
    angles = np.linspace(0, 2 * np.pi, beams, endpoint=False) + place[0]
    d = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[:, None]  # (beams, 1, 2)
    a, edge = walls[:, 0] - place, walls[:, 1] - walls[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        cross = d[..., 0] * edge[:, 1] - d[..., 1] * edge[:, 0]
        t = (a[:, 0] * edge[:, 1] - a[:, 1] * edge[:, 0]) / cross
        u = (a[:, 0] * d[..., 1] - a[:, 1] * d[..., 0]) / cross
    t = np.where((t > 0) & (u >= -1e-9) & (u <= 1 + 1e-9), t, np.inf).min(axis=1)
    return (place + t[:, None] * d[:, 0])[np.isfinite(t)]


def walk_through(way: list[tuple[float, float]], walls: np.ndarray = HOUSE, seed: int = 0, name: str = "w") -> Walk:
    """A walk along corners of a way, in the house's own frame, with noise on what it saw."""
    corners = np.array(way, dtype=float)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(corners, axis=0).T))])
    at = np.arange(0.0, length[-1], 0.1)
    xy = np.column_stack([np.interp(at, length, corners[:, i]) for i in (0, 1)])
    points = np.concatenate([seen_from(p, walls) for p in xy[::3]])
    points += np.random.default_rng(seed).normal(size=points.shape) * 0.015
    cells = np.unique(np.floor(points / 0.05).astype(int), axis=0, return_index=True)[1]
    poses = np.column_stack([xy, np.zeros(len(xy))])
    return Walk(name, "anna", np.arange(len(xy)) * 100_000_000, poses, points[cells])


def moved(walk: Walk, T_house_walk: Pose2) -> Walk:
    """The walk in a frame of its own, such that ``T_house_walk`` brings it back."""
    return walk.in_house(T_house_walk.inverse())


@pytest.fixture(scope="module")
def reference() -> ReferenceMap:
    return ReferenceMap.from_walk(walk_through(EVERYWHERE, seed=99))


@pytest.fixture(scope="module")
def aligner(reference: ReferenceMap) -> Aligner:
    return Aligner(reference)


@given(st.floats(-30, 30), st.floats(-30, 30), st.floats(-np.pi, np.pi), st.booleans())
@settings(max_examples=8, deadline=None)
def test_a_walk_is_placed_wherever_its_frame_lies(
    aligner: Aligner, x: float, y: float, theta: float, hall: bool
) -> None:
    wanted = Pose2(x, y, theta)
    alignment = aligner.align(moved(walk_through(TO_HALL if hall else TO_KITCHEN, seed=3), wanted))
    assert alignment.accepted, alignment.reason
    off = wanted.inverse() @ alignment.T_house_walk
    middle = np.array([[4.0, 3.0]])
    shift = alignment.T_house_walk.apply(wanted.inverse().apply(middle)) - middle
    assert np.hypot(*shift[0]) < 0.03
    assert abs(np.degrees(off.theta)) < 0.5
    assert alignment.match is not None
    assert alignment.match.inlier_ratio > 0.9
    assert np.all(np.linalg.eigvalsh(alignment.match.information) > 0)


def test_a_walk_of_another_house_is_refused(aligner: Aligner) -> None:
    other = np.array(
        [((0, 0), (3, 0)), ((3, 0), (3, 2)), ((3, 3), (3, 6)), ((3, 6), (0, 6)), ((0, 6), (0, 0)), ((3, 2), (6, 2)),
         ((6, 2), (6, 5)), ((6, 5), (5, 5)), ((3.0, 3.6), (4, 5)), ((1, 4), (1.6, 4.5)), ((1, 4), (1, 5))],
        dtype=float,
    )  # fmt: skip
    alignment = aligner.align(walk_through([(1, 1), (2, 2.4), (3.2, 2.5), (5, 3)], other))
    assert not alignment.accepted
    assert alignment.reason


def test_a_walk_in_an_empty_room_fits_two_ways_and_is_refused() -> None:
    room = np.array([((0, 0), (5, 0)), ((5, 0), (5, 4)), ((5, 4), (0, 4)), ((0, 4), (0, 0))], dtype=float)
    aligner = Aligner(ReferenceMap.from_walk(walk_through([(1, 1), (4, 3)], room)))
    alignment = aligner.align(moved(walk_through([(1, 1), (3, 1.5)], room, seed=1), Pose2(3.0, 2.0, 0.5)))
    assert not alignment.accepted
    assert "another position" in alignment.reason


def test_an_empty_room_is_not_taken_for_one_of_the_house(aligner: Aligner) -> None:
    room = np.array([((0, 0), (4, 0)), ((4, 0), (4, 3)), ((4, 3), (0, 3)), ((0, 3), (0, 0))], dtype=float)
    alignment = aligner.align(walk_through([(1, 1), (3, 2)], room))
    assert not alignment.accepted


@pytest.mark.parametrize("count", [0, 20])
def test_a_walk_that_saw_next_to_nothing_is_refused(aligner: Aligner, count: int) -> None:
    walk = walk_through(TO_HALL)
    alignment = aligner.align(Walk("w", "anna", walk.stamps_ns, walk.poses, walk.points[:count]))
    assert not alignment.accepted
    assert f"got {count}" in alignment.reason
    assert alignment.match is None


def test_points_that_are_not_numbers_do_no_harm(aligner: Aligner) -> None:
    walk = walk_through(TO_HALL)
    points = np.concatenate([walk.points, [[np.nan, 1.0], [np.inf, np.nan]]])
    assert aligner.align(Walk("w", "anna", walk.stamps_ns, walk.poses, points)).accepted


def test_a_path_through_a_wall_is_refused(aligner: Aligner) -> None:
    walk = walk_through(TO_HALL)
    xy = np.linspace([4.0, 3.8], [8.0, 3.8], len(walk.poses))  # straight through two walls
    poses = np.column_stack([xy, np.zeros(len(xy))])
    alignment = aligner.align(Walk("w", "anna", walk.stamps_ns, poses, walk.points))
    assert not alignment.accepted
    assert "within walls" in alignment.reason or "through walls" in alignment.reason


def test_much_that_stands_in_free_space_is_refused(aligner: Aligner) -> None:
    walk = walk_through(TO_KITCHEN)
    box = np.stack(np.meshgrid(np.arange(2.6, 4.4, 0.05), np.arange(1.4, 2.9, 0.05)), axis=-1).reshape(-1, 2)
    assert len(box) > 0.35 * len(walk.points)
    alignment = aligner.align(Walk("w", "anna", walk.stamps_ns, walk.poses, np.concatenate([walk.points, box])))
    assert not alignment.accepted


def test_a_moved_chair_and_a_passer_by_are_no_reason_to_refuse(aligner: Aligner) -> None:
    walk = walk_through(TO_KITCHEN)
    chair = np.stack(np.meshgrid(np.arange(3.0, 3.4, 0.05), np.arange(2.0, 2.3, 0.05)), axis=-1).reshape(-1, 2)
    alignment = aligner.align(Walk("w", "anna", walk.stamps_ns, walk.poses, np.concatenate([walk.points, chair])))
    assert alignment.accepted, alignment.reason


def test_a_day_with_moved_furniture_and_doors_is_placed(aligner: Aligner) -> None:
    moved_things = [
        ((1.4, 2.0), (2.6, 2.0)),
        ((1.4, 2.0), (1.4, 2.8)),
        ((4.0, 2.9), (4.4, 3.5)),
        ((0.5, 0.5), (1.3, 0.5)),
    ]
    shut = [((5, 1.2), (5, 2.2)), ((0.8, 5.0), (1.3, 5.0)), ((2.4, 6.0), (2.4, 6.7))]
    other_day = np.array([*LIVING, *KITCHEN, *HALL, *moved_things, *shut], dtype=float)
    wanted = Pose2(3.0, -2.0, 1.1)
    alignment = aligner.align(moved(walk_through(TO_KITCHEN, other_day, seed=4), wanted))
    assert alignment.accepted, alignment.reason
    off = wanted.inverse() @ alignment.T_house_walk
    assert np.hypot(off.x, off.y) < 0.05
    assert abs(off.theta) < 0.02


def test_a_house_with_a_wall_elsewhere_is_another_house(aligner: Aligner) -> None:
    shorter = [((0, 4), (0, 6)), ((0, 6), (3.2, 6)), ((3.2, 6), (3.2, 4))]
    narrower = [((0, 0.8), (5, 0.8)), *LIVING[1:]]
    other = np.array([*narrower, *shorter, *FURNITURE], dtype=float)
    alignment = aligner.align(walk_through(TO_KITCHEN, other))
    assert not alignment.accepted
    assert "walls" in alignment.reason


def test_only_long_straight_surfaces_are_walls() -> None:
    along = np.arange(0.0, 4.0, 0.05)
    wall, leaf = np.stack([along, 0.0 * along], axis=-1), np.stack([2.0 + 0.0 * along, 1.0 + 0.2 * along], axis=-1)
    doorway = wall[(wall[:, 0] < 1.0) | (wall[:, 0] > 1.8)] + [0.0, 5.0]
    points = np.concatenate([wall, leaf, doorway])
    found = on_long_walls(points, surface_normals(points))
    assert found[: len(wall)].all()
    assert not found[len(wall) : len(wall) + len(leaf)].any()
    np.testing.assert_array_equal(found[len(wall) + len(leaf) :], doorway[:, 0] > 1.8)


def test_an_occupancy_grid_serves_as_reference(reference: ReferenceMap) -> None:
    prob = np.array([np.nan, 0.0, 1.0], dtype=np.float32)[reference.cells]  # unknown, free, wall
    corner = Pose2(float(reference.corner[0]), float(reference.corner[1]), 0.0)
    turned = OccupancyGrid(prob, reference.resolution_m, Pose2(1.0, 2.0, 0.4) @ corner)
    alignment = Aligner(ReferenceMap.from_grid(turned)).align(walk_through(TO_HALL, seed=5))
    assert alignment.accepted, alignment.reason
    np.testing.assert_allclose(alignment.T_house_walk.as_array(), [1.0, 2.0, 0.4], atol=0.06)


def test_walks_extend_the_map_for_those_that_follow() -> None:
    in_kitchen = walk_through([(1.9, 5.6), (1.6, 5.0), (2.4, 6.2)], seed=1)
    to_living = moved(walk_through(TO_KITCHEN[::-1], seed=2), Pose2(1.0, 1.0, 1.0))
    to_hall = moved(walk_through(TO_HALL, seed=3), Pose2(2.0, 0.0, -1.0))
    far = moved(walk_through([(8.3, 2.8), (8.3, 4.3)], seed=4), Pose2(-4.0, 2.0, 2.0))
    walks, start = [far, to_living, to_hall, far], ReferenceMap.from_walk(in_kitchen)
    without = align_walks(walks, start)
    assert [a.accepted for a in without.alignments] == [False, True, False, False]
    assert without.reference is start
    extended = align_walks(walks, start, extend=True)
    assert [a.accepted for a in extended.alignments] == [True, True, True, True], "the first is tried again"
    for k in (0, 3):
        np.testing.assert_allclose(extended.alignments[k].T_house_walk.as_array(), [-4.0, 2.0, 2.0], atol=0.08)


def test_what_is_known_stays_when_a_map_is_extended(reference: ReferenceMap) -> None:
    walk = walk_through(TO_HALL, seed=8)
    extended = reference.extended(walk)
    assert len(extended.points) < len(reference.points) + 20, "nothing new was seen"
    where = np.array([[4.0, 2.0], [5.0, 0.6], [20.0, 20.0]])
    np.testing.assert_array_equal(extended.classes(where), [FREE, WALL, UNKNOWN])


def test_lines_of_sight_know_walls(reference: ReferenceMap) -> None:
    starts = np.array([[3.0, 1.4], [3.0, 1.4], [3.0, 1.4]])
    ends = np.array([[4.9, 0.5], [4.0, 6.0], [8.9, 2.0]])  # along the room, through the wall above, out of the door
    np.testing.assert_array_equal(reference.crossed(starts, ends), [False, True, False])


def test_references_need_walls() -> None:
    with pytest.raises(DataError, match="without points"):
        ReferenceMap.from_walk(Walk("w", "anna", np.arange(2), np.zeros((2, 3))))
    with pytest.raises(DataError, match="without an occupied cell"):
        ReferenceMap.from_grid(OccupancyGrid(np.zeros((5, 5), dtype=np.float32), 0.1))


ALONG = np.arange(0.0, 1.0, 0.01)[:, None]


def room(width_m: float = 5.0, height_m: float = 3.0) -> np.ndarray:
    """Points ``(N, 2)`` of the walls of a room, a centimetre or more apart."""
    corners = np.array([[0.0, 0.0], [width_m, 0.0], [width_m, height_m], [0.0, height_m]])
    return np.concatenate([a + ALONG * (b - a) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)])


def map_of(points: np.ndarray) -> ReferenceMap:
    return ReferenceMap(points, np.zeros((1, 1), dtype=np.uint8), 0.05, np.zeros(2))


@pytest.mark.parametrize("guess", [Pose2(), Pose2(0.15, -0.1, 0.03), Pose2(-0.12, 0.12, -0.04)])
@pytest.mark.parametrize("origin", [Pose2(), Pose2(30.0, -20.0, 2.0)])
def test_the_pose_of_a_room_is_found_from_near_it(guess: Pose2, origin: Pose2) -> None:
    points = origin.inverse().apply(room())  # as seen in a frame whose origin may be far away
    match = refine_pose(points, map_of(room()), guess @ origin)
    np.testing.assert_allclose(match.T_target_source.apply(points), room(), atol=2e-3)
    assert match.converged
    assert match.inlier_ratio == 1.0
    assert match.rmse_m < 2e-3


def test_a_passer_by_does_not_pull_the_pose() -> None:
    beside = np.column_stack([np.linspace(1.0, 3.0, 60), np.full(60, 0.15)])  # 0.15 m before the lower wall
    match = refine_pose(np.concatenate([room(), beside]), map_of(room()), Pose2(0.03, 0.02, 0.01))
    np.testing.assert_allclose(match.T_target_source.as_array(), 0.0, atol=2e-3)


def test_along_a_single_wall_the_information_is_zero() -> None:
    wall = np.column_stack([np.linspace(0.0, 4.0, 400), np.zeros(400)])
    match = refine_pose(wall[100:300], map_of(wall), Pose2(0.0, 0.05, 0.0))
    assert match.T_target_source.y == pytest.approx(0.0, abs=1e-3)
    assert match.information[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert match.information[1, 1] == pytest.approx(200 / 0.02**2)  # one per point, with a standard deviation of 2 cm


def test_points_far_from_all_walls_have_no_pose() -> None:
    match = refine_pose(room() + 50.0, map_of(room()), Pose2())
    assert not match.converged
    assert match.inlier_ratio == 0.0
