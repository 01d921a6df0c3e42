"""The likelihood of a walk: against a sum over all hidden courses, one by one, and on walks with a known answer."""

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from svfm_ros.config.forecast_config import PathTrainConfig, WalkModelConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.fit import as_batch, group_ends, held_out_nll, train_paths
from svfm_ros.forecasting.likelihood import WalkBatch, filter_walks, forward, log_likelihood, step_terms
from svfm_ros.forecasting.posterior import on_ticks
from svfm_ros.forecasting.sampler import PathSampler
from svfm_ros.forecasting.step_evidence import believe
from svfm_ros.forecasting.tabulate import tabulate
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.types import WalkWindows

DT = 0.4


def model_of(components: int = 2, paces: int = 2, switch: float = 0.3, seed: int = 0) -> WalkModel:
    config = WalkModelConfig(components=components, paces=paces, switch_per_s=switch, hidden_units=8, sensor_m=0.05)
    return WalkModel(config, DT, seed=seed).double()


def walks_of(*rows: list[tuple[float, float]], ended: bool = True) -> WalkBatch:
    longest = max(map(len, rows))
    xy = torch.tensor([r + [r[-1]] * (longest - len(r)) for r in rows], dtype=torch.float64)
    steps = torch.tensor([len(r) - 1 for r in rows])
    return WalkBatch(xy, steps, torch.full((len(rows),), 9.0, dtype=torch.float64), torch.full((len(rows),), ended))


SHORT = [(0.0, 0.0), (0.2, 0.1), (0.25, 0.3)]
LONG = [(1.0, 0.0), (0.8, 0.1), (0.6, 0.1), (0.3, -0.1)]


def by_hand(model: WalkModel, walks: WalkBatch, row: int) -> float:
    """Sum over every course of field, pace and pausing."""
    terms, chain = step_terms(model, walks), model.chain()
    count = int(walks.steps[row])
    fields, paces = range(model.config.components), range(model.config.paces)
    total = 0.0
    for g in paces:
        for course in itertools.product(itertools.product((0, 1), fields), repeat=count):
            p = float(chain.log_pace_weight[g].exp() * terms.log_prior[row, course[0][1]].exp())
            p *= float(chain.pause if course[0][0] else 1 - chain.pause)
            for i, (pausing, k) in enumerate(course):
                log_p = terms.log_still[row, i] if pausing else terms.log_move[row, i, k, g]
                p *= float(torch.exp(log_p + terms.log_end[row, i, k]))
                if i + 1 < count:
                    then_pausing, then = course[i + 1]
                    leave = chain.resume if pausing else chain.pause
                    p *= float(leave if then_pausing != pausing else 1 - leave)
                    p *= chain.switch * float(terms.log_again[row, i, then].exp()) + (1 - chain.switch) * (then == k)
            total += p
    return math.log(total)


def test_recursion_is_the_sum_over_all_hidden_courses():
    model, walks = model_of(), walks_of(SHORT, LONG)
    with torch.no_grad():
        found = log_likelihood(model, walks)
        expected = [by_hand(model, walks, row) for row in range(2)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7)


def test_padding_changes_nothing():
    model = model_of(switch=0.0)
    with torch.no_grad():
        together = log_likelihood(model, walks_of(SHORT, LONG))[0]
        alone = log_likelihood(model, walks_of(SHORT))[0]
    assert float(together) == pytest.approx(float(alone), rel=1e-12)


def test_one_long_walk_among_short_ones_changes_nothing():
    """Rows of like length are followed together; each still gets its own likelihood and belief, and its gradient."""
    model = model_of()
    endless = [(0.01 * i, 0.02 * math.sin(i)) for i in range(90)]
    rows = [SHORT, endless, LONG, [*LONG, (0.1, 0.0)], SHORT]
    held = torch.log(torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]], dtype=torch.float64))
    together = filter_walks(model, walks_of(*rows), held)
    alone = [filter_walks(model, walks_of(row), held[i : i + 1]) for i, row in enumerate(rows)]
    assert torch.allclose(together.log_likelihood, torch.cat([a.log_likelihood for a in alone]), rtol=1e-12)
    assert torch.allclose(together.belief, torch.cat([a.belief for a in alone]), rtol=1e-10)
    together.log_likelihood.sum().backward()
    gradient = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    torch.cat([a.log_likelihood for a in alone]).sum().backward()
    again = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(torch.allclose(a, b, rtol=1e-6, atol=1e-6) for a, b in zip(gradient, again, strict=True))


