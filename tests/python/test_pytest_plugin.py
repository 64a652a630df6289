"""The pytest plugin, in real runs of pytest and pytest-xdist on a node with four devices."""

import os
import pathlib
import subprocess
import sys
import threading

import cudawrap
import pytest
from conftest import states

TESTS = """
import os, pathlib, subprocess, time
import pytest

PLACE = pathlib.Path(__file__).parent
AT_COLLECTION = os.environ.get("CUDA_VISIBLE_DEVICES")

@pytest.mark.parametrize("number", range(16))
def test_runs_on_its_device(number):
    assert os.environ["CUDA_VISIBLE_DEVICES"] == AT_COLLECTION
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    PLACE.joinpath(f"{worker}.worker").write_text(AT_COLLECTION)
    end = time.monotonic() + 20
    while len(list(PLACE.glob("*.worker"))) < int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")):
        assert time.monotonic() < end
        time.sleep(0.01)
    subprocess.run(["sim-cuda", "--run", "0.02", *os.environ.get("FLAGS", "").split()], check=True)
"""

KILLS = """
import os, pathlib, signal, subprocess

def command_line(process):
    try:
        return process.joinpath("cmdline").read_text()
    except OSError:
        return ""

def test_kills_its_worker():
    processes = pathlib.Path("/proc").glob("[0-9]*")
    [holder] = [int(process.name) for process in processes if f"tag=python-{os.getpid()}-" in command_line(process)]
    # For some seconds nobody notices that the worker is gone, and all other devices are in use.
    subprocess.Popen(["sh", "-c", f"sleep 4; kill -CONT {holder}"], start_new_session=True)
    os.kill(holder, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Project:
    """A directory with tests."""

    def __init__(self, place: pathlib.Path) -> None:
        self.place = place
        place.joinpath("test_gpu.py").write_text(TESTS)

    def pytest(self, *words: str, **environment: str) -> tuple[int, str]:
        """Runs pytest there; gives its status and what it printed."""
        program = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        done = subprocess.run(
            program,
            cwd=self.place,
            env={**clean, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout

    def used(self) -> dict[str, str]:
        """The device of each worker."""
        return {path.stem: path.read_text() for path in self.place.glob("*.worker")}

    def forget(self) -> None:
        """As if no worker had run."""
        for path in self.place.glob("*.worker"):
            path.unlink()


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Project:
    return Project(tmp_path)


def test_each_worker_has_its_own_device_and_gives_it_back(project: Project) -> None:
    status, said = project.pytest("-n4", "--gpu-lease")
    assert status == 0, said
    assert len(project.used()) == len(set(project.used().values())) == 4
    assert states() == ["free"] * 4


def test_more_workers_than_devices_are_refused_with_the_reason(project: Project) -> None:
    for words in (["--gpu-lease"], ["--gpu-lease", "--gpu-lease-wait=forever"]):
        status, said = project.pytest("-n8", *words)
        assert status == 4, said
        assert "--gpu-lease: 8 workers, and 4 devices for them (hint: -n 4, or --gpu-share=auto" in said
    assert project.used() == {}


@pytest.mark.parametrize("share", ["1/2", "auto"])
def test_more_workers_than_devices_share_them(project: Project, share: str) -> None:
    status, said = project.pytest("-n8", f"--gpu-share={share}", FLAGS="--shared")
    assert status == 0, said
    used = list(project.used().values())
    assert sorted(used.count(device) for device in set(used)) == [2, 2, 2, 2]


def test_a_killed_worker_is_replaced_by_one_with_a_device(project: Project) -> None:
    project.place.joinpath("test_kills.py").write_text(KILLS)
    status, said = project.pytest("-n4", "test_kills.py", "test_gpu.py", "--gpu-lease")
    assert status == 1, said
    assert "1 failed, 16 passed" in said, said
    assert "replacing crashed worker" in said, said


def test_workers_lease_inside_the_inherited_grant(project: Project) -> None:
    grant = [device.uuid for device in cudawrap.devices()[1:3]]
    status, said = project.pytest("-n2", "--gpu-lease", CUDA_VISIBLE_DEVICES=",".join(grant))
    assert status == 0, said
    assert sorted(project.used().values()) == sorted(grant)
    status, said = project.pytest("-n3", "--gpu-lease", CUDA_VISIBLE_DEVICES=",".join(grant))
    assert (status, "3 workers, and 2 devices for them" in said) == (4, True), said


def test_the_device_is_free_after_pytest_in_a_process_that_goes_on(project: Project) -> None:
    script = """
