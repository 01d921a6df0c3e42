"""The paper's models as forecasters."""

from benchlib.forecasts.paper_forecasters import paper_forecasters
from benchlib.forecasts.questions import ask_from_start
from test_comparators import straight


def test_the_paper_s_models_learn() -> None:
    walks = straight(16, steps=12, noise_m=0.02)
    asked = ask_from_start(straight(4, steps=12, seed=5), 10, samples=30)
    for forecaster in paper_forecasters(ticks=10, components=2):
        found = []
        for steps in (1, 25):
            forecaster.most_steps = steps
            forecaster.fit(walks)
            found.append(forecaster.nll(asked.truth, asked.lengths))
        assert found[1] < found[0] - 0.3, forecaster.name
        assert forecaster.sample(asked.questions[0]).shape == (30, 11, 2)


def test_training_ends_when_validation_stops_improving() -> None:
    single = paper_forecasters(ticks=4)[0]
    single.fit(straight(10, steps=6, noise_m=0.3))  # noise that no field can learn
    assert single.report is not None
    (restart,) = single.report.restarts
    assert restart.stopped == "no improvement in 10 validations"
    assert restart.best_step == restart.steps - 500 < single.most_steps - 500
    assert restart.best_valid == min(point.valid_loss for point in single.report.curve)
