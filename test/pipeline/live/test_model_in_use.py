"""A model file describes itself from a process of its own."""

import pytest
from tinymodel import save_tiny, tiny_file

from svfm_ros.errors import DataError
from svfm_ros.pipeline.live.model_in_use import ModelInUse, model_in_use


def test_name_walks_and_score_of_a_model(tmp_path):
    metrics = tiny_file().metrics
    expected = ModelInUse(tiny_file().model_id, metrics["walks_seen"], metrics["held_out_nll"])
    assert model_in_use(save_tiny(tmp_path / "model.pt")) == expected


def test_what_is_no_model_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "model.pt").write_text("today I walked")
    with pytest.raises(DataError, match=r"expected a walk model at .*model.pt, got something else") as error:
        model_in_use(tmp_path / "model.pt")
    assert "\n" not in str(error.value)
