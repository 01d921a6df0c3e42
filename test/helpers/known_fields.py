"""Models whose fields are known in closed form, for tests with exact answers."""

import torch

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.svfm.model import MixtureModel


def constant_model(vectors, *, sigma_u=0.1, sigma_v=0.1, dtype=torch.float64, **options):
    """K constant fields (one vector each) with constant spreads, no bound on the length."""
    vectors = torch.as_tensor(vectors, dtype=dtype)
    config = ModelConfig(
        components=len(vectors),
        dim=vectors.shape[1] - options.get("augment", 0),
        max_speed=0.0,
        still_speed=0.0,
        hidden_layers=1,
        hidden_units=2,
        **options,
    )
    model = MixtureModel(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        last = model.fields.net.weights()[-1][1]  # (K, 1, out)
        last[:, 0, : vectors.shape[1]] = vectors
        if config.stochastic:
            first, most = config.first_log_spread, config.max_log_spread
            offset = torch.logit(torch.tensor(first / most, dtype=dtype))
            wanted = torch.logit(torch.tensor([sigma_u, sigma_v], dtype=dtype) / most)
            last[:, 0, vectors.shape[1] :] = wanted - offset
    return model


def linear_model(rate, *, sigma_v, dtype=torch.float64):
    """One field dh/dt = rate h in one dimension, with a random length."""
    model = constant_model([[0.0]], sigma_v=sigma_v, dtype=dtype)
    (w0, _), (w1, _) = model.fields.net.weights()
    with torch.no_grad():  # relu(h) - relu(-h) = h
        w0[0, 0] = torch.tensor([1.0, -1.0])
        w1[0, :, 0] = torch.tensor([rate, -rate])
    return model
