"""A grant of one device: each lease is a program, and only one program has the device."""

import concurrent.futures
import functools
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import cudawrap
import pytest
from conftest import until

VISIBLE = "CUDA_VISIBLE_DEVICES"
LEASE = [sys.executable, "-c", "import cudawrap; print(cudawrap.lease().uuids[0])"]


@pytest.fixture(params=["named", "reserved", "held"])
def grant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One device in CUDA_VISIBLE_DEVICES: by its UUID alone, by $(getgpu), by $(getgpu --hold)."""
    if request.param == "named":
        uuid = cudawrap.devices()[0].uuid
    else:
        words = [f"--hold={os.getpid()}"] if request.param == "held" else ["--for=60"]
        uuid = subprocess.check_output(["getgpu", *words], text=True).strip()
    monkeypatch.setenv(VISIBLE, uuid)
    yield uuid
    monkeypatch.delenv(VISIBLE)
    if request.param != "named":
        subprocess.run(["getgpu", "--release-all"], check=True)


def refused(words: list[str]) -> str:
    """Runs a program that finds no free device, and gives what it says."""
    done = subprocess.run(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0, done
    return done.stderr


def test_a_second_lease_finds_none_free(grant: str) -> None:
    with cudawrap.lease() as lease:
        assert lease.uuids == (grant,)
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease()
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease(env=False, wait=0.3)
        assert os.environ[VISIBLE] == grant
    with cudawrap.lease() as lease:
        assert lease.uuids == (grant,), "it is free again"


def test_two_halves_are_two_leases(grant: str) -> None:
    with cudawrap.lease(share="1/2"), cudawrap.lease(share="1/2"):
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease(share="1/2")


def test_programs_inside_a_lease_run_on_its_device(grant: str) -> None:
    with cudawrap.lease():
        done = cudawrap.run(["printenv", VISIBLE], stdout=subprocess.PIPE, text=True, check=True)
        assert done.stdout.strip() == grant
        assert subprocess.check_output(["getgpu"], text=True).strip() == grant


def test_programs_beside_a_lease_find_none_free(grant: str) -> None:
    script = "import cudawrap, sys; cudawrap.lease(); print('has', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout and program.stdout.readline() == b"has\n"
        assert "NoDeviceFree" in refused(LEASE)
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease()
        assert "cudawrap: " in refused(["cudawrap", "--", "true"])
    subprocess.run(["cudawrap", "--", "true"], check=True)


def test_a_lease_waits_for_a_program_on_the_device(grant: str) -> None:
    words = ["cudawrap", "--", "sh", "-c", "echo has; read line"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout and program.stdout.readline() == b"has\n"
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease()
        assert program.stdin
        timer = threading.Timer(0.3, program.stdin.close)
        timer.start()
        with cudawrap.lease(wait=20) as lease:
            assert lease.uuids == (grant,)
        timer.join()


def lease_or_note(place: str) -> None:
    """As an initializer: a lease that fails would end the whole pool."""
    try:
        cudawrap.lease()
        pathlib.Path(place, f"leased-{os.getpid()}").touch()
    except cudawrap.NoDeviceFree:
        pathlib.Path(place, f"refused-{os.getpid()}").touch()


def wait_for(place: str, count: int, _: int) -> None:
    until(lambda: len(os.listdir(place)) >= count, "all workers have asked")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_of_four_workers_one_has_the_device(grant: str, method: str, tmp_path: pathlib.Path) -> None:
    place = str(tmp_path)
    context = multiprocessing.get_context(method)
    initializer = functools.partial(lease_or_note, place)
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=context, initializer=initializer) as pool:
        list(pool.map(functools.partial(wait_for, place, 4), range(4)))
    if method == "forkserver":
        # Beside it no later test could lease in this process.
        multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]
    outcomes = sorted(name.partition("-")[0] for name in os.listdir(place))
    assert outcomes == ["leased", "refused", "refused", "refused"]


def test_of_four_workers_under_a_lease_of_one_device_one_has_it(tmp_path: pathlib.Path) -> None:
    place = str(tmp_path)
    initializer = functools.partial(lease_or_note, place)
    with cudawrap.lease():
        with concurrent.futures.ProcessPoolExecutor(4, initializer=initializer) as pool:
            list(pool.map(functools.partial(wait_for, place, 4), range(4)))
    outcomes = sorted(name.partition("-")[0] for name in os.listdir(place))
    assert outcomes == ["leased", "refused", "refused", "refused"]


UNDER_CUDAWRAP = """
import cudawrap, os, subprocess
with cudawrap.lease() as lease:
    assert lease.uuids[0] == os.environ["CUDA_VISIBLE_DEVICES"]
    try:
        cudawrap.lease()
    except cudawrap.NoDeviceFree:
        pass
    else:
        raise SystemExit("two leases of one device")
    cudawrap.run(["true"], check=True)
"""


def test_under_cudawrap_one_lease_has_the_device() -> None:
    subprocess.run(["cudawrap", "--", sys.executable, "-c", UNDER_CUDAWRAP], check=True)
