"""Many homes on real Ray processes: broken data, killed workers, a killed driver, a cluster, other file systems."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import small_homes

from svfm_ros.config.fleet_config import FleetConfig
from svfm_ros.fleet.fleet_run import run_fleet
from svfm_ros.fleet.homes import find_homes

pytest.importorskip("ray", reason="no Ray here: pip install '.[fleet]'")
pytestmark = pytest.mark.timeout(600)

import psutil  # noqa: E402 (these come with the extra)
from pyarrow import parquet  # noqa: E402

from svfm_ros.fleet.ray_tasks import ray_session  # noqa: E402

CONFIG = FleetConfig(reports=False, least_homes=3, retries=1)
COMMAND = [sys.executable, "-m", "svfm_ros.cli.main", "fleet", "run"]


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    with ray_session(workers=2):
        yield


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    for seed in range(3):
        small_homes.write_home(tmp_path / "homes" / f"home{seed}.csv", seed)
    return tmp_path / "homes"


def worker_on(what: str) -> psutil.Process:
    """The Ray worker below this process whose task has this name."""
    below = psutil.Process().children(recursive=True)
    return next(process for process in below if f"ray::{what}" in " ".join(process.cmdline()))


def rows_of(out: Path) -> dict[str, dict[str, object]]:
    return {row["home"]: row for row in parquet.read_table(out / "homes.parquet").to_pylist()}


@pytest.mark.usefixtures("ray_here")
def test_killed_workers_and_broken_homes_leave_the_others_alone(homes: Path, tmp_path: Path) -> None:
    """One worker is killed once, and its home is tried again; another whenever it is at work, so its home fails."""
    from concurrent.futures import ThreadPoolExecutor

    out = tmp_path / "out"
    (homes / "broken.csv").write_text("walk_id,t,x,y\na,zero,0,0\n")
    once = small_homes.WaitingHome(homes, "once")
    always = small_homes.WaitingHome(homes, "twice")
    with ThreadPoolExecutor() as beside:
        running = beside.submit(run_fleet, find_homes(str(homes)), str(out), CONFIG)
        once.wait_for_reader()
        once.become(homes / "home0.csv")
        worker_on("statistics once").send_signal(signal.SIGKILL)
        for again in (True, False):
            always.wait_for_reader()
            if again:
                always.become(None)  # another pipe, so that the next reader waits as well
            worker_on("statistics twice").send_signal(signal.SIGKILL)
        outcome = running.result()
    assert sorted(outcome.failed) == ["broken", "twice"]
    assert "line 2" in outcome.failed["broken"]
    assert "its worker was killed each of 2 times" in outcome.failed["twice"]
    assert outcome.prior_homes == 4
    rows = rows_of(out)
    assert {name for name, row in rows.items() if row["state"] == "done"} == {"home0", "home1", "home2", "once"}
    assert rows["broken"]["reason"] == outcome.failed["broken"]
    assert rows["once"]["held_out_nll"] == rows["home0"]["held_out_nll"]  # the same walks

    small_homes.write_home(homes / "broken.csv", 5)
    (homes / "twice.csv").unlink()
    second = run_fleet(find_homes(str(homes)), str(out), CONFIG)
    assert (second.failed, second.worked_on, second.prior_homes) == ({}, 1, 0)
    renewed = run_fleet(find_homes(str(homes)), str(out), CONFIG, renew_prior=True)
    assert (renewed.prior_homes, renewed.worked_on) == (5, 5)


def test_the_run_after_a_killed_driver_does_what_is_left(homes: Path, tmp_path: Path) -> None:
    last = small_homes.WaitingHome(homes, "last")  # the fourth: one worker takes them by name
    command = [*COMMAND, str(homes), "--out", str(tmp_path / "out"), "--workers", "1", "--no-reports", "--json"]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE)
    last.wait_for_reader()
    below = psutil.Process(driver.pid).children(recursive=True)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    psutil.wait_procs(below, timeout=400)
    last.become(homes / "home0.csv")
    last.let_go()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    assert (found["homes"], found["done"], found["worked_on"], found["failed"]) == (4, 4, 1, {})


@pytest.mark.slow
def test_a_home_that_needs_more_memory_than_there_is_is_named(homes: Path, tmp_path: Path) -> None:
    """Ray's memory monitor ends the worker that reads a file of many small rows, and the others are finished."""
    with (homes / "huge.csv").open("w") as file:
        file.write("walk_id,t,x,y\n")
        for _ in range(100):
            file.write("a,0,0,0\n" * 500_000)
    memory = psutil.virtual_memory()
    limit = (memory.total - memory.available + 3e9) / memory.total
    watched = {"RAY_memory_usage_threshold": f"{limit:.3f}", "RAY_memory_monitor_refresh_ms": "100"}
    watched["RAY_task_oom_retries"] = "1"
    command = [*COMMAND, str(homes), "--out", str(tmp_path / "out"), "--workers", "1", "--no-reports", "--json"]
    done = subprocess.run(
        [*command, "--retries", "0"], stdout=subprocess.PIPE, check=False, env={**os.environ, **watched}
    )
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["done"] == 3
    assert "out of memory" in found["failed"]["huge"]


