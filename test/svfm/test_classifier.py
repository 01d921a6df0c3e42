import pytest
import torch
from known_fields import constant_model

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.classifier import Classifier, classifier_loss
from svfm_ros.svfm.training import train


def bands(n, seed):
    """Class 1 in the middle of three bands: one straight field cannot tell, a flow can."""
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(seed)) * 2.0 - 1.0
    return x, (x[:, 0].abs() < 0.5).long()


def test_probabilities_are_mixed_over_components():
    model = Classifier(ModelConfig(components=3, stochastic=False), classes=4, seed=1)
    x, _ = bands(20, 0)
    with torch.no_grad():
        out = model(x)
        p = out.log_prob.exp()
        by_hand = (out.log_weight[-1].exp().unsqueeze(-1) * torch.softmax(out.logits, -1)).sum(1)
        torch.testing.assert_close(p, by_hand)
        torch.testing.assert_close(p.sum(-1), torch.ones(20))
        torch.testing.assert_close(model.predict(x), p)
    assert out.states.shape == (11, 20, 3, 2)


def test_a_stochastic_classifier_averages_its_noise_away():
    model = Classifier(ModelConfig(components=2, first_log_spread=0.5), classes=2, seed=1, steps=3)
    x, _ = bands(10, 0)
    with torch.no_grad():
        many, more = model.predict(x, samples=100, seed=1), model.predict(x, samples=100, seed=2)
        one, other = model.predict(x, samples=1, seed=1), model.predict(x, samples=1, seed=2)
    assert float((many - more).abs().max()) < 0.5 * float((one - other).abs().max())


def test_path_losses_shorten_paths_and_classes_are_learnt():
    data, test = bands(200, 0), bands(200, 1)
    config = ModelConfig(components=1, stochastic=False, augment=1, hidden_layers=1, hidden_units=16)

    def fit(penalty):
        return train(
            lambda seed: Classifier(config, 2, seed, steps=4),
            lambda m, b, seed: classifier_loss(m, b[0], b[1], penalty, seed),
            data,
            None,
            TrainConfig(steps=120, batch_size=0, learning_rate=0.03),
        ).model

    free, short = fit(0.0), fit(0.3)
    with torch.no_grad():
        assert float((free(test[0]).log_prob.argmax(-1) == test[1]).double().mean()) > 0.95
        long_way, short_way = (m(test[0]).states.diff(dim=0).norm(dim=-1).sum(0).mean() for m in (free, short))
    assert float(short_way) < 0.8 * float(long_way)


def test_filtering_mixes_states_and_memberships_by_hand():
    """Fields 1 and -3 over unit time in two steps, psi = (0.75, 0.25), a switch as likely as staying.

    Prior (0.5, 0.5), so after each step both components weigh 0.5 again and have the mean of what arrives, weighted by
    psi: first 0.75 * 0.5 - 0.25 * 1.5 = 0, and from there 0 again.
    """
    model = Classifier(
        ModelConfig(dim=1, components=2, stochastic=False, selection="filter", stickiness=0.0), 2, steps=2
    )
    model.flow = constant_model([[1.0], [-3.0]], stochastic=False, selection="filter", stickiness=0.0)
    with torch.no_grad():
        model.double()
        model.flow.selection.emission_net.weights()[-1][1].copy_(torch.tensor([0.75, 0.25]).double().log())
        out = model(torch.zeros(1, 1).double())
    torch.testing.assert_close(out.log_weight.exp(), torch.full((3, 1, 2), 0.5).double())
    torch.testing.assert_close(out.states[:, 0, :, 0], torch.zeros(3, 2).double())
    torch.testing.assert_close(out.moves[:, 0, :, 0], torch.tensor([[0.5, -1.5], [0.5, -1.5]]).double())
    torch.testing.assert_close(out.slopes[:, 0, :, 0], torch.tensor([[1.0, -3.0]]).double().expand(3, 2))


def test_a_filtering_classifier_that_never_switches_picks_and_sticks():
    options = {"components": 2, "gate": "mlp", "hidden_layers": 1}
    filtering = Classifier(ModelConfig(selection="filter", stickiness=20.0, **options), 2, seed=3, steps=4)
    sticking = Classifier(ModelConfig(**options), 2, seed=3, steps=4)
    with torch.no_grad():
        for net in (filtering.flow.selection.emission_net, filtering.flow.selection.transition_net):
            for parameter in net.parameters():
                parameter.zero_()
        for own, other in zip(sticking.parameters(), _shared(filtering), strict=True):
            other.copy_(own)
        x, _ = bands(30, 0)
        torch.testing.assert_close(filtering.predict(x), sticking.predict(x), atol=1e-5, rtol=0.0)


def _shared(filtering):
    """Its parameters that a classifier without filtering has too."""
    return [p for name, p in filtering.named_parameters() if "transition" not in name and "emission" not in name]


def test_a_filtering_classifier_learns():
    data, test = bands(200, 0), bands(200, 1)
    config = ModelConfig(components=2, selection="filter", gate="mlp", hidden_layers=1, hidden_units=16)
    options = TrainConfig(steps=100, batch_size=0, learning_rate=0.03, gate_learning_rate=0.03)
    make_model = lambda seed: Classifier(config, 2, seed, steps=3)  # noqa: E731
    model = train(make_model, lambda m, b, seed: classifier_loss(m, *b, 0.01, seed), data, None, options).model
    with torch.no_grad():
        assert float((model.predict(test[0], 4).argmax(-1) == test[1]).double().mean()) > 0.95


def test_wrong_options_are_refused():
    with pytest.raises(DataError, match="at least two classes"):
        Classifier(ModelConfig(), 1)
