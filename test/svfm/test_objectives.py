import math

import pytest
import torch
from known_fields import constant_model

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.classifier import Classifier, classifier_loss
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.objectives import endpoint_objective, walk_batch, walk_objective
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.seeding import seeded
from svfm_ros.svfm.train import train


def test_walks_are_put_on_their_own_grids_by_a_cubic():
    times = [torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]).double(), torch.tensor([10.0, 10.5, 11.5, 12.0]).double()]
    positions = [torch.stack((t**3 - t, 2.0 * t), dim=1) for t in times]  # cubics come out exactly
    start, grids, targets = walk_batch(times, positions, steps=8)
    torch.testing.assert_close(start, torch.stack([p[0] for p in positions]))
    torch.testing.assert_close(grids[1], torch.linspace(10.0, 12.0, 9).double())
    t = grids[:, 1:]
    torch.testing.assert_close(targets, torch.stack((t**3 - t, 2.0 * t), dim=-1))


def test_forecast_loss_of_a_walk_by_hand():
    batch = walk_batch([torch.tensor([5.0, 6.0, 7.0]).double()], [torch.tensor([[0.0, 0], [1, 0], [2, 0]]).double()], 2)
    right, slow = constant_model([[1.0, 0.0]], stochastic=False), constant_model([[0.5, 0.0]], stochastic=False)
    assert walk_objective(right, batch, 0).item() == pytest.approx(0.0)
    assert walk_objective(slow, batch, 0).item() == pytest.approx((0.25 + 1.0) / 2)
    pair = constant_model([[1.0, 0.0], [-50.0, 0.0]], stochastic=False, floor=0.5)  # the second is out of reach
    by_hand = math.log(2.0) + math.log(2.0 * math.pi * 0.25)
    assert walk_objective(pair, batch, 0).item() == pytest.approx(by_hand)


def test_endpoint_objective_by_hand():
    model = constant_model([[2.0]], stochastic=False, floor=1.0)
    batch = (torch.zeros(1, 1).double(), torch.tensor([[3.0]]).double())
    md = 0.5 + 0.5 * math.log(2.0 * math.pi)
    assert endpoint_objective(4)(model, batch, 0).item() == pytest.approx(md)
    # Four steps of 0.5: TLoss 0.25; a straight way: VLoss 0.
    assert endpoint_objective(4, penalty=2.0)(model, batch, 0).item() == pytest.approx(md + 0.5)


def test_a_fork_is_learnt_from_walks_and_sampled_again():
    """Walks go right and then turn up or down: the paper's way to train a forecaster, small."""
    g = torch.Generator().manual_seed(0)
    t = torch.linspace(0.0, 1.0, 9)
    walks = []
    for i in range(24):
        turn = (1.0 if i % 3 else -1.0) * t.square()
        xy = torch.stack((t * (1.0 + 0.1 * torch.randn(1, generator=g)), turn), dim=1)
        walks.append(xy + 0.01 * torch.randn(9, 2, generator=g) * (t > 0).unsqueeze(1))
    data = walk_batch([t] * 24, walks, steps=3)
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
    line = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(DataError, match="expected walks"):
        walk_batch([], [], 4)
    with pytest.raises(DataError, match="expected"):
        walk_batch([torch.tensor([0.0, 0.0])], [line], 4)
    with pytest.raises(DataError, match="expected"):
        walk_batch([torch.tensor([0.0, 1.0])], [line * math.nan], 4)
