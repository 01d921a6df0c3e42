"""The paper's models as forecasters."""

from benchlib.forecasts.paper_forecasters import paper_forecasters
from benchlib.forecasts.questions import ask_from_start
from test_comparators import straight


def test_the_paper_s_models_learn() -> None:
    walks = straight(16, steps=12, noise_m=0.02)
    asked = ask_from_start(straight(4, steps=12, seed=5), 10, samples=30)
    for forecaster in paper_forecasters(ticks=10, budget_s=60.0, components=2):
        found = []
        for steps in (1, 25):
            forecaster.most_steps = steps
            forecaster.fit(walks)
            found.append(forecaster.nll(asked.truth, asked.lengths))
        assert found[1] < found[0] - 0.3, forecaster.name
        assert forecaster.sample(asked.questions[0]).shape == (30, 11, 2)
