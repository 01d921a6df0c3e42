"""Training as a process among others: a store goes in, models that are no worse come out."""

import io
import json
import signal

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from nav_msgs.msg import Path
from rclpy.parameter import Parameter
from roslive import PATIENCE_S
from std_msgs.msg import String
from std_srvs.srv import Trigger
from tinymodel import KITCHEN, fill_store, quick_task, walks

from svfm_ros.errors import DataError, SvfmError
from svfm_ros.forecasting.model_file import load_walk_model, places_from
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.trainer_node import TrainerNode
from svfm_ros.pipeline.training_job import EventWriter, train
from svfm_ros.types import Places
from svfm_ros.walks.places import save_places
from svfm_ros.walks.walk_store import WalkStore
from svfm_ros.web.words import NodeReport, node_words

pytestmark = pytest.mark.ros

QUICK = ["min_walks:=8", "min_new_walks:=4", "min_interval_s:=0.0", "niceness:=0", "slack:=100.0", "look_s:=3600.0"]


def trainer(start, *parameters):
    pairs = [word for p in (*QUICK, *parameters) for word in ("-p", p)]
    return start("-m", "svfm_ros.nodes.trainer_node", "--ros-args", *pairs)


def test_it_learns_at_start_again_with_new_walks_and_when_asked(start, listener, latched, tmp_path):
    store = fill_store(tmp_path / "walks", walks(8))
    models = listener.collect(String, "model", latched)
    node = trainer(start, f"store:={tmp_path / 'walks'}")
    first = json.loads(models.wait(1)[0].data)
    assert first["walks"] == 8
    assert load_walk_model(first["path"]).model_id == first["model_id"]

    # New walks in the store, and the word that they are there.
    fill_store(tmp_path / "walks", walks(6, seed=1, first=20))
    talker = listener.node.create_publisher(Path, "walk", latched)
    talker.publish(convert.to_path(walks(1)[0].stamps_ns, walks(1)[0].poses, "map", 0))
    second = json.loads(models.wait(2)[1].data)
    assert second["walks"] == 14
    assert second["model_id"] != first["model_id"]
    answer = listener.call(Trigger, "/trainer_node/train_now", Trigger.Request())
    assert answer.success, answer.message
    assert answer.message == "training on 14 walks"
    models.wait(3)

    # Killed in the midst of it: the model stays whole, and is announced again.
    assert listener.call(Trigger, "/trainer_node/train_now", Trigger.Request()).success
    node.send_signal(signal.SIGKILL)
    node.wait(PATIENCE_S)
    again = trainer(start, f"store:={tmp_path / 'walks'}", "min_new_walks:=100")
    last = json.loads(models.wait(4)[3].data)
    assert load_walk_model(last["path"]).metrics["walks_seen"] == 14
    assert len(WalkStore.open(store.path)) == 14
    again.terminate()
    _, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, err
    assert "Traceback" not in err


def test_the_first_model_needs_only_the_walks_it_says_it_needs(start, listener, latched, tmp_path):
    fill_store(tmp_path / "walks", walks(8))
    models = listener.collect(String, "model", latched)
    trainer(start, f"store:={tmp_path / 'walks'}", "min_new_walks:=100")
    assert json.loads(models.wait(1)[0].data)["walks"] == 8


def test_places_are_named_by_the_file_in_the_store(start, listener, latched, tmp_path):
    fill_store(tmp_path / "walks", walks(8))
    save_places(Places((KITCHEN,)), tmp_path / "walks" / "places.yaml")
    models = listener.collect(String, "model", latched)
    trainer(start, f"store:={tmp_path / 'walks'}")
    first = json.loads(models.wait(1)[0].data)
    assert places_from(load_walk_model(first["path"]).metrics).names == ("kitchen",)


def test_a_model_that_forecasts_new_walks_worse_is_not_used(tmp_path):
    """The model in use has seen many walks, the store holds two of them and new ones: two tell less than many."""
    model = tmp_path / "model.pt"
    fill_store(tmp_path / "many", walks(20))
    train(quick_task(tmp_path / "many", model), EventWriter(io.StringIO()))
    good = load_walk_model(model)
    fill_store(tmp_path / "walks", [*walks(2), *walks(4, seed=1, first=30)])
    told = io.StringIO()
    train(quick_task(tmp_path / "walks", model), EventWriter(told))
    done = json.loads(told.getvalue().splitlines()[-1])
    assert done["event"] == "done"
    assert not done["accepted"]
    assert done["new_nll"] > done["old_nll"]
    assert load_walk_model(model).model_id == good.model_id
    (place,) = places_from(good.metrics)
    assert place.xy == pytest.approx([4.0, 0.0], abs=0.1)


def test_a_model_trained_live_knows_its_walks_and_is_scored_on_others_alone(tmp_path, capsys):
    from svfm_ros.cli.main import main

    model = tmp_path / "model.pt"
    fill_store(tmp_path / "walks", walks(12))
    train(quick_task(tmp_path / "walks", model), EventWriter(io.StringIO()))
    fill_store(tmp_path / "all", [*walks(12), *walks(3, seed=1, first=40)])
    assert main(["evaluate", "--model", str(model), str(tmp_path / "all"), "--samples", "20", "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert (got["walks"], got["walks_trained_on"], got["relearnt"]) == (3, 12, False)


def test_walks_without_a_place_are_not_learned(tmp_path):
    WalkStore.create(tmp_path / "walks").add_all(walks(5))
    with pytest.raises(DataError, match="expected two or more walks with a pose in the house, got 0 of 5"):
        train(quick_task(tmp_path / "walks", tmp_path / "m.pt"), EventWriter(io.StringIO()))


def test_without_a_store_it_says_so_and_goes_on(start, listener):
    said = listener.collect(DiagnosticArray, "/diagnostics")
    node = trainer(start)
    said.wait_for(lambda m: "no walks to train on" in m.status[0].message)
    answer = listener.call(Trigger, "/trainer_node/train_now", Trigger.Request())
    assert not answer.success
    node.terminate()
    assert node.wait(PATIENCE_S) == 0


def test_an_empty_store_at_the_beginning_is_no_problem(start, listener, tmp_path):
    said = listener.collect(DiagnosticArray, "/diagnostics")
    trainer(start, f"store:={tmp_path / 'walks'}")
    first = said.wait(1)[0].status[0]
    assert (first.level, first.message) == (DiagnosticStatus.OK, "running")
    report = NodeReport("trainer_node", figures={v.key: v.value for v in first.values})
    assert node_words(report, 0.0) == "waiting for walks: 0 of 8 for the first model"


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [("min_walks", 1, "min_walks"), ("places", "/nowhere.yaml", "cannot read /nowhere.yaml")],
)
def test_bad_input_is_refused_in_one_sentence(listener, parameter, value, message):
    with pytest.raises(SvfmError) as error:
        TrainerNode(parameter_overrides=[Parameter(parameter, value=value)], context=listener.context)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
