import pytest
import torch

from svfm_ros.errors import DataError
from svfm_ros.svfm.tensor_file import read_tensors, write_tensors

KIND = "test tensors"


def written(path):
    payload = {"kind": KIND, "weights": torch.arange(600.0).reshape(20, 30), "count": 4}
    write_tensors(path, payload)
    return payload


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "models" / "model.pt"
    payload, read = written(path), read_tensors(path, KIND)
    assert torch.equal(read["weights"], payload["weights"])
    assert read["count"] == 4
    assert [p.name for p in path.parent.iterdir()] == ["model.pt"]


def test_every_kind_of_damage_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "model.pt"
    written(path)
    good = path.read_bytes()
    middle = good.index(b"data/0") + 200  # inside the tensor's numbers
    flipped = good[:middle] + bytes([good[middle] ^ 0x10]) + good[middle + 1 :]
    for bad in (b"", good[: len(good) // 2], good[:-1], b"not a tensor file", flipped):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="damaged or something else") as info:
            read_tensors(path, KIND)
        assert "\n" not in str(info.value)


def test_a_missing_and_a_foreign_file_are_refused(tmp_path):
    path = tmp_path / "model.pt"
    with pytest.raises(DataError, match="got no file"):
        read_tensors(path, KIND)
    torch.save({"weights": torch.zeros(3)}, path)
    with pytest.raises(DataError, match="got something else"):
        read_tensors(path, KIND)


class _Evil:
    def __reduce__(self):
        return (print, ("code from a file ran",))


def test_code_in_a_file_is_not_run(tmp_path, capsys):
    path = tmp_path / "model.pt"
    torch.save({"kind": KIND, "weights": _Evil()}, path)
    with pytest.raises(DataError):
        read_tensors(path, KIND)
    assert capsys.readouterr().out == ""


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    written(path)
    before = path.read_bytes()
    with pytest.raises(Exception, match=r"lambda|pickle"):
        write_tensors(path, {"kind": KIND, "weights": lambda: None})
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