def test_step_density_integrates_to_one():
    """Over where the next step may lead, walking and pausing, ended or not."""
    model = model_of(paces=1)
    reach = np.linspace(-3.0, 3.0, 241)
    ends = np.stack(np.meshgrid(reach, reach), axis=-1).reshape(-1, 2)
    cell = (reach[1] - reach[0]) ** 2
    xy = torch.tensor(np.stack([np.zeros_like(ends), ends], axis=1))
    total = 0.0
    for ended in (False, True):
        count = len(ends)
        hour = torch.full((count,), 9.0, dtype=torch.float64)
        walks = WalkBatch(xy, torch.ones(count, dtype=torch.long), hour, torch.full((count,), ended))
        with torch.no_grad():
            total += float(log_likelihood(model, walks).exp().sum()) * cell
    assert total == pytest.approx(1.0, abs=0.01)


def test_noise_begins_small_and_grows_to_its_usual_spread():
    """Along the way: begin, then keep^2 begin^2 + 1 - keep^2, and so on to one; sampled, and in the likelihood."""
    begin, keep, rows = 0.25, 0.8, 20000
    model = model_of(components=1, paces=1, switch=0.0).float()
    with torch.no_grad():
        model.raw_begin.fill_(math.log(begin / (1.0 - begin)))
        model.raw_keep.fill_(math.atanh(keep))
        model.raw_ramp.fill_(20.0)  # full speed and full noise from the first step on
        model.raw_steady.fill_(20.0)
        model.raw_pause.copy_(torch.tensor([-30.0, 0.0]))
    sampler, rng = PathSampler(tabulate(model)), np.random.default_rng(0)
    start = np.zeros((rows, 2))
    hidden = sampler.draw_start(start, 9.0, rng)
    spread = [float(np.std(hidden.eps_v))]
    for step in range(2):
        walked = sampler.sample(start, replace(hidden, step=step), 9.0, 1, rng)
        move = walked.xy[:, 1] - walked.xy[:, 0]
        mean = move.mean(0)
        spread.append(float(np.std(move @ mean / np.linalg.norm(mean))))
    wanted = [begin, 1.0 - keep**2 + keep**2 * begin**2]
    assert spread[0] == pytest.approx(begin, rel=0.03)
    assert spread[2] / spread[1] == pytest.approx(math.sqrt(wanted[1]) / begin, rel=0.05)
    # One move is as likely as a Gaussian of that spread says: at its middle it is 1 / begin^2 times as likely as usual.
    terms = [float(step_terms(m, one_move(m)).log_move.detach().max()) for m in (model, usual(model))]
    assert terms[0] - terms[1] == pytest.approx(-2.0 * math.log(begin), rel=1e-3)


def usual(model: WalkModel) -> WalkModel:
    """The same with noise that has its full spread from the first step on."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.raw_begin.fill_(20.0)
    return other


def one_move(model: WalkModel) -> WalkBatch:
    """Just what the field says, from the origin."""
    with torch.no_grad():
        there = DT * model.unit(torch.zeros(1, 2)).a[0, 0]
    xy = torch.stack([torch.zeros(2), there]).unsqueeze(0)
    return WalkBatch(xy, torch.ones(1, dtype=torch.long), torch.full((1,), 9.0), torch.zeros(1, dtype=torch.bool))


def test_an_impossible_field_does_not_underflow():
    model, walks = model_of(switch=0.0), walks_of([(0.0, 0.0), (40.0, 0.0), (80.0, 0.0)])
    found = log_likelihood(model.float(), WalkBatch(walks.xy.float(), walks.steps, walks.hour.float(), walks.ended))
    found.sum().backward()
    assert math.isfinite(float(found.detach()))
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_belief_is_a_distribution_and_matches_the_recursion():
    model = model_of(paces=3).float()
    belief = believe(model, np.array(LONG), 9.0)
    assert belief.probability.sum() == pytest.approx(1.0)
    walks = walks_of(LONG, ended=False)
    batch = WalkBatch(walks.xy.float(), walks.steps, walks.hour.float(), walks.ended)
    with torch.no_grad():
        np.testing.assert_allclose(belief.probability, filter_walks(model, batch).belief[0].numpy(), atol=1e-6)
    drawn = belief.draw(4000, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(drawn.component, minlength=2) / 4000, belief.components, atol=0.03)


def test_held_walks_weigh_the_first_choice_only():
    model, walks = model_of(switch=0.0), walks_of(SHORT)
    terms, chain = step_terms(model, walks), model.chain()
    halves = [
        forward(terms, chain, walks.steps, torch.tensor([[0.0, -1e4]])).log_likelihood,
        forward(terms, chain, walks.steps, torch.tensor([[-1e4, 0.0]])).log_likelihood,
    ]
    whole = forward(terms, chain, walks.steps).log_likelihood.detach()
    assert float(torch.logaddexp(*halves).detach()) == pytest.approx(float(whole))


def fork(count: int, seed: int = 0) -> WalkWindows:
    """From the origin east for 2 m, then north or south for 2 m, about 1 m/s; one in four goes south."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        turn = np.array([0.0, -1.0 if i % 4 == 0 else 1.0])
        pace = 0.4 * np.exp(0.1 * rng.standard_normal())
        s = np.arange(0.0, 4.0, pace)[:, None]
        line = np.minimum(s, 2.0) * [1.0, 0.0] + np.maximum(s - 2.0, 0.0) * turn
        rows.append(line + rng.normal(0.0, 0.05, (1, 2)) + rng.normal(0.0, 0.02, line.shape))
    longest = max(map(len, rows))
    xy = np.stack([np.concatenate([r, np.repeat(r[-1:], longest - len(r), axis=0)]) for r in rows])
    valid = np.arange(longest) < np.array([len(r) for r in rows])[:, None]
    ids = tuple(f"w{i}" for i in range(count))
    return WalkWindows(xy, valid, DT, np.arange(count), np.full(count, 10.0), ids, ("r",) * count)


