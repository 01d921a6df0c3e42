import pytest
import torch

from svfm_ros.errors import ConfigError
from svfm_ros.svfm.device import pick_device

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
