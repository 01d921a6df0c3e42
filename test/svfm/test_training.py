import math

import pytest
import torch
from torch import nn

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.losses import mixture_density_loss, observed_cov
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.solver.rk4 import grid
from svfm_ros.svfm.training import cluster_centres, seeded, set_initial_velocities, train

LINE_X = torch.linspace(-1, 1, 40).unsqueeze(1)
LINE = (LINE_X, 3.0 * LINE_X + 1.0)


class Line(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.w = nn.Parameter(torch.randn(2, generator=torch.Generator().manual_seed(seed)))

    def forward(self, x):
        return self.w[0] * x + self.w[1]


def squared(model, batch, seed):
    x, y = batch
    return (model(x) - y).square().mean()


def endpoints(model, batch, seed):
    x, y = batch
    out = propagate(model, x, grid(0.0, 1.0, 3, like=x))
    cov = observed_cov(out.cov[-1], model.floor())
    return mixture_density_loss(y, out.mean[-1], cov, out.log_weight[-1]).mean()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_line_is_found():
    out = train(Line, squared, LINE, LINE, TrainConfig(steps=400, batch_size=10, learning_rate=0.1))
    torch.testing.assert_close(out.model.w.detach(), torch.tensor([3.0, 1.0]), atol=1e-3, rtol=0.0)
    assert out.report.best_valid < 1e-5
    assert out.report.restarts[0].stopped == "all steps done"
    assert len(out.report.curve) == 8


def test_same_seed_same_weights_and_no_global_random_state():
    state = torch.get_rng_state()
    config = TrainConfig(seed=5, steps=30, batch_size=7)
    one, two = (train(Line, squared, LINE, LINE, config) for _ in range(2))
    other = train(Line, squared, LINE, LINE, TrainConfig(seed=6, steps=30, batch_size=7))
    assert torch.equal(one.model.w, two.model.w)
    assert not torch.equal(one.model.w, other.model.w)
    assert one.report.curve == two.report.curve
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_stops_with_the_last_good_weights(where):
    def breaks(model, batch, seed):
        loss = squared(model, batch, seed)
        if seed < 1000 and seed >= 25:  # steps are seeded by their number
            return loss * math.nan if where == "loss" else loss + torch.sqrt(model.w.sum() * 0.0)
        return loss

    out = train(Line, breaks, LINE, LINE, TrainConfig(steps=100, check_every=10, learning_rate=0.05))
    report = out.report.restarts[0]
    assert report.stopped == "not finite by step 30"
    assert report.best_step == 20
    good = train(Line, squared, LINE, LINE, TrainConfig(steps=100, check_every=10, learning_rate=0.05, patience=0))
    assert bool(torch.isfinite(out.model.w).all())
    assert out.report.best_valid == pytest.approx(good.report.curve[1].valid_loss)


def test_training_stops_early_when_validation_gets_no_better():
    wrong = (LINE[0], -LINE[1])  # validation gets worse as training gets better
    config = TrainConfig(steps=1000, check_every=5, patience=3, learning_rate=0.1)
    out = train(Line, squared, LINE, wrong, config)
    restart = out.report.restarts[0]
    assert restart.stopped == "no improvement in 3 validations"
    assert restart.steps < 100
    assert squared(out.model, wrong, 0).item() == pytest.approx(restart.best_valid)


def test_the_best_restart_is_kept():
    def trap(model, batch, seed):  # two valleys: w0 near -2 costs one more than w0 near 2
        w = model.w[0]
        return (w.square() - 4.0).square() + torch.sigmoid(-20.0 * w) + 0.0 * model.w[1]

    config = TrainConfig(steps=150, learning_rate=0.05, restarts=6)
    out = train(Line, trap, LINE, None, config)
    ends = [r.best_valid for r in out.report.restarts]
    assert max(ends) > 0.9 > 0.1 > min(ends)
    assert out.report.kept == ends.index(min(ends))
    assert out.model.w[0].item() == pytest.approx(2.0, abs=0.01)


def test_the_gate_has_its_own_rate():
    config = ModelConfig(dim=1, components=2, hidden_layers=1, hidden_units=4)
    y = torch.cat((torch.ones(20, 1), -torch.ones(20, 1)))
    data = (torch.zeros(40, 1), y)
    still = TrainConfig(steps=5, gate_learning_rate=0.0)
    first = MixtureModel(config, 0)
    out = train(lambda seed: MixtureModel(config, seed), endpoints, data, None, still)
    assert torch.equal(weights(out.model.selection), weights(first.selection))
    assert not torch.equal(weights(out.model.fields), weights(first.fields))


def test_the_shares_of_a_split_are_learnt():
    config = ModelConfig(dim=1, components=2, hidden_layers=1, hidden_units=8, floor=0.1)
    side = torch.where(torch.arange(60) % 3 == 0, 1.0, -1.0).unsqueeze(1)
    data = (torch.zeros(60, 1), side)
    out = train(
        lambda seed: MixtureModel(config, seed),
        endpoints,
        data,
        None,
        TrainConfig(steps=150, batch_size=0, learning_rate=0.03, gate_learning_rate=0.03),
    )
    shares = out.model.log_prior(torch.zeros(()), data[0]).exp().mean(0)
    assert sorted(shares.tolist()) == pytest.approx([1 / 3, 2 / 3], abs=0.03)


def test_wrong_data_is_refused():
    with pytest.raises(DataError, match="same number of rows"):
        train(Line, squared, (LINE[0], LINE[1][:3]), None, TrainConfig(steps=1))
    with pytest.raises(DataError, match="at least one"):
        train(Line, squared, (LINE[0][:0], LINE[1][:0]), None, TrainConfig(steps=1))
    with pytest.raises(DataError, match="expected finite training data"):
        train(Line, squared, (LINE[0], LINE[1] * math.nan), None, TrainConfig(steps=1))


def test_clusters_that_lie_apart_are_found():
    centres = torch.tensor([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    points = torch.cat(
        [c + 0.1 * torch.randn(30, 2, generator=torch.Generator().manual_seed(i)) for i, c in enumerate(centres)]
    )
    for seed in range(5):
        found = cluster_centres(points, 3, seed)
        assert float(torch.cdist(centres, found).min(dim=1).values.max()) < 0.1
    torch.testing.assert_close(cluster_centres(points, 1, 0)[0], points.mean(0))
    assert cluster_centres(points[:1], 3, 0).shape == (3, 2)


@pytest.mark.parametrize("augment", [0, 2])
def test_fields_start_with_the_given_velocities(augment):
    config = ModelConfig(components=2, augment=augment, max_speed=10.0)
    model = MixtureModel(config)
    wanted = torch.tensor([[3.0, -4.0], [0.0, 8.0]])
    set_initial_velocities(model, wanted)
    with torch.no_grad():
        a = model.unit(torch.zeros(1), torch.zeros(1, config.width)).a[0, :, :2]
    assert float((a - wanted).abs().max()) < 0.8  # up to what the random weights add
    before = [p.clone() for p in model.selection.parameters()]
    seeded(model, wanted.repeat(5, 1), 1)
    assert all(torch.equal(p, q) for p, q in zip(before, model.selection.parameters(), strict=True))


def test_wrong_velocities_are_refused():
    with pytest.raises(DataError, match=r"expected finite velocities \(4, 2\)"):
        set_initial_velocities(MixtureModel(ModelConfig()), torch.zeros(3, 2))
    with pytest.raises(DataError, match=r"expected points \(N, dim\)"):
        cluster_centres(torch.zeros(0, 2), 2, 0)
