import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.errors import DataError
from svfm_ros.svfm.noise import Noise, _mix, hashed_uniform


def test_the_hash_is_splitmix64():
    # First output of the published reference for seed 1234567.
    assert int(_mix(torch.tensor([1234567]))) % 2**64 == 6457827717110365317


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**62), st.integers(1, 4), st.permutations(range(8)))
def test_a_path_gets_the_same_numbers_in_any_batch(seed, width, order):
    whole = Noise.draw(seed, 8, width)
    rows = torch.tensor(order)
    parts = Noise.draw(seed, rows, width)
    assert torch.equal(parts.eps_u, whole.eps_u[rows])
    assert torch.equal(parts.eps_v, whole.take(rows).eps_v)
    assert torch.equal(parts.next(0.5).eps_u, whole.next(0.5).eps_u[rows])
    assert torch.equal(parts.next().u_component, whole.next().u_component[rows])


def test_numbers_are_normal_and_uncorrelated_between_paths_seeds_places_and_campaigns():
    n = 50_000
    path = torch.arange(n)
    uniforms = [hashed_uniform(seed, path, campaign, 3) for seed, campaign in ((0, 0), (1, 0), (0, 1))]
    columns = [torch.special.ndtri(u) for u in uniforms]
    columns.append(columns[0].roll(1, 0))
    z = torch.cat(columns, dim=1)  # (n, 12)
    most = 4.5 / math.sqrt(n)
    assert float(z.mean(0).abs().max()) < most
    assert float((z.var(0) - 1).abs().max()) < 2 * most
    assert float(torch.corrcoef(z.T).fill_diagonal_(0).abs().max()) < most
    assert float((z.pow(4).mean(0) - 3).abs().max()) < 0.25
    u = hashed_uniform(9, path, 2, 1)
    assert 0.0 < float(u.min()) < 1e-3
    assert 1.0 - 1e-3 < float(u.max()) < 1.0


def test_kept_noise_has_the_correlation_asked_for():
    noise = Noise.draw(4, 40_000, 1)
    later = noise.next(0.6)
    both = torch.stack((noise.eps_v, later.eps_v))
    assert float(torch.corrcoef(both)[0, 1]) == pytest.approx(0.6, abs=0.02)
    assert float(later.eps_v.var()) == pytest.approx(1.0, abs=0.03)
    assert torch.equal(noise.next(1.0).eps_u, noise.eps_u)
    assert later.campaign == 1


def test_wrong_path_numbers_are_refused():
    with pytest.raises(DataError, match="expected path numbers as integers"):
        Noise.draw(0, torch.zeros(3), 2)
