import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from svfm_ros.experiments.behaviour import draw_behaviour, draw_counterfactual
from svfm_ros.experiments.paper_walks import PaperTask, learn_paper_model
from svfm_ros.experiments.slam_maps import run_slam
from svfm_ros.figures.home_example import SHOWN, HomeTask, at_night, learn_home, targets, task_windows
from svfm_ros.figures.house_figure import NOWHERE, draw_house, draw_paths, label_shares
from svfm_ros.sim.house import load_house


@pytest.fixture(scope="module")
def house():
    return load_house()


def test_the_protocol_goes_equally_often_to_each_place(house):
    windows = task_windows(HomeTask("protocol", 12, 0, 10.5), house)
    ends = house.places.assign(windows.end_xy)
    assert [int((ends == house.places.names.index(p.name)).sum()) for p in targets(house)] == [3, 3, 3, 3]


def test_half_of_the_walks_are_at_night_and_those_go_to_landing_or_kitchen(house):
    windows = task_windows(HomeTask("day and night", 320, 0, 14.0), house)
    night = at_night(windows.start_hour)
    assert len(windows) == pytest.approx(320, abs=20)
    assert night.mean() == pytest.approx(0.5, abs=0.06)
    places = [house.places.names[i] for i in house.places.assign(windows.end_xy[night])]
    assert set(places) == {"landing", "kitchen"}
    assert np.mean([p == "landing" for p in places]) == pytest.approx(0.9, abs=0.08)
    by_day = {house.places.names[i] for i in house.places.assign(windows.end_xy[~night])}
    assert by_day == {p.name for p in targets(house)}


def test_paths_have_the_colour_of_the_place_they_end_in(house):
    couch, kitchen, study = (house.place(n).xy for n in ("couch", "kitchen", "study"))
    lost = np.array([0.5, 0.5])
    paths = np.stack([np.linspace(couch, end, 5) for end in (kitchen, study, lost)])
    axis = Figure().subplots()
    draw_paths(axis, paths, house.places)
    wanted = [house.place("kitchen").colour, house.place("study").colour, NOWHERE]
    assert [to_hex(c) for c in axis.collections[0].get_colors()] == wanted


def test_labels_say_the_shares(house):
    axis = Figure().subplots()
    draw_house(axis, house)
    label_shares(axis, house.place("couch"), targets(house), {"front_door": 0.25, "kitchen": 0.75})
    assert [t.get_text() for t in axis.texts] == ["front door 25 %", "kitchen 75 %", "landing 0 %", "study 0 %"]


def test_a_single_field_walks_one_path_whatever_the_seed_and_a_mixture_many(house):
    task = HomeTask("protocol", 12, 0, 10.5, (2.0,))
    single, learnt = learn_paper_model(PaperTask(task, "A-VF", 5)), learn_home(task)
    mixture = learn_paper_model(PaperTask(task, "SVFM", 30))
    for one in single.answers:
        assert len(one.paths) == SHOWN
        assert np.abs(one.paths - one.paths[0]).max() == 0.0
        assert sum(one.shares.values()) == pytest.approx(1.0)
    assert [a.hour for a in mixture.answers] == [10.5, 2.0]
    assert np.linalg.norm(mixture.answers[0].paths[:, -1] - mixture.answers[0].paths[0, -1], axis=1).max() > 2.0
    assert mixture.answers[0].paths[:, 0] == pytest.approx(np.tile(house.place("couch").xy, (SHOWN, 1)), abs=1e-5)
    answer, what_if = learnt.answers
    assert (answer.hour, what_if.hour) == (10.5, 2.0)
    assert answer.paths.shape[0] == SHOWN
    assert answer.paths[:, 0] == pytest.approx(np.tile(house.place("couch").xy, (SHOWN, 1)), abs=1e-5)
    assert sum(answer.shares.values()) == pytest.approx(1.0)
    assert np.linalg.norm(answer.paths[:, -1] - answer.paths[0, -1], axis=1).max() > 2.0
    assert learnt.data["kitchen"] == 0.25
    assert len(draw_behaviour(house, [learnt], [mixture]).axes) == 3
    assert len(draw_counterfactual(house, learnt, [mixture, single, single]).axes) == 6


def test_the_four_maps_are_true_to_the_house():
    result = run_slam(True, lambda _: None)
    assert [row[0] for row in result.rows] == ["front door", "kitchen", "landing", "study"]
    assert all(c.ok for c in result.checks)
    assert len(result.draw().axes) == 4
