"""Learning from walks: the same for the same walks wherever they are, more with more, one sentence for nonsense."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from two_destinations import KITCHEN, MONDAY_NS, PLACES, model_file, to_the_attic, walk_along, walks

from svfm_ros.errors import DataError
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.free_walker import FreeWalkerPrior
from svfm_ros.pipeline.learn import LearnConfig, change_date, learn, nll_per_step, scored_on_unseen, split_walks
from svfm_ros.pipeline.walk_input import WalkInput
from svfm_ros.types import Walk

UTM = np.array([500_000.0, 5_700_000.0])


def test_the_same_walks_give_the_same_model() -> None:
    assert learn(walks(), places=PLACES).file.model_id == model_file().model_id
    assert learn(walks(seed=1), places=PLACES).file.model_id != model_file().model_id


def test_utm_coordinates_give_the_same_forecast() -> None:
    far = learn(walks(shift=UTM)).file
    near = learn(walks()).file
    ours = Forecaster(near).forecast((0.0, 0.0), MONDAY_NS, samples=100)
    theirs = Forecaster(far).forecast(UTM, MONDAY_NS, samples=100)
    assert np.abs(theirs.samples_xy - UTM - ours.samples_xy).max() < 1e-3
    seen = walks(2, seed=3)[1]
    half = replace(seen, stamps_ns=seen.stamps_ns[:30], poses=seen.poses[:30])
    moved = replace(half, poses=half.poses + np.array([*UTM, 0.0]))
    ours_p, theirs_p = Forecaster(near).posterior(half), Forecaster(far).posterior(moved)
    assert ours_p is not None
    assert theirs_p is not None
    assert theirs_p.state == pytest.approx(ours_p.state, abs=1e-3)


def test_going_on_adds_a_field_and_forgets_nothing() -> None:
    old = model_file()
    went_on = learn(to_the_attic(), go_on_from=old)
    assert (went_on.walks, went_on.new_walks) == (21, 5)
    assert went_on.file.model.components == old.model.components + 1
    unseen = walks(8, seed=7)
    assert nll_per_step(went_on.file, unseen) < nll_per_step(old, unseen) + 0.15
    attic = to_the_attic(3, seed=8)
    assert nll_per_step(went_on.file, attic) < nll_per_step(old, attic) - 0.3
    again = learn(to_the_attic(), go_on_from=went_on.file)
    assert again.new_walks == 0


def test_walks_to_a_new_destination_are_unfamiliar_and_ordinary_ones_are_not() -> None:
    forecaster = Forecaster(model_file(), PLACES)

    def unfamiliar(walk: Walk) -> float:
        count = int(0.8 * len(walk.stamps_ns))
        posterior = forecaster.posterior(replace(walk, stamps_ns=walk.stamps_ns[:count], poses=walk.poses[:count]))
        assert posterior is not None
        return posterior.unfamiliar

    assert min(unfamiliar(w) for w in to_the_attic(4, seed=9)) > 0.8
    assert np.median([unfamiliar(w) for w in walks(6, seed=9)]) < 0.2


def test_uncertain_positions_say_less() -> None:
    """Past the corner on the way to the study: the surer the positions, the surer the destination."""
    walk = walk_along("study", 4, 0)
    count = 29  # a little past the corner
    seen = replace(walk, stamps_ns=walk.stamps_ns[:count], poses=walk.poses[:count])
    entropies = []
    for variance in (1e-6, 0.04, 1.0):
        covariance = np.tile(variance * np.eye(3), (count, 1, 1))
        posterior = Forecaster(model_file()).posterior(replace(seen, covariance=covariance))
        assert posterior is not None
        p = posterior.fields / posterior.fields.sum()
        entropies.append(float(-(p * np.log(p + 1e-12)).sum()))
    assert entropies[0] < entropies[1] < entropies[2]


def test_where_positions_are_unsure_the_forecast_is_wider() -> None:
    """Uncertain poses of the walk so far, or an uncertain pose now: each alone widens the paths."""
    walk = walks(2, seed=5)[0]
    seen = replace(walk, stamps_ns=walk.stamps_ns[:20], poses=walk.poses[:20])
    forecaster, unsure = Forecaster(model_file(), PLACES), 0.09 * np.eye(3)

    def spread_m(covariance: np.ndarray, now: np.ndarray | None) -> float:
        so_far = replace(seen, covariance=np.tile(covariance, (20, 1, 1)))
        found = forecaster.forecast(
            seen.xy[-1], int(seen.stamps_ns[-1]), covariance=now, walk_so_far=so_far, samples=2000
        )
        return float(np.hypot(*found.samples_xy[:, 3].std(axis=0)))

    sure = spread_m(1e-6 * np.eye(3), None)
    assert spread_m(unsure, None) > 1.1 * sure
    assert spread_m(1e-6 * np.eye(3), unsure) > 1.2 * sure


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1e-3])
def test_covariances_that_are_none_get_one_sentence(wrong: float) -> None:
    seen = walks(2, seed=5)[0]
    covariance = np.zeros((len(seen.poses), 3, 3))
    covariance[3, 0, 0] = wrong
    with pytest.raises(DataError, match="covariance"):
        Forecaster(model_file()).posterior(replace(seen, covariance=covariance))


def test_two_walks_suffice() -> None:
    learned = learn(walks(2))
    found = Forecaster(learned.file).forecast((0.0, 0.0), MONDAY_NS, samples=50)
    assert np.isfinite(found.samples_xy).all()
    assert np.isfinite(learned.left_out_nll)
    with pytest.raises(DataError, match="two or more walks"):
        learn(walks(1))
    with pytest.raises(DataError, match="two or more walks"):
        learn([])


def test_walks_of_someone_who_only_stands_get_one_sentence() -> None:
    still = [replace(w, poses=np.tile(w.poses[:1], (len(w.poses), 1))) for w in walks(4)]
    with pytest.raises(DataError, match="moves") as error:
        learn(still)
    assert "\n" not in str(error.value)


def test_millimetres_get_one_sentence() -> None:
    with pytest.raises(DataError, match="metres") as error:
        learn([replace(w, poses=w.poses * [1000.0, 1000.0, 1.0]) for w in walks(4)])
    assert "\n" not in str(error.value)


def test_walks_kilometres_apart_get_one_sentence() -> None:
    with pytest.raises(DataError, match=r"one frame, got positions 2\.\d km apart") as error:
        learn([*walks(4), *walks(2, seed=1, shift=np.array([2000.0, 0.0]))])
    assert "\n" not in str(error.value)


def test_an_hour_without_walks_is_unknown() -> None:
    forecaster = Forecaster(model_file(), PLACES)
    known = forecaster.forecast((0.0, 0.0), MONDAY_NS, samples=100)
    assert known.known
    assert known.entropy == pytest.approx(np.log(2.0), abs=0.35)
    night = forecaster.forecast((0.0, 0.0), MONDAY_NS, what_if_hour=2.0, samples=100)
    assert not night.known
    assert night.entropy is None


def test_a_score_needs_walks_that_were_left_out() -> None:
    all_seen = scored_on_unseen(model_file(), walks())
    assert all_seen.relearnt
    assert 1 <= len(all_seen.unseen) < 8
    others = walks(3, seed=11)
    some = scored_on_unseen(model_file(), [*walks(), *others])
    assert (some.relearnt, len(some.unseen)) == (False, 3)
    with pytest.raises(DataError, match="never saw"):
        scored_on_unseen(model_file(), walks(2))


def test_a_resident_is_scored_by_a_model_that_also_learnt_from_the_others() -> None:
    own = [replace(w, resident="ada") for w in walks()]
    others = [replace(w, walk_id=f"ben-{w.walk_id}", resident="ben") for w in walks(10, seed=3)]
    unknown = [replace(w, walk_id=f"zoe-{w.walk_id}", resident="zoe") for w in walks(4, seed=4)]
    file = learn([*own, *others], places=PLACES).file.of_resident("ada")
    scored = scored_on_unseen(file, own, others=[*others, *unknown])
    assert scored.relearnt
    assert {w.resident for w in scored.unseen} == {"ada"}
    assert scored.file.residents.names == ("ada", "ben")
    assert len(scored.file.footprints.names) == len(own) - len(scored.unseen) + len(others)


def test_a_change_of_habits_has_a_date_where_it_is_likely() -> None:
    likely = {"change_probability": 0.96, "change_day": 20_000}
    assert change_date(likely) == date(2024, 10, 4)
    assert change_date({**likely, "change_probability": 0.94}) is None


def test_walks_in_another_frame_than_the_models_are_refused() -> None:
    WalkInput([], None).check_frame("map")  # a file that does not say
    WalkInput([], "map").check_frame("map")
    with pytest.raises(DataError, match="expected walks in the model's frame 'map', got 'odom'"):
        WalkInput([], "odom").check_frame("map")


def test_a_walk_always_falls_on_the_same_side() -> None:
    learnt, scored = split_walks(walks(40), 0.2)
    assert len(learnt) + len(scored) == 40
    assert 2 <= len(scored) <= 16
    again, _ = split_walks(walks(40)[::-1], 0.2)
    assert {w.walk_id for w in again} == {w.walk_id for w in learnt}
    assert all(len(part) == 1 for part in split_walks(walks(2), 0.2))


def test_destinations_become_places() -> None:
    found = learn(walks()).file.metrics["places"]
    assert len(found) == 2
    assert min(np.hypot(p["x"] - KITCHEN[0], p["y"] - KITCHEN[1]) for p in found) < 0.3


def test_the_population_prior_holds_numbers_that_walks_say_little_about() -> None:
    """A precise prior decides; a vague one leaves the numbers to the walks."""
    shipped = FreeWalkerPrior.load()

    def pace_var(precision: float) -> float:
        prior = replace(shipped, numbers={"pace_var": np.array([np.log(0.3**2), precision])})
        return learn(walks(), prior=prior).file.model.steps.pace_var

    assert pace_var(1e7) == pytest.approx(0.09, rel=0.02)
    assert pace_var(1e-3) != pytest.approx(0.09, rel=0.2)


def test_without_a_prior_only_the_own_walks_count() -> None:
    alone = learn(walks(), LearnConfig(use_prior=False)).file
    assert np.abs(alone.model.free.w1 - FreeWalkerPrior.load().free.w1).max() > 0.1


def test_far_from_all_walks_people_walk_freely() -> None:
    """Ten metres away no habit leads anywhere: nobody turns towards the places of the house."""
    model = model_file()
    seen = np.array([10.0, 10.0]) + np.outer(np.arange(8), [0.4, 0.3])  # away from the house at 1.25 m/s
    stamps = MONDAY_NS + np.round(0.4e9 * np.arange(8)).astype(np.int64)
    so_far = Walk("off", "ada", stamps, np.column_stack([seen, np.zeros(8)]))
    found = Forecaster(model, PLACES).forecast(seen[-1], int(stamps[-1]), walk_so_far=so_far, horizon_s=8.0)
    assert found.unfamiliar > 0.95
    assert Forecaster(model, PLACES).forecast((10.0, 10.0), MONDAY_NS).unfamiliar > 0.95
    ahead = (found.samples_xy[:, -1] - seen[-1]) @ [0.8, 0.6]
    assert np.median(ahead) > 3.0
