"""Workers of multiprocessing and concurrent.futures: each has a device of its own, whichever way it starts."""

import concurrent.futures
import functools
import multiprocessing
import multiprocessing.forkserver
import os
import pathlib
import signal
import subprocess
import time
from concurrent.futures.process import BrokenProcessPool

import cudawrap
import pytest
from conftest import all_free, states, until

WORKERS = 4


def meet(place: str, number: int) -> tuple[str, int]:
    """Waits until all workers are at work, runs a CUDA program, and gives the worker's device and pid."""
    pathlib.Path(place, str(number)).touch()
    until(lambda: len(os.listdir(place)) >= WORKERS, "all workers work")
    subprocess.run(["sim-cuda", "--run", "0.05"], check=True, stdout=subprocess.DEVNULL)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_worker_of_a_pool_has_its_own_device(method: str, tmp_path: pathlib.Path) -> None:
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(WORKERS, mp_context=context, initializer=cudawrap.lease) as pool:
        results = list(pool.map(functools.partial(meet, str(tmp_path)), range(WORKERS)))
        assert len({device for device, _ in results}) == WORKERS
        assert len({pid for _, pid in results}) == WORKERS
        assert states() == ["reserved"] * 4
    until(all_free, "the pool's devices are free", 2.0)


def test_workers_choose_inside_the_lease_of_their_parent(tmp_path: pathlib.Path) -> None:
    # That of an earlier test has the environment of that time.
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]
    with cudawrap.lease(count=4) as lease:
        with concurrent.futures.ProcessPoolExecutor(WORKERS, initializer=cudawrap.lease) as pool:
            results = list(pool.map(functools.partial(meet, str(tmp_path)), range(WORKERS)))
        assert {device for device, _ in results} == set(lease.uuids)
        assert states() == ["reserved"] * 4, "the parent's lease goes on"


def test_a_pool_with_more_workers_than_devices_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with cudawrap.lease(count=4, env=False):
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context, initializer=cudawrap.lease) as pool:
            with pytest.raises(BrokenProcessPool):
                pool.submit(os.getpid).result()
    assert "NoDeviceFree: no free device: 4 of 4 in use" in capfd.readouterr().err


def test_a_killed_worker_gives_its_device_back() -> None:
    with concurrent.futures.ProcessPoolExecutor(2, initializer=cudawrap.lease) as pool:
        victim = pool.submit(os.getpid).result()
        assert "reserved" in states()
        waits = pool.submit(time.sleep, 600)
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):
            waits.result(20)
    until(all_free, "its device is free", 2.0)


def test_threads_of_an_executor_have_a_device_each() -> None:
    def program(_: int) -> str:
        with cudawrap.lease(env=False, wait=True) as lease:
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(lease.uuids)}
            command = ["sim-cuda", "--run", "0.05"]
            return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(line.startswith("RUN MIG-") for line in pool.map(program, range(12)))
