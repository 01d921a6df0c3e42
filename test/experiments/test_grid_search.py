import numpy as np
import torch

from svfm_ros.experiments.classifiers import GRID, ClassifierSpec, GridPoint, TrainedClassifier
from svfm_ros.experiments.grid_search import _draw, _note, _row
from svfm_ros.experiments.nfe import _cells
from svfm_ros.svfm.classifier import Classifier


def test_the_grid_is_the_paper_s():
    assert len(set(GRID)) == 16
    assert GridPoint() in GRID
    spec = ClassifierSpec("moons", "SVFM", point=GridPoint(1, 64, 50, 1e-3), filtering=True)
    assert (spec.model.hidden_layers, spec.model.hidden_units, spec.model.selection) == (1, 64, "filter")
    assert ClassifierSpec("moons", "VF").model.selection == "stick"


def test_a_filtering_classifier_is_tested_as_it_was_trained():
    spec = ClassifierSpec("moons", "SVFM", filtering=True)
    trained = Classifier(spec.model, 2, spec.seed, 6)  # training takes six steps, and switches at each of them
    points = torch.linspace(-1.5, 1.5, 40).view(20, 2)
    tested = TrainedClassifier(spec, trained.state_dict(), 0.9, 0.1).model()
    assert torch.allclose(tested.predict(points, 4), trained.eval().predict(points, 4))


def test_the_lowest_validation_loss_of_a_column_is_marked():
    best = np.array([0.1, 0.05])
    assert _row(GridPoint(1, 32, 50, 1e-3), [0.1, 0.2], best) == ("1", "32", "50", "0.001", "0.1000*", "0.2000")
    losses = np.array([[0.1, 0.2], [0.3, 0.05]])
    figure = _draw(losses, GRID[:2], ["moons VF", "moons SVFM"])
    assert [p.get_xy() for p in figure.axes[0].patches] == [(-0.5, -0.5), (0.5, 0.5)]


def test_the_note_compares_the_chosen_with_the_usual_combination():
    usual = TrainedClassifier(ClassifierSpec("moons", "SVFM"), {}, 0.9, 0.2)
    best = TrainedClassifier(ClassifierSpec("moons", "SVFM", point=GRID[0]), {}, 0.9, 0.1)
    filtered = TrainedClassifier(ClassifierSpec("moons", "SVFM", point=GRID[0], filtering=True), {}, 0.9, 0.15)
    note = _note(("moons", "SVFM"), [best, usual], best, [filtered])
    assert "chosen 0.1000" in note
    assert "other experiments 0.2000" in note
    assert note.endswith("filtering 0.1500")


def test_savings_stand_beside_the_evaluations_they_come_from():
    cells = _cells({"VF": 60.0, "VF+TVLoss": 40.0, "SVFM": 45.0, "SVFM+TVLoss": 30.0})
    assert cells == (60.0, 40.0, 45.0, 30.0, 30.0, "no")
