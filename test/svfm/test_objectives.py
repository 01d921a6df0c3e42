import math

import numpy as np
import pytest
import torch
from known_fields import constant_model

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.classifier import Classifier, classifier_loss
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.objectives import Normaliser, walk_batch, walk_objective
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.training import seeded, train


def line_walk(first, count=3):
    """One walk along x at one metre per second: times (N,) and positions (N, 2)."""
    times = first + np.arange(float(count))
    return times, np.column_stack((times - first, np.zeros(count)))


def in_double(batch):
    return tuple(x.double() for x in batch)


def test_walks_are_interpolated_by_a_cubic_on_their_own_grids():
    times = [np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([10.0, 10.5, 11.5, 12.0])]
    positions = [np.column_stack((t**3 - t, 2.0 * t)) for t in times]  # a cubic spline reproduces cubics
    start, grids, targets = walk_batch(times, positions, steps=8)
    torch.testing.assert_close(start, torch.tensor([[0.0, 0.0], [990.0, 20.0]]))
    torch.testing.assert_close(grids[1], torch.linspace(10.0, 12.0, 9).double())
    t = grids[:, 1:]
    torch.testing.assert_close(targets, torch.stack((t**3 - t, 2.0 * t), dim=-1).float())


def test_a_walk_that_has_ended_stays_where_it_ended():
    times, xy = line_walk(50_000.0)
    start, grids, targets = walk_batch([times], [xy], steps=4, horizon=4.0)
    assert start.tolist() == [[0.0, 0.0]]
    assert grids[0].tolist() == [50_000.0, 50_001.0, 50_002.0, 50_003.0, 50_004.0]
    assert targets[0, :, 0].tolist() == pytest.approx([1.0, 2.0, 2.0, 2.0])


def test_forecast_loss_of_a_walk_by_hand():
    batch = in_double(walk_batch(*([part] for part in line_walk(5.0)), steps=2))
    right, slow = constant_model([[1.0, 0.0]], stochastic=False), constant_model([[0.5, 0.0]], stochastic=False)
    assert walk_objective(right, batch, 0).item() == pytest.approx(0.0)
    assert walk_objective(slow, batch, 0).item() == pytest.approx((0.25 + 1.0) / 2)
    pair = constant_model([[1.0, 0.0], [-50.0, 0.0]], stochastic=False, floor=0.5)  # the second is out of reach
    by_hand = math.log(2.0) + math.log(2.0 * math.pi * 0.25)
    assert walk_objective(pair, batch, 0).item() == pytest.approx(by_hand)


def test_clock_times_of_a_day_lose_no_precision():
    """Seconds of the day in float32 are 8 ms apart: steps of the solver must not be rounded to that."""
    model = constant_model([[1.0, 0.0]], stochastic=False, time="cyclic", period=86_400.0, dtype=torch.float32)
    batch = walk_batch(*([part] for part in line_walk(50_000.1)), steps=7)
    assert walk_objective(model, batch, 0).item() == pytest.approx(0.0, abs=1e-10)


def test_a_fork_is_learnt_from_walks_and_sampled_again():
    """Walks go right and then turn up or down: the paper's way to train a forecaster, small."""
    g = torch.Generator().manual_seed(0)
    t = torch.linspace(0.0, 1.0, 9)
    walks = []
    for i in range(24):
        turn = (1.0 if i % 3 else -1.0) * t.square()
        xy = torch.stack((t * (1.0 + 0.1 * torch.randn(1, generator=g)), turn), dim=1)
        walks.append(xy + 0.01 * torch.randn(9, 2, generator=g) * (t > 0).unsqueeze(1))
    data = walk_batch([t.double().numpy()] * 24, [w.double().numpy() for w in walks], steps=3)
    velocities = torch.stack([w[-1] - w[0] for w in walks])
    config = ModelConfig(components=2, floor=0.05, activation="tanh", hidden_layers=1, hidden_units=16, max_speed=4.0)
    options = TrainConfig(steps=80, batch_size=0, learning_rate=0.05, gate_learning_rate=0.05)
    model = train(lambda s: seeded(MixtureModel(config, s), velocities, s), walk_objective, data, None, options).model
    ends = sample_paths(model, torch.zeros(2000, 2), torch.linspace(0, 1, 9), model.draw(0, 2000)).states[-1]
    up = ends[:, 1] > 0
    assert up.double().mean().item() == pytest.approx(2 / 3, abs=0.05)
    torch.testing.assert_close(ends[up].mean(0), torch.tensor([1.0, 1.0]), atol=0.1, rtol=0.0)
    torch.testing.assert_close(ends[~up].mean(0), torch.tensor([1.0, -1.0]), atol=0.1, rtol=0.0)


def test_a_step_of_training_asks_nothing_of_the_device():
    """The meta device has no numbers: whatever would wait for one (item, bool, a mask's size) raises there."""
    config = ModelConfig(components=2, selection="filter", correlation=0.5, time="cyclic", hidden_layers=1)
    walks = (torch.zeros(5, 2), torch.zeros(5, 2), torch.zeros(5, 1, 2))
    walk_objective(MixtureModel(config).to("meta"), tuple(x.to("meta") for x in walks), 0).backward()
    classifier = Classifier(ModelConfig(components=2, hidden_layers=1), 2, steps=1).to("meta")
    label = torch.zeros(5, dtype=torch.long, device="meta")
    classifier_loss(classifier, torch.zeros(5, 2, device="meta"), label, penalty=0.1).backward()


def test_wrong_walks_are_refused():
    line = np.array([[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(DataError, match="expected walks"):
        walk_batch([], [], 4)
    with pytest.raises(DataError, match="increasing times"):
        walk_batch([np.array([0.0, 0.0])], [line], 4)
    with pytest.raises(DataError, match="finite positions"):
        walk_batch([np.array([0.0, 1.0])], [line * math.nan], 4)


def test_it_goes_there_and_back_and_keeps_directions():
    x = torch.tensor([[1.0, 2.0], [3.0, 8.0], [5.0, 5.0]])
    n = Normaliser.fit(x)
    torch.testing.assert_close(n.decode(n.encode(x)), x)
    torch.testing.assert_close(n.encode(x).mean(0), torch.zeros(2), atol=1e-6, rtol=0.0)
    assert float(n.encode(x).square().mean()) == pytest.approx(1.0)
    assert Normaliser.fit(torch.ones(4, 2)).scale == 1.0
    with pytest.raises(DataError, match="expected finite positions"):
        Normaliser.fit(torch.full((2, 2), math.nan))
