import pytest
import torch

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.seeding import cluster_centres, seeded, set_initial_velocities


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