@pytest.mark.slow
def test_a_cluster_by_its_address_survives_a_lost_node(homes: Path, tmp_path: Path) -> None:
    """Two nodes on this machine; the second one's processes are killed while it works on a home."""
    ray = str(Path(sys.executable).with_name("ray"))
    tokens = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
    small = ["--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats"]
    port, client = _free_port(), _free_port()
    ports = [f"--port={port}", f"--ray-client-server-port={client}", "--include-dashboard=false"]
    head = [ray, "start", "--head", *ports]
    before = set(psutil.pids())
    subprocess.run([*head, *small], check=True, env=tokens, stdout=subprocess.DEVNULL)
    try:
        first_node = _raylets(set())
        subprocess.run(
            [ray, "start", f"--address=127.0.0.1:{port}", *small], check=True, env=tokens, stdout=subprocess.DEVNULL
        )
        second = next(p for p in _raylets(before) if p not in first_node)
        waiting = [small_homes.WaitingHome(homes, name) for name in ("held1", "held2")]
        out = tmp_path / "out"
        command = [*COMMAND, str(homes), "--out", str(out), "--address", f"ray://127.0.0.1:{client}", "--no-reports"]
        driver = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, env=tokens)
        for home in waiting:  # one on each node
            home.wait_for_reader()
            home.become(homes / "home0.csv")
        lost = [second, *second.children(recursive=True)]
        for process in lost:
            process.kill()
        for home in waiting:
            home.let_go()
        printed, _ = driver.communicate()
        found = json.loads(printed)
        assert (found["homes"], found["done"]) == (5, 5), found["failed"]
    finally:
        for process in psutil.process_iter(["cmdline"]):  # all that belong to this cluster, by its port
            words = process.info["cmdline"] or []
            if any(word.endswith((f":{port}", f"gcs_server_port={port}")) for word in words):
                process.kill()


def _raylets(before: set[int]) -> list[psutil.Process]:
    return [p for p in psutil.process_iter() if p.pid not in before and "raylet" in p.name()]


@pytest.mark.slow
def test_homes_and_results_in_an_object_store(homes: Path, tmp_path: Path) -> None:
    """Data and results by s3:// URLs, from a server in a process of its own; the second run does nothing again."""
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("s3fs", reason="no s3fs here: pip install s3fs")
    pytest.importorskip("moto", reason="no S3 server here: pip install 'moto[server]'")
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(port)], stderr=subprocess.PIPE)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if b"Running on" in line)
        store = fsspec.filesystem("s3", endpoint_url=address, key="a", secret="b")
        store.mkdir("study")
        (homes / "broken.csv").write_text("nonsense\n")
        store.put(f"{homes}/", "study/homes/", recursive=True)
        where = ["s3://study/homes", "--out", "s3://study/results", "--workers", "1", "--no-reports", "--json"]
        env = {**os.environ, **keys, "AWS_ENDPOINT_URL": address}
        for worked_on in (3, 0):
            done = subprocess.run([*COMMAND, *where], stdout=subprocess.PIPE, check=False, env=env)
            found = json.loads(done.stdout)
            assert (found["done"], found["worked_on"], list(found["failed"])) == (3, worked_on, ["broken"])
        with store.open("study/results/homes.parquet", "rb") as file:
            assert parquet.read_table(file).num_rows == 4
        assert store.exists("study/results/homes/home1/model.pt")
        assert store.exists("study/results/fleet.html")
    finally:
        server.kill()


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
