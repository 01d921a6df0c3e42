"""The batched model in torch says what the compiled one says: the same posterior, the same distribution of paths."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from two_destinations import MONDAY_NS, PLACES, model_file, walks

from svfm_ros.clock import days_of
from svfm_ros.errors import ConfigError, DataError
from svfm_ros.forecasting.batched.device_choice import faster
from svfm_ros.forecasting.batched.many_walkers import BatchedModel, PathEnds
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.forward import HAZARDS
from svfm_ros.forecasting.model_file import save_walk_model
from svfm_ros.forecasting.posterior import filter_walk, on_ticks, start_probabilities
from svfm_ros.forecasting.sampler import SampledWalks, fresh_walkers, sample_walks
from svfm_ros.types import OccupancyGrid, Pose2

HOURS, DAY = (10.5, 22.0, 10.5, 3.0), int(days_of([MONDAY_NS], "UTC")[0])
STATES = ("start", "under way", "standing", "free")
SAMPLES = {1: 40_000, 5: 12_000}  # by number of steps
LEVELS = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)


@pytest.fixture(scope="module")
def model():  # type: ignore[no-untyped-def]
    """All hidden changes are likely enough to be seen, arrivals and departures, too."""
    model = model_file().model
    switches = replace(model.switches, leave=0.3, join=0.3, slip=0.1, free_end=0.1)
    tables = model.tables.copy()
    tables[..., HAZARDS], tables[..., HAZARDS + 1] = 0.2, 0.3  # of stopping, of going on
    tables[..., HAZARDS + 2 :] = np.maximum(tables[..., HAZARDS + 2 :], 0.15)  # of ending
    habits = replace(model.habits, free=np.full_like(model.habits.free, 0.5), base_free=0.5)
    set_off = np.full(model.components, 0.7)
    return replace(model, switches=switches, tables=tables, habits=habits, set_off=set_off)


@pytest.fixture(scope="module")
def seen():  # type: ignore[no-untyped-def]
    """Positions seen, by the state that they lead to; of different lengths."""
    straight, _ = on_ticks(walks(2, seed=5)[0], 0.4)
    standing = np.concatenate([straight[:5], straight[4] + 0.01 * np.random.default_rng(0).standard_normal((4, 2))])
    off = straight[0] + np.cumsum(np.tile([-0.05, -0.45], (7, 1)), axis=0)
    return {"start": straight[:1], "under way": straight[:6], "standing": standing, "free": off}


@pytest.fixture(scope="module")
def batch(model, seen):  # type: ignore[no-untyped-def]
    """The batched model and its posterior after all walks seen at once."""
    batched = BatchedModel(model, "cpu")
    batched.seed(0)
    habits = batched.habits_at(HOURS, [DAY] * 4)
    walks_seen = [(seen[s] - model.origin, variance_of(seen[s])) for s in STATES]
    return SimpleNamespace(model=batched, habits=habits, posterior=batched.filter_walks(walks_seen, habits))


def variance_of(xy):  # type: ignore[no-untyped-def]
    return np.linspace(0.0, 4e-4, len(xy))


def compiled_posterior(model, seen, state: str):  # type: ignore[no-untyped-def]
    return filter_walk(model, seen[state], variance_of(seen[state]), HOURS[STATES.index(state)], DAY)


@pytest.mark.parametrize("state", STATES[1:])
def test_the_posterior_is_that_of_the_compiled_filter(model, seen, batch, state: str) -> None:  # type: ignore[no-untyped-def]
    i, expected = STATES.index(state), compiled_posterior(model, seen, state)
    found = batch.posterior
    for name in ("state", "filters", "moves"):
        assert getattr(found, name)[i].numpy() == pytest.approx(getattr(expected, name), abs=1e-4), name
    assert (int(found.known[i]), int(found.steps[i])) == (expected.known, expected.steps)


def test_the_posterior_before_the_first_move_is_what_the_habits_say(model, seen, batch) -> None:  # type: ignore[no-untyped-def]
    start = start_probabilities(model, seen["start"][0], HOURS[0], DAY)
    expected = np.concatenate([start, np.zeros(model.components + 1)])
    assert batch.posterior.state[0].numpy() == pytest.approx(expected, abs=1e-6)
    assert int(batch.posterior.known[0]) == int(batch.posterior.steps[0]) == 0


def both_sampled(model, seen, batch, steps: int) -> tuple[SampledWalks, SampledWalks]:  # type: ignore[no-untyped-def]
    """Paths of one or five steps, followed for 12 more, of all four walkers: batched and compiled."""
    count, rng, parts = SAMPLES[steps], np.random.default_rng(1), []
    here = np.stack([seen[s][-1] for s in STATES]) - model.origin
    walkers = batch.model.walkers(batch.posterior, here, np.zeros((4, 2, 2)), count)
    more = 0 if steps == 1 else 12
    ours = batch.model.sample(walkers, batch.habits, steps, more)
    for i, state in enumerate(STATES):
        at = np.tile(here[i], (count, 1))
        if state == "start":
            start = batch.posterior.state[0, : 1 + model.components].double().numpy()
            compiled = fresh_walkers(at, start, rng)
        else:
            compiled = compiled_posterior(model, seen, state).draw(at, rng)
        parts.append(sample_walks(model, compiled, HOURS[i], DAY, steps, more, rng))
    names = ("xy", "component", "ended", "end_xy")
    return ours, SampledWalks(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))


@pytest.fixture(scope="module")
def sampled(model, seen, batch):  # type: ignore[no-untyped-def]
    """Sampled paths by state and number of steps."""
    both = {steps: both_sampled(model, seen, batch, steps) for steps in SAMPLES}

    def of(state: str, steps: int) -> tuple[SampledWalks, SampledWalks]:
        first = STATES.index(state) * SAMPLES[steps]
        ours, theirs = both[steps]
        return ours.some(rows := slice(first, first + SAMPLES[steps])), theirs.some(rows)

    return of


def assert_same_distribution(ours, theirs) -> None:  # type: ignore[no-untyped-def]
    """Two samples (S,): the share of one below the quantiles of the other, within 4.5 standard errors."""
    for level in LEVELS:
        at = np.quantile(theirs, level) + 1e-6
        shares = [(x < at).mean() for x in (ours, theirs)]
        spread = max(shares[1] * (1.0 - shares[1]), 10.0 / len(ours))
        assert shares[0] == pytest.approx(shares[1], abs=4.5 * np.sqrt(2.0 * spread / len(ours))), level


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("state", STATES)
def test_sampled_paths_are_distributed_as_compiled_ones(sampled, state: str, steps: int) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = (s.xy for s in sampled(state, steps))
    for i in range(steps):
        assert_same_distribution(*(np.hypot(*(x[:, i + 1] - x[:, i]).T) for x in (ours, theirs)))
    for axis in ([1.0, 0.0], [0.0, 1.0], [0.6, 0.8]):
        assert_same_distribution(ours[:, steps] @ axis, theirs[:, steps] @ axis)


@pytest.mark.parametrize("state", STATES)
def test_paths_end_where_and_as_often_as_compiled_ones(sampled, state: str) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = sampled(state, 5)
    tolerance = 4.5 * np.sqrt(0.5 / len(ours.ended))
    assert ours.ended.mean() == pytest.approx(theirs.ended.mean(), abs=tolerance)
    for k in range(3):
        shares = [(s.component == k).mean() for s in (ours, theirs)]
        assert shares[0] == pytest.approx(shares[1], abs=tolerance)
    for axis in ([1.0, 0.0], [0.0, 1.0]):
        assert_same_distribution(ours.end_xy @ axis, theirs.end_xy @ axis)


def test_a_move_while_standing_is_a_two_dimensional_student_t(model, batch) -> None:  # type: ignore[no-untyped-def]
    """Its squared length has a distribution function in closed form."""
    count, state = 40_000, torch.zeros_like(batch.posterior.state)
    state[:, 1 + model.components] = 1.0
    walkers = batch.model.walkers(replace(batch.posterior, state=state), np.zeros((4, 2)), np.zeros((4, 2, 2)), count)
    xy = batch.model.sample(walkers, batch.habits, 1, 0).xy
    squared = ((xy[:, 1] - xy[:, 0]) ** 2).sum(1) / (4.0 * model.still_m**2)
    beyond = (1.0 + squared) ** -2.0  # probability of a longer move: uniform
    for level in LEVELS:
        assert (beyond < level).mean() == pytest.approx(level, abs=4.5 * np.sqrt(level * (1.0 - level) / len(xy)))


class HostWaits(TorchDispatchMode):
    """Counts operations that wait for a number from the device, or copy one from or to it."""

    WAITS = ("_local_scalar_dense", "nonzero", "item", "is_nonzero", "masked_select", "unique", "equal", "lift_fresh")

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        self.operations += 1
        masks = name in ("index", "index_put", "index_put_") and any(
            i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]
        )
        moved = name in ("_to_copy", "copy_") and kwargs.get("device") is not None
        if name.startswith(self.WAITS) or masks or moved:
            self.waits.append(name)
        return func(*args, **kwargs)


def ends_of(walkers) -> PathEnds:  # type: ignore[no-untyped-def]
    none = torch.zeros_like(walkers.owner)
    return PathEnds(none.bool(), none, torch.zeros_like(walkers.xy))


def test_no_step_waits_for_the_device(model, seen, batch) -> None:  # type: ignore[no-untyped-def]
    walkers = batch.model.walkers(batch.posterior, np.zeros((4, 2)), np.zeros((4, 2, 2)), 10)
    choices = batch.habits.choices
    for until_end in (False, True):
        with HostWaits() as count:
            batch.model.walk(walkers, ends_of(walkers), choices, 3, until_end)
        assert not count.waits
        assert count.operations > 100
    with HostWaits() as count:
        batch.model.sample(walkers, batch.habits, 1, 1)
    assert "nonzero" in count.waits  # between the two loops: the count does see it


def test_no_step_needs_a_number_of_the_device(model, seen) -> None:  # type: ignore[no-untyped-def]
    """The meta device has no numbers: whatever would wait for one raises there."""
    batched = BatchedModel(model, "meta")
    habits = batched.habits_at(HOURS, [DAY] * 4)
    posterior = batched.filter_walks([(seen[s], variance_of(seen[s])) for s in STATES], habits)
    walkers = batched.walkers(posterior, np.zeros((4, 2)), np.zeros((4, 2, 2)), 10)
    path, _ = batched.walk(walkers, ends_of(walkers), habits.choices, 3, False)
    assert path.shape == (40, 4, 2)


@pytest.fixture(scope="module")
def forecasters() -> tuple[Forecaster, Forecaster]:
    wall = OccupancyGrid(np.ones((10, 2), dtype=np.float32), 0.1, Pose2(1.2, 0.05))
    return tuple(Forecaster(model_file(), PLACES, walls=wall, device=d) for d in ("torch", "cpu"))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def questions():  # type: ignore[no-untyped-def]
    """Someone at the start, someone under way and someone whose walk is shorter than a step."""
    walk = walks(2, seed=5)[1]
    part, short = (replace(walk, stamps_ns=walk.stamps_ns[:n], poses=walk.poses[:n], covariance=None) for n in (21, 2))
    seen = [None, part, short]
    starts = [(0.0, 0.0), part.xy[-1], short.xy[-1]]
    stamps = [MONDAY_NS, int(part.stamps_ns[-1]), int(short.stamps_ns[-1])]
    return starts, stamps, seen, [None, 0.01 * np.eye(2), 0.01 * np.eye(3)]


def test_forecast_many_gives_what_forecast_gives(forecasters, questions) -> None:  # type: ignore[no-untyped-def]
    count, (batched, compiled) = 2000, forecasters
    starts, stamps, seen, spreads = questions
    options = {"samples": count, "horizon_s": 3.0, "what_if_hour": 10.0}
    many = batched.forecast_many(starts, stamps, covariances=spreads, walks_so_far=seen, **options)
    for found, start, stamp, walk, spread in zip(many, starts, stamps, seen, spreads, strict=True):
        one = compiled.forecast(start, stamp, covariance=spread, walk_so_far=walk, **options)
        assert found.samples_xy.shape == one.samples_xy.shape
        assert found.times_s == pytest.approx(one.times_s)
        assert (found.walks, found.known, found.stamp_ns) == (one.walks, one.known, one.stamp_ns)
        assert found.unfamiliar == pytest.approx(one.unfamiliar, abs=1e-4)
        for name, share in one.shares.items():
            assert found.shares[name] == pytest.approx(share, abs=4.5 * np.sqrt(0.5 / count)), name
        for level in (0.1, 0.5, 0.9):
            for axis in (0, 1):
                ours, theirs = found.samples_xy[:, -1, axis], one.samples_xy[:, -1, axis]
                below = (ours <= np.quantile(theirs, level)).mean()
                assert below == pytest.approx(level, abs=4.5 * np.sqrt(2.0 * level * (1.0 - level) / count))


def test_one_forecast_runs_batched_too_and_is_repeatable(forecasters) -> None:  # type: ignore[no-untyped-def]
    batched = forecasters[0]
    first, again, other = (batched.forecast((0.0, 0.0), MONDAY_NS, samples=50, seed=s) for s in (3, 3, 4))
    assert np.array_equal(first.samples_xy, again.samples_xy)
    assert not np.array_equal(first.samples_xy, other.samples_xy)


@pytest.mark.parametrize("which", [0, 1])
def test_walkers_at_one_place_get_paths_of_their_own(forecasters, which: int) -> None:  # type: ignore[no-untyped-def]
    found = forecasters[which].forecast_many([(0.0, 0.0)] * 2, [MONDAY_NS] * 2, samples=20)
    assert not np.array_equal(found[0].samples_xy, found[1].samples_xy)
    assert forecasters[which].forecast_many([], []) == []


def test_more_walkers_than_are_sampled_at_once(forecasters) -> None:  # type: ignore[no-untyped-def]
    found = forecasters[0].forecast_many([(0.1 * i, 0.0) for i in range(3)], [MONDAY_NS] * 3, samples=5000)
    assert [f.samples_xy[0, 0, 0] for f in found] == pytest.approx([0.0, 0.1, 0.2], abs=1e-6)


def test_forecast_many_refuses_lists_of_different_lengths(forecasters) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="as many starts"):
        forecasters[1].forecast_many([(0.0, 0.0)], [MONDAY_NS, MONDAY_NS])


def test_auto_takes_the_faster() -> None:
    """The first run of each is not timed: it compiles."""
    now, runs = [0.0], {"slow": 0, "fast": 0}

    def run(choice: str) -> None:
        runs[choice] += 1
        now[0] += 100.0 if runs["fast"] == 1 and choice == "fast" else {"slow": 2.0, "fast": 1.0}[choice]

    assert faster(("slow", "fast"), run, lambda: now[0]) == "fast"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_without_a_gpu_auto_is_the_cpu_and_imports_no_torch(tmp_path) -> None:  # type: ignore[no-untyped-def]
    save_walk_model(path := tmp_path / "model.pt", model_file())
    code = (
        "import sys; from svfm_ros.forecasting.forecaster import Forecaster;"
        f"f = Forecaster({str(path)!r}, device='auto'); f.forecast((0, 0), 0); f.forecast_many([(0, 0)], [0]);"
        "print(*f.devices, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cpu", "cpu", "False"]
    with pytest.raises(ConfigError, match="expected a CUDA device"):
        Forecaster(model_file(), device="cuda")
