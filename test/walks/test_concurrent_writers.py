"""Programs that write into one store's folder at the same time lose nothing of each other's work."""

import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from svfm_ros.atomic_files import previous_of, write_whole
from svfm_ros.cli.main import main
from svfm_ros.mapio import load_map, save_map
from svfm_ros.types import OccupancyGrid, Walk
from svfm_ros.walks.walk_store import WalkStore

WRITES = 250  # of each of four writers, at least
WIDEST = 40  # cells of a map


def walk(number: int) -> Walk:
    stamps = 10**18 + number * 10**10 + np.arange(5) * 10**8
    return Walk(f"walk-{number}", "anna", stamps, np.full((5, 3), float(number)))


def content(number: int) -> bytes:
    return number.to_bytes(4, "big") * 5000


def store_walk(folder: Path, number: int) -> None:
    assert WalkStore.open(folder).add(walk(number))


def save_state(folder: Path, number: int) -> None:
    write_whole(folder / "map.state", content(number), keeps_previous=True)
    assert (folder / "map.state").read_bytes() == content(number)


def save_model(folder: Path, number: int) -> None:
    write_whole(folder / "model.pt", content(number), keeps_previous=True)
    assert (folder / "model.pt").read_bytes() == content(number)


def save_house(folder: Path, number: int) -> None:
    shape = (3, number % WIDEST + 1)
    save_map(OccupancyGrid(np.zeros(shape, np.float32), 0.05), folder / "house.yaml")
    assert load_map(folder / "house.yaml").prob.shape == shape


def list_and_export(folder: Path, number: int) -> None:
    if number % 25 == 0:
        assert main(["store", str(folder), "--json"]) == 0
        assert main(["store", str(folder), "--export", str(folder.parent / "out.csv")]) == 0


def repeat(job: Callable[[Path, int], None], folder: Path, seconds: float) -> None:
    """Do the job often and long enough; how often stands in a file beside the store."""
    end_s, number = time.monotonic() + seconds, 0
    while number < WRITES or time.monotonic() < end_s:
        job(folder, number)
        number += 1
    (folder.parent / job.__name__).write_text(str(number))


@pytest.mark.parametrize("seconds", [0.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_a_thousand_writes_of_four_programs_and_a_reader_are_all_kept(tmp_path: Path, seconds: float) -> None:
    folder = tmp_path / "store"
    WalkStore.create(folder)
    jobs: list[Callable[[Path, int], None]] = [store_walk, save_state, save_model, save_house, list_and_export]
    processes = [get_context("fork").Process(target=repeat, args=(job, folder, seconds)) for job in jobs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(jobs)
    stored, states, models, houses, _ = (int((tmp_path / job.__name__).read_text()) for job in jobs)
    assert [w.poses[0, 0] for w in WalkStore.open(folder).walks()] == list(range(stored))
    for path, count in ((folder / "map.state", states), (folder / "model.pt", models)):
        assert path.read_bytes() == content(count - 1)
        assert previous_of(path).read_bytes() == content(count - 2)
    assert load_map(folder / "house.yaml").prob.shape == (3, (houses - 1) % WIDEST + 1)
    names = {"walks.sqlite", "map.state", "map.before.state", "model.pt", "model.before.pt", "house.yaml", "house.pgm"}
    assert {p.name for p in folder.iterdir()} == names  # and nobody left anything behind
