import pytest
import torch

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
        by_hand = (out.log_weight.exp().unsqueeze(-1) * torch.softmax(out.logits, -1)).sum(1)
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


def test_wrong_options_are_refused():
    with pytest.raises(DataError, match="pick and stick"):
        Classifier(ModelConfig(selection="filter"), 2)
    with pytest.raises(DataError, match="at least two classes"):
        Classifier(ModelConfig(), 1)