import cudawrap, pytest
assert pytest.main(["-q", "--gpu-lease", "-p", "no:cacheprovider", "-p", "no:xdist"]) == 0
assert {device.state for device in cudawrap.devices()} == {"free"}
"""
    subprocess.run([sys.executable, "-c", script], cwd=project.place, check=True, timeout=60)


def test_devices_that_others_use_are_waited_for_or_end_the_run_with_the_reason(project: Project) -> None:
    other = cudawrap.lease(env=False)
    status, said = project.pytest("-n4", "--gpu-lease")
    assert status != 0, said
    assert "no free device" in said and "INTERNALERROR" not in said, said
    assert project.used() == {}
    assert states().count("free") == 3
    timer = threading.Timer(1, other.release)
    timer.start()
    status, said = project.pytest("-n4", "--gpu-lease", "--gpu-lease-wait=30")
    timer.join()
    assert (status, len(project.used())) == (0, 4), said


def test_one_process_leases_one_device_and_without_the_option_none(project: Project) -> None:
    for words in (["-p", "no:xdist"], []):
        status, said = project.pytest("--gpu-lease", *words)
        assert status == 0, said
        assert f"gpu-lease: {project.used()['alone']}" in said
    project.place.joinpath("pytest.ini").write_text("[pytest]\ngpu_lease = 1/2\n")
    status, said = project.pytest("-p", "no:xdist")
    assert status == 0, said
    project.place.joinpath("pytest.ini").write_text("[pytest]\n")
    status, said = project.pytest("--gpu-lease", "-p", "no:xdist", "test_gpu.py")
    assert status == 0, said
    status, said = project.pytest("-p", "no:xdist")
    assert status == 1 and "KeyError: 'CUDA_VISIBLE_DEVICES'" in said, said
    with cudawrap.lease(count=4, env=False):
        status, said = project.pytest("-p", "no:xdist", "--gpu-lease")
        assert (status, "ERROR: --gpu-lease: no free device: 4 of 4 in use" in said) == (4, True), said


MARKED = """
import os
import pytest

AT_COLLECTION = os.environ.get("CUDA_VISIBLE_DEVICES")

@pytest.mark.gpu
def test_by_marker():
    assert AT_COLLECTION is None and os.environ["CUDA_VISIBLE_DEVICES"].startswith("MIG-")

def test_by_fixture(gpu_lease):
    assert gpu_lease.is_active and os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(gpu_lease.uuids)

def test_without():
    pass

@pytest.mark.gpu
@pytest.mark.skip(reason="not today")
def test_skipped():
    pass