@pytest.fixture(scope="module")
def trained():
    return train_paths(as_batch(fork(24)), DT, config=PathTrainConfig(steps=120))


def test_training_finds_both_ways_and_their_shares(trained):
    assert len(trained.use) == 2
    assert min(trained.use) == pytest.approx(0.25, abs=0.02)
    sampler, rng = PathSampler(tabulate(trained.model)), np.random.default_rng(0)
    start = np.zeros((1000, 2))
    paths = sampler.sample(start, sampler.draw_start(start, 10.0, rng), 10.0, 40, rng)
    south = paths.xy[:, -1, 1] < 0.0
    assert south.mean() == pytest.approx(0.25, abs=0.06)
    assert paths.ended.mean() > 0.95
    expected = np.where(south[:, None], [2.0, -1.8], [2.0, 1.8])
    assert np.linalg.norm(paths.xy[:, -1] - expected, axis=1).mean() < 0.7


def test_trained_walks_are_likelier_than_others(trained):
    held_out = as_batch(fork(20, seed=7))
    mirrored = WalkBatch(held_out.xy * torch.tensor([-1.0, 1.0]), held_out.steps, held_out.hour, held_out.ended)
    assert held_out_nll(trained.model, held_out) < 0.0 < held_out_nll(trained.model, mirrored)


def test_belief_turns_with_the_walker(trained):
    south = int(np.argmin(trained.use))
    straight = np.stack([np.arange(0.0, 1.7, 0.4), np.zeros(5)], axis=1)
    turned = np.concatenate([straight, [[2.0, -0.1], [2.0, -0.5], [2.0, -0.9]]])
    before, after = believe(trained.model, straight, 10.0), believe(trained.model, turned, 10.0)
    assert before.components[south] == pytest.approx(0.25, abs=0.2)
    assert after.components[south] > 0.95


def test_going_on_from_a_model_keeps_what_it_knew(trained):
    again = train_paths(
        as_batch(fork(24)), DT, config=PathTrainConfig(steps=10, learning_rate=1e-3), start=trained.model
    )
    assert again.nll < trained.nll + 0.05


def test_same_seed_same_weights():
    config = PathTrainConfig(steps=5)
    first, second = (train_paths(as_batch(fork(8)), DT, config=config).model for _ in range(2))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_ends_are_grouped_as_asked():
    ends = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 0.0], [5.1, 0.1], [0.0, 9.0]])
    found = group_ends(ends, WalkModelConfig())
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(set(found)) == 3
    assert len(set(group_ends(ends, WalkModelConfig(components=2)))) == 2


def test_only_the_last_piece_of_a_walk_ends_it():
    one = fork(2)
    both = WalkWindows(one.xy, one.valid, DT, np.array([0, 10]), one.start_hour, ("a", "a"), one.residents)
    assert as_batch(both).ended.tolist() == [False, True]


def test_one_walk_is_enough_to_train():
    assert math.isfinite(train_paths(as_batch(fork(1)), DT, config=PathTrainConfig(steps=3)).nll)


def test_bad_input_is_refused():
    one = fork(1)
    with pytest.raises(DataError, match="expected walks of at least two positions"):
        as_batch(WalkWindows(one.xy[:, :1], one.valid[:, :1], DT, np.zeros(1), np.zeros(1), ("a",), ("r",)))
    with pytest.raises(DataError, match="expected finite"):
        as_batch(WalkWindows(one.xy * np.nan, one.valid, DT, np.zeros(1), np.zeros(1), ("a",), ("r",)))
    with pytest.raises(DataError, match="expected at least two"):
        believe(model_of().float(), np.zeros((1, 2)), 9.0)


def test_ticks_end_where_the_walk_is_now():
    from svfm_ros.types import Walk

    stamps = (np.array([0.0, 0.5, 1.0]) * 1e9).astype(np.int64)
    walk = Walk("w", "r", stamps, np.array([[0.0, 0, 0], [0.5, 0, 0], [1.0, 0, 0]]))
    np.testing.assert_allclose(on_ticks(walk, 0.4)[:, 0], [0.2, 0.6, 1.0])
