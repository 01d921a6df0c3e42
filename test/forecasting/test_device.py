import numpy as np
import pytest
import torch

from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.errors import ConfigError
from svfm_ros.forecasting.step_evidence import see_steps
from svfm_ros.forecasting.tabulate import tabulate
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.svfm.torch_device import pick_device

HAS_GPU = torch.cuda.is_available()


def test_words_for_the_cpu():
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type == ("cuda" if HAS_GPU else "cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CPU", ""])
def test_other_words_are_refused(name):
    with pytest.raises(ConfigError, match="expected a device among auto, cpu, cuda, cuda:N"):
        pick_device(name)


@pytest.mark.skipif(HAS_GPU, reason="this machine has a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_said_so(name):
    with pytest.raises(ConfigError, match="got a machine without one; 'auto' falls back to cpu"):
        pick_device(name)


def test_forecasts_make_no_tensor_where_the_model_is_not():
    """With another device as torch's own, whatever is made without a word ends up there, and nothing fits together."""
    model = WalkModel(WalkModelConfig(components=3), 0.4, seed=1)
    xy = np.cumsum(np.full((6, 2), 0.3), axis=0)
    steps, table, chain = see_steps(model, xy), tabulate(model).table, tabulate(model).chain
    with torch.device("meta"):
        again, table_again, chain_again = see_steps(model, xy), tabulate(model).table, tabulate(model).chain
    np.testing.assert_array_equal(again.log_says, steps.log_says)
    np.testing.assert_array_equal(table_again.cells, table.cells)
    np.testing.assert_array_equal(chain_again.log_pace, chain.log_pace)
