"""Programs that write into one store's folder at the same time lose nothing of each other's work."""

from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from svfm_ros.atomic_files import write_whole
from svfm_ros.cli.main import main
from svfm_ros.mapio import load_map, save_map
from svfm_ros.types import OccupancyGrid, Walk
from svfm_ros.walks.walk_store import WalkStore

WRITES = 250  # of each of four writers


def walk(number: int) -> Walk:
    stamps = 10**18 + number * 10**10 + np.arange(5) * 10**8
    return Walk(f"walk-{number}", "anna", stamps, np.full((5, 3), float(number)))


def content(number: int) -> bytes:
    return number.to_bytes(4, "big") * 5000


def store_walks(folder: Path) -> None:
    store = WalkStore.create(folder)
    for number in range(WRITES):
        assert store.add(walk(number))


def save_states(folder: Path) -> None:
    for number in range(WRITES):
        write_whole(folder / "map.state", content(number))
        assert (folder / "map.state").read_bytes() == content(number)


def save_models(folder: Path) -> None:
    for number in range(WRITES):
        write_whole(folder / "model.pt", content(number))
        assert (folder / "model.pt").read_bytes() == content(number)


def save_maps(folder: Path) -> None:
    for number in range(WRITES):
        save_map(OccupancyGrid(np.zeros((3, number + 1), np.float32), 0.05), folder / "house.yaml")
        assert load_map(folder / "house.yaml").prob.shape == (3, number + 1)


def list_and_export(folder: Path) -> None:
    for number in range(10):
        assert main(["store", str(folder), "--json"]) == 0
        assert main(["store", str(folder), "--export", str(folder.parent / f"{number}.csv")]) == 0


def test_a_thousand_writes_of_four_programs_and_a_reader_are_all_kept(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    WalkStore.create(folder)
    jobs: list[Callable[[Path], None]] = [store_walks, save_states, save_models, save_maps, list_and_export]
    processes = [get_context("fork").Process(target=job, args=(folder,)) for job in jobs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(jobs)
    store = WalkStore.open(folder)
    assert [w.poses[0, 0] for w in store.walks()] == list(range(WRITES))
    assert (folder / "map.state").read_bytes() == content(WRITES - 1)
    assert (folder / "model.pt").read_bytes() == content(WRITES - 1)
    assert load_map(folder / "house.yaml").prob.shape == (3, WRITES)
    names = {"walks.sqlite", "map.state", "model.pt", "house.yaml", "house.pgm"}
    assert {p.name for p in folder.iterdir()} == names  # and nobody left anything behind