"""


def test_the_marker_and_the_fixture_lease_at_the_first_such_test(project: Project) -> None:
    project.place.joinpath("test_marked.py").write_text(MARKED)
    status, said = project.pytest("-p", "no:xdist", "--strict-markers", "test_marked.py")
    assert (status, "3 passed, 1 skipped" in said) == (0, True), said
    with cudawrap.lease(count=4, env=False):
        for words in (["--gpu-lease", "--collect-only"], ["--gpu-lease", "--markers"], ["-k", "without or skipped"]):
            status, said = project.pytest("-p", "no:xdist", *words, "test_marked.py")
            assert status == 0, said
        status, said = project.pytest("-p", "no:xdist", "test_marked.py")
        assert (status, "gpu: no free device: 4 of 4 in use" in said) == (1, True), said


def test_without_a_driver_marked_tests_are_skipped_unless_required(project: Project) -> None:
    project.place.joinpath("test_marked.py").write_text(MARKED)
    for words in ([], ["--gpu-lease"], ["--gpu-lease", "-n2"]):
        status, said = project.pytest("-rs", *words, "test_marked.py", LD_LIBRARY_PATH="/nothing")
        assert (status, "1 passed, 3 skipped" in said, "gpu: no NVIDIA driver" in said) == (0, True, True), said
    status, said = project.pytest("--gpu-required", "test_marked.py", LD_LIBRARY_PATH="/nothing")
    assert (status, "gpu: no NVIDIA driver on this node" in said) == (1, True), said


def test_a_full_node_is_answered_with_the_options_of_pytest(project: Project) -> None:
    project.place.joinpath("test_marked.py").write_text(MARKED)
    with cudawrap.lease(count=4, env=False):
        for words in (["--gpu-lease"], ["--gpu-lease", "-n2"], ["-k", "marker"]):
            status, said = project.pytest(*words, "test_marked.py")
            assert status != 0, said
            assert "no free device: 4 of 4 in use" in said, said
            assert "(hint: --gpu-lease-wait=forever joins the queue" in said and "wait=True" not in said, said


def test_auto_starts_as_many_workers_as_find_room(project: Project) -> None:
    # Of parts at most one for each CPU or free device.
    def most(devices: int, parts: int) -> int:
        return min(parts, max(devices, len(os.sched_getaffinity(0))))

    status, said = project.pytest("-n", "auto", "--gpu-share=2G", FLAGS="--shared")
    assert (status, len(project.used())) == (0, most(4, 8)), said
    used = list(project.used().values())
    assert max(used.count(device) for device in set(used)) <= 2
    with cudawrap.lease(env=False):
        for words, workers in ((["--gpu-lease"], 3), (["--gpu-share=1/2"], most(3, 6)), (["--gpu-lease", "--maxprocesses=2"], 2)):
            project.forget()
            status, said = project.pytest("-n", "auto", *words, FLAGS="--shared")
            assert (status, len(project.used())) == (0, workers), said
    project.forget()
    status, said = project.pytest("-n", "auto", "--gpu-lease", PYTEST_XDIST_AUTO_NUM_WORKERS="1")
    assert (status, len(project.used())) == (0, 1), said
    with cudawrap.lease(count=4, env=False):
        status, said = project.pytest("-n", "auto", "--gpu-lease")
        assert status != 0 and "--gpu-lease: gw0: no free device: 4 of 4 in use" in said, said


@pytest.mark.parametrize("workers", ["2", "auto"])
def test_each_worker_has_as_many_devices_as_the_option_says(project: Project, workers: str) -> None:
    status, said = project.pytest("-n", workers, "--gpu-count=2")
    assert (status, len(project.used())) == (0, 2), said
    devices = [device for pair in project.used().values() for device in pair.split(",")]
    assert sorted(devices) == sorted(device.uuid for device in cudawrap.devices())


def test_a_count_that_cannot_be_met_is_refused_with_the_reason(project: Project) -> None:
    for words, reason in (
        (["-n3", "--gpu-count=2"], "3 workers with 2 devices each, and 4 devices for all (hint: -n 2, or --gpu-share=auto"),
        (["-n1", "--gpu-count=5"], "1 worker with 5 devices each, and 4 devices for all (hint: --gpu-count=4 at most)"),
        (["--gpu-count=0"], "--gpu-count: `0` is not a number of devices"),
        (["-n", "auto", "--gpu-count=two"], "--gpu-count: `two` is not a number of devices"),
    ):
        status, said = project.pytest(*words)
        assert (status, reason in said) == (4, True), said
    assert project.used() == {}
