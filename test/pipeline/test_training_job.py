"""The live training: one model for two wearables that share a store, and a second model to fall back on."""

import io
from dataclasses import replace
from pathlib import Path

from tinymodel import fill_store, quick_task, walks

from svfm_ros.atomic_files import previous_of
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import load_walk_model, places_from
from svfm_ros.pipeline.training_job import EventWriter, train


def test_two_wearables_of_one_home_share_its_model(tmp_path: Path) -> None:
    mary = [replace(w, walk_id=f"mary-{w.walk_id}", resident="mary") for w in walks(6)]
    joe = [replace(w, walk_id=f"joe-{w.walk_id}", resident="joe") for w in walks(6, seed=1, first=20)]
    fill_store(tmp_path / "home", mary)
    fill_store(tmp_path / "home", joe)  # the second wearable opens the store that is there
    train(quick_task(tmp_path / "home", tmp_path / "home" / "model.pt"), EventWriter(io.StringIO()))
    file = load_walk_model(tmp_path / "home" / "model.pt")
    assert file.residents.names == ("joe", "mary")
    stamp_ns = int(mary[0].stamps_ns[0])
    for asked, used in (("mary", "mary"), ("joe", "joe"), ("zoe", None)):
        found = Forecaster(file, places_from(file.metrics), resident=asked).forecast((0.0, 0.0), stamp_ns, samples=20)
        assert (found.resident, found.known) == (used, True)


def test_the_first_model_is_kept_twice_and_a_later_one_beside_the_one_before(tmp_path: Path) -> None:
    store, model = fill_store(tmp_path / "store", walks(6)), tmp_path / "model.pt"
    train(quick_task(store.path, model), EventWriter(io.StringIO()))
    first = load_walk_model(model).model_id
    assert load_walk_model(previous_of(model)).model_id == first
    assert not previous_of(model).samefile(model)
    model.write_bytes(model.read_bytes()[:-9])  # damaged: what is kept before it must stay
    train(quick_task(store.path, model), EventWriter(io.StringIO()))
    assert load_walk_model(model).model_id == load_walk_model(previous_of(model)).model_id == first
