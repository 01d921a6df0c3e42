import math

import pytest
import torch

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm import checkpoint as module
from svfm_ros.svfm.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.normaliser import Normaliser
from svfm_ros.svfm.tensor_file import write_tensors


def saved(path, **options):
    config = ModelConfig(components=3, selection="filter", learn_floor=True, correlation=math.inf, **options)
    whole = Checkpoint(MixtureModel(config, 3), Normaliser((1.0, -2.0), 3.5), {"nll": 0.25}, {"walks": 4}, "abc")
    save_checkpoint(path, whole)
    return whole


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "models" / "model.pt"
    whole = saved(path)
    read = load_checkpoint(path)
    assert read.model.config == whole.model.config
    assert read.normaliser == whole.normaliser
    assert (read.metrics, read.extra, read.model_id) == ({"nll": 0.25}, {"walks": 4}, "abc")
    for name, x in whole.model.state_dict().items():
        assert torch.equal(x, read.model.state_dict()[name]), name
    assert [p.name for p in path.parent.iterdir()] == ["model.pt"]


def test_a_model_in_double_precision_stays_so(tmp_path):
    path = tmp_path / "model.pt"
    save_checkpoint(path, Checkpoint(MixtureModel(ModelConfig()).double(), Normaliser.identity(2)))
    assert load_checkpoint(path).model.dtype == torch.float64


def test_every_kind_of_damage_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "model.pt"
    saved(path)
    good = path.read_bytes()
    middle = good.index(b"data/0") + 200  # inside the first tensor's numbers
    for bad in (b"", good[: len(good) // 2], good[:-1], b"not a checkpoint", _flipped(good, middle)):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="damaged or something else") as info:
            load_checkpoint(path)
        assert "\n" not in str(info.value)


def _flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def test_a_missing_a_newer_and_a_foreign_file_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    with pytest.raises(DataError, match="got no file"):
        load_checkpoint(path)
    torch.save({"weights": torch.zeros(3)}, path)
    with pytest.raises(DataError, match="got something else"):
        load_checkpoint(path)
    monkeypatch.setattr(module, "SCHEMA", 99)
    saved(path)
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"schema 1 or older at .*, got 99: update svfm_ros"):
        load_checkpoint(path)


class _Evil:
    def __reduce__(self):
        return (print, ("code from a checkpoint ran",))


def test_code_in_a_file_is_not_run(tmp_path, capsys):
    path = tmp_path / "model.pt"
    torch.save({"kind": "svfm_ros model", "weights": _Evil()}, path)
    with pytest.raises(DataError):
        load_checkpoint(path)
    assert capsys.readouterr().out == ""


def test_weights_that_do_not_fit_or_are_not_finite_are_refused(tmp_path):
    path = tmp_path / "model.pt"
    whole = saved(path)
    payload = torch.load(path, weights_only=True)
    payload["config"]["components"] = 5
    write_tensors(path, payload)
    with pytest.raises(DataError, match="do not fit together"):
        load_checkpoint(path)
    with torch.no_grad():
        next(iter(whole.model.parameters())).fill_(math.nan)
    save_checkpoint(path, whole)
    with pytest.raises(DataError, match="expected finite weights"):
        load_checkpoint(path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    saved(path)
    before = path.read_bytes()
    with pytest.raises(Exception, match=r"lambda|pickle"):
        write_tensors(path, {"kind": "svfm_ros model", "weights": lambda: None})
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_normaliser_goes_there_and_back_and_keeps_directions():
    x = torch.tensor([[1.0, 2.0], [3.0, 8.0], [5.0, 5.0]])
    n = Normaliser.fit(x)
    torch.testing.assert_close(n.decode(n.encode(x)), x)
    torch.testing.assert_close(n.encode(x).mean(0), torch.zeros(2), atol=1e-6, rtol=0.0)
    assert float(n.encode(x).square().mean()) == pytest.approx(1.0)
    assert Normaliser.fit(torch.ones(4, 2)).scale == 1.0
    with pytest.raises(DataError, match="expected finite positions"):
        Normaliser.fit(torch.full((2, 2), math.nan))
