import math

import pytest
import torch

from svfm_ros.errors import DataError
from svfm_ros.svfm.normaliser import Normaliser


def test_it_goes_there_and_back_and_keeps_directions():
    x = torch.tensor([[1.0, 2.0], [3.0, 8.0], [5.0, 5.0]])
    n = Normaliser.fit(x)
    torch.testing.assert_close(n.decode(n.encode(x)), x)
    torch.testing.assert_close(n.encode(x).mean(0), torch.zeros(2), atol=1e-6, rtol=0.0)
    assert float(n.encode(x).square().mean()) == pytest.approx(1.0)
    assert Normaliser.fit(torch.ones(4, 2)).scale == 1.0
    with pytest.raises(DataError, match="expected finite positions"):
        Normaliser.fit(torch.full((2, 2), math.nan))
