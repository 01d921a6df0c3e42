import math

import torch

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.time_features import time_tuple, with_time


def test_a_quarter_of_a_day_is_a_quarter_of_a_turn():
    hours = torch.tensor([0.0, 6.0, 12.0, 18.0, 24.0])
    expected = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
    torch.testing.assert_close(time_tuple(hours, 24.0), expected, atol=1e-6, rtol=0.0)


def test_a_cyclic_field_repeats_with_its_period_and_a_raw_one_does_not():
    h, t = torch.ones(3, 2).double(), torch.tensor([0.1, 2.0, 5.0]).double()
    cyclic = MixtureModel(ModelConfig(time="cyclic", period=2 * math.pi)).double()
    raw = MixtureModel(ModelConfig(time="raw")).double()
    torch.testing.assert_close(cyclic.unit(t, h).a, cyclic.unit(t + 8 * math.pi, h).a)
    assert not torch.allclose(raw.unit(t, h).a, raw.unit(t + 8 * math.pi, h).a)


def test_one_time_serves_a_whole_batch():
    config = ModelConfig(time="cyclic")
    h = torch.zeros(4, 3, 2)
    one = with_time(config, torch.tensor(5.0), h)
    torch.testing.assert_close(one, with_time(config, torch.full((3,), 5.0), h))
    assert one.shape == (4, 3, 4)
    assert with_time(ModelConfig(time="none"), torch.tensor(5.0), h) is h
