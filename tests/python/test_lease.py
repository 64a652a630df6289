"""One process: leases, the environment that they set, forks, errors, and CUDA that is in use already."""

import asyncio
import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import threading
import warnings
from typing import Any

import cudawrap
import pytest
from conftest import states, until
from cudawrap import _lease

VISIBLE = "CUDA_VISIBLE_DEVICES"


def test_the_version_is_the_workspaces() -> None:
    manifest = pathlib.Path(__file__).parents[2].joinpath("Cargo.toml").read_text()
    version = re.search(r'^version = "(.*)"$', manifest, re.MULTILINE)
    assert version and importlib.metadata.version("cudawrap") == version[1] == cudawrap.__version__


def test_a_lease_reserves_a_device_for_this_process_until_the_block_ends() -> None:
    with cudawrap.lease() as lease:
        [uuid] = lease.uuids
        assert os.environ[VISIBLE] == uuid
        [device] = [device for device in cudawrap.devices() if device.uuid == uuid]
        assert (device.state, device.free) == ("reserved", False)
        [holder] = device.holders
        assert (holder.kind, holder.uid, holder.hold) == ("reservation", os.getuid(), True)
        assert states().count("free") == 3
    assert VISIBLE not in os.environ
    assert states().count("free") == 4, "release() returns when the device is free"
    lease.release()  # once more does nothing


def test_leases_of_one_name_are_shown_under_it() -> None:
    with cudawrap.lease(tag="night-7", env=False), cudawrap.lease(tag="night-7", env=False):
        shown = [holder.tag for device in cudawrap.devices() for holder in device.holders]
        assert shown == ["night-7", "night-7"]
    assert states().count("free") == 4


def test_the_variable_becomes_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    grant = ",".join(device.uuid for device in cudawrap.devices()[:2])
    monkeypatch.setenv(VISIBLE, grant)
    with cudawrap.lease() as one, cudawrap.lease() as other:
        assert sorted([*one.uuids, *other.uuids]) == sorted(grant.split(",")), "both inside the grant, and different"
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease()
        assert os.environ[VISIBLE] == other.uuids[0]
        one.release()
        assert os.environ[VISIBLE] == other.uuids[0], "the other lease goes on"
    assert os.environ[VISIBLE] == grant


def test_what_the_program_sets_itself_is_a_grant_and_stays() -> None:
    lease = cudawrap.lease()
    [named, *_] = [device.uuid for device in cudawrap.devices() if device.uuid not in lease.uuids]
    os.environ[VISIBLE] = named
    try:
        with cudawrap.lease() as inner:
            assert inner.uuids == (named,)
        assert os.environ[VISIBLE] == named
        lease.release()
        assert os.environ[VISIBLE] == named
    finally:
        del os.environ[VISIBLE]
        lease.release()


def test_a_released_lease_is_not_entered_again() -> None:
    with cudawrap.lease(env=False) as lease:
        pass
    with pytest.raises(cudawrap.CudawrapError, match="has been released"):
        lease.__enter__()


def reap(*_: object) -> None:
    """A handler that takes the exit status of every child, also of those that others wait for."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@pytest.mark.parametrize("handler", [signal.SIG_IGN, reap], ids=["ignored", "reaped"])
def test_no_status_is_lost_where_the_program_takes_it(handler: object) -> None:
    before = signal.signal(signal.SIGCHLD, handler)  # type: ignore[arg-type]
    try:
        with cudawrap.lease(count=4, env=False) as lease:
            for _ in range(20):
                assert not lease.wanted
                with pytest.raises(cudawrap.NoDeviceFree, match="no free device"):
                    cudawrap.lease()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_env_false_leaves_the_environment_alone() -> None:
    before = dict(os.environ)
    with cudawrap.lease(count=2, env=False) as lease:
        assert len(set(lease.uuids)) == 2
        assert dict(os.environ) == before


def test_a_share_tells_frameworks_their_part_and_releases_nothing_else() -> None:
    with cudawrap.lease(share="1/2") as one:
        assert os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.45"
        others = [cudawrap.lease(share=0.5, env=False) for _ in range(7)]
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease(share="50%")
        [same] = [other for other in others if other.uuids == one.uuids]
        one.release()
        [device] = [device for device in cudawrap.devices() if device.uuid == same.uuids[0]]
        assert device.share_used == 0.5, "the other half of the device is still reserved"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ
    for other in others:
        other.release()


def test_a_forked_child_cannot_release_its_parents_lease() -> None:
    lease = cudawrap.lease()
    child = os.fork()
    if child == 0:
        with lease:
            pass
        lease.release()
        os._exit(0 if os.environ[VISIBLE] == lease.uuids[0] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert states().count("reserved") == 1
    lease.release()


def test_a_child_that_is_forked_while_a_thread_leases_can_lease() -> None:
    # What a thread of the parent holds at that instant is held by nobody in the child.
    with _lease._variables._guard:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            with cudawrap.lease():
                os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_that_lease_at_once_have_different_devices() -> None:
    leases: list[cudawrap.Lease] = []
    refused: list[cudawrap.CudawrapError] = []

    def take() -> None:
        try:
            leases.append(cudawrap.lease())
        except cudawrap.NoDeviceFree as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len({lease.uuids for lease in leases}), len(leases), len(refused)) == (4, 4, 2)
    for lease in leases:
        lease.release()
    assert VISIBLE not in os.environ


def test_waiting_in_the_queue_brings_the_next_device() -> None:
    full = cudawrap.lease(count=4, env=False)
    with pytest.raises(cudawrap.NoDeviceFree):
        cudawrap.lease(wait=0.2)
    timer = threading.Timer(0.3, full.release)
    timer.start()
    with cudawrap.lease(wait="20") as lease:
        assert lease.uuids[0] in full.uuids
    timer.join()


def test_an_interrupt_while_waiting_leaves_nothing() -> None:
    with cudawrap.lease(count=4, env=False):
        script = "import cudawrap; print('waits', flush=True); cudawrap.lease(wait=True)"
        program = [sys.executable, "-c", script]
        waiter = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waiter.stdout and waiter.stdout.readline() == "waits\n"
        until(lambda: '"waiting":1' in listing(), "it waits")
        waiter.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in waiter.communicate(timeout=20)[1]
        until(lambda: '"waiting":0' in listing(), "it waits no more")


def listing() -> str:
    return subprocess.check_output(["getgpu", "--list", "--json"], text=True)


def test_a_killed_process_gives_its_device_back() -> None:
    script = "import cudawrap, time; cudawrap.lease(); print('has', flush=True); time.sleep(600)"
    program = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert program.stdout and program.stdout.readline() == "has\n"
    assert states().count("reserved") == 1
    program.kill()
    program.communicate()
    until(lambda: states().count("free") == 4, "its device is free again", 2.0)


def test_each_status_has_its_exception(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    with cudawrap.lease(count=4, env=False):
        with pytest.raises(cudawrap.NoDeviceFree, match=r"^no free device: 4 of 4 in use ") as none:
            cudawrap.lease()
    assert none.value.hint == "wait=True joins the queue", "in Python's words"
    with pytest.raises(cudawrap.UsageError, match="--share"):
        cudawrap.lease(share=2)
    with pytest.raises(cudawrap.NoSuchDevice, match="5 devices wanted: only 4 such devices exist here"):
        cudawrap.lease(count=5)
    with pytest.raises(cudawrap.NoSuchDevice, match="no device of the request"):
        cudawrap.lease(profile="7g.1tb")
    with pytest.raises(cudawrap.NoSuchDevice, match="4 not of the model asked for"):
        cudawrap.lease(model=["H100", "H200"])
    with cudawrap.lease(model="a100", env=False):
        assert states().count("reserved") + states().count("leased") == 1
    lock = os.environ["GETGPU_LOCK"]
    with monkeypatch.context() as changed:
        tmp_path.joinpath("lock").write_text("")
        changed.setenv("GETGPU_LOCK", str(tmp_path / "lock"))
        with pytest.raises(cudawrap.LockUnusable, match=str(tmp_path)):
            cudawrap.lease()
    assert os.environ["GETGPU_LOCK"] == lock


@pytest.mark.usefixtures("other_users")
def test_the_sites_limit_has_its_own_exception() -> None:
    config = pathlib.Path(os.environ["GETGPU_CONFIG"])
    before = config.read_text()
    config.write_text(before + "max_per_user = 1\n")
    try:
        program = [sys.executable, "-c", LIMITED]
        done = subprocess.run(program, user=1001, group=1001, extra_groups=[], check=False, cwd="/")
    finally:
        config.write_text(before)
    assert done.returncode == 0


LIMITED = """
import cudawrap
with cudawrap.lease():
    try:
        cudawrap.lease()
    except cudawrap.LimitReached as error:
        assert str(error).startswith("you hold 1 of at most 1: MIG-"), error
    else:
        raise SystemExit(1)
"""


def test_a_sick_driver_is_a_driver_error(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("SIM_NODE", str(tmp_path))
    with pytest.raises(cudawrap.DriverError):
        cudawrap.lease()
    monkeypatch.undo()


IN_USE = """
import ctypes, cudawrap
driver = ctypes.CDLL("libcuda.so.1")
cudawrap.lease().release()
assert driver.cuInit(0) == 0
cudawrap.lease(env=False).release()
cudawrap.lease()
"""


def test_a_process_that_uses_cuda_already_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", IN_USE], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("cudawrap._errors.CudaInitialized: CUDA is initialised already in this process"), (
        done.stderr
    )
    assert "CDLL" not in done.stderr


def test_run_is_subprocess_run_under_cudawrap() -> None:
    program = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 3"]
    done = cudawrap.run(program, share="1/2", stdout=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stdout.strip() in [device.uuid for device in cudawrap.devices()]
    with cudawrap.lease(env=False) as lease:
        visible = ["printenv", VISIBLE]
        for part in (None, "1/2"):
            done = cudawrap.run(visible, share=part, stdout=subprocess.PIPE, text=True, check=True)
            assert done.stdout.strip() == lease.uuids[0], "the lease around it, though the environment has none"
        with cudawrap.lease() as inner:
            done = cudawrap.run(visible, stdout=subprocess.PIPE, text=True, check=True)
            assert done.stdout.strip() == inner.uuids[0], "the innermost lease"
    bare = {name: value for name, value in os.environ.items() if name != VISIBLE}
    with cudawrap.lease() as lease:
        done = cudawrap.run(visible, env=bare, stdout=subprocess.PIPE, text=True, check=True)
        assert done.stdout.strip() == lease.uuids[0], "an environment that was copied before"
    all_devices = cudawrap.lease(count=4, env=False)
    try:
        done = cudawrap.run(["true"], stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr.split(":")[:2]) == (75, ["cudawrap", " no free device"])
    finally:
        all_devices.release()
    with cudawrap.lease() as lease:
        done = cudawrap.run(["printenv", VISIBLE], stdout=subprocess.PIPE, text=True, check=True)
        assert done.stdout.strip() == lease.uuids[0], "inside a lease it runs on its device"
    with pytest.raises(TypeError):
        cudawrap.run("true")


def test_programs_of_the_site_come_first_and_relative_entries_of_path_never(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    from cudawrap import _programs

    def program(directory: str) -> pathlib.Path:
        path = tmp_path / directory / "getgpu"
        path.parent.mkdir()
        path.write_text("#!/bin/sh\nexit 4\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    wheel, site = program("wheel"), program("site")
    monkeypatch.setattr(_programs, "_carried", lambda: {"getgpu": wheel})
    monkeypatch.setattr(_programs, "SITE_DIRECTORIES", ())
    monkeypatch.chdir(site.parent)
    assert _programs.find("getgpu", f"{wheel.parent}:{site.parent}") == str(site)
    assert _programs.find("getgpu", f".::{wheel.parent}") == str(wheel)
    monkeypatch.setattr(_programs, "_carried", dict)
    with pytest.raises(cudawrap.ProgramMissing):
        _programs.find("getgpu", ".")


def test_what_getgpu_says_besides_becomes_one_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(pathlib.Path(os.environ["GETGPU_CONFIG"]).read_text() + 'max_hold = "1h"\n')
    monkeypatch.setenv("GETGPU_CONFIG", str(config))
    with pytest.warns(cudawrap.CudawrapWarning, match="max_hold") as told:
        cudawrap.lease().release()
    assert told[0].filename == __file__, "the line of the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cudawrap.lease().release()
    monkeypatch.undo()


def test_a_lease_says_whether_it_is_active_and_works_in_async_code() -> None:
    async def inside() -> cudawrap.Lease:
        async with cudawrap.lease(env=False) as lease:
            assert lease.is_active and states().count("reserved") == 1
            return lease

    assert not asyncio.run(inside()).is_active
    assert states().count("free") == 4


def test_a_gpu_and_a_policy_are_chosen() -> None:
    with cudawrap.lease(gpu=0, policy="first") as lease:
        assert lease.uuids == (cudawrap.devices()[0].uuid,)
    with pytest.raises(cudawrap.NoSuchDevice):
        cudawrap.lease(gpu=7)


def test_the_module_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "cudawrap"], stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    status, text = said()
    assert (status, text.splitlines()[-1]) == (0, "devices: 4, of them free: 4"), text
    assert f"getgpu {cudawrap.__version__}" in text
    with monkeypatch.context() as changed:
        changed.setenv("LD_LIBRARY_PATH", "/nothing")
        status, text = said()
    assert (status, "devices: no NVIDIA driver" in text) == (1, True), text


OTHER_SYSTEM = """
import asyncio, os, secrets, subprocess, sys, threading
sys.platform = "darwin"
del os.register_at_fork
import cudawrap
try:
    cudawrap.lease()
except cudawrap.ProgramMissing as error:
    assert str(error) == "cudawrap needs Linux, and this is darwin", error
else:
    raise SystemExit("leased")
"""


def test_elsewhere_it_can_be_imported_and_says_that_it_needs_linux() -> None:
    subprocess.run([sys.executable, "-c", OTHER_SYSTEM], check=True)


def test_a_lease_says_whether_another_call_waits() -> None:
    waiter = "cudawrap --quiet --wait=30 -- true"

    def queue() -> str:
        return subprocess.run(["getgpu", "--queue"], capture_output=True, text=True, check=True).stdout

    with cudawrap.lease(count=4, env=False) as lease:
        own = subprocess.Popen(waiter.split())
        until(lambda: waiter in queue(), "a program of this process waits")
        assert not lease.wanted
        # The shell exits at once, and leaves it to another process.
        subprocess.run(f"setsid {waiter} &", shell=True, check=True)
        until(lambda: lease.wanted, "another call waits")
    assert not lease.wanted, "released"
    assert own.wait(20) == 0
    until(lambda: waiter not in queue(), "both have run")


def test_a_worker_leases_once() -> None:
    with cudawrap.lease(once=True) as first:
        pass
    # What a second task of the same worker finds.
    with cudawrap.lease(once=True) as second:
        assert second is first and os.environ[VISIBLE] == first.uuids[0]
    assert states().count("reserved") == 1, "leaving the block keeps it"
    with pytest.raises(cudawrap.CudawrapError, match="with other arguments"):
        cudawrap.lease(2, once=True)
    first.release()
    assert VISIBLE not in os.environ
    with cudawrap.lease(once=True) as third:
        assert third is not first
    third.release()


def test_a_refusal_says_what_the_process_holds() -> None:
    with cudawrap.lease(4) as all_of_them, pytest.raises(cudawrap.NoDeviceFree) as refused:
        cudawrap.lease()
    assert f"this process holds {','.join(all_of_them.uuids)}" in refused.value.message
    assert refused.value.hint == "lease(once=True) gives a process the same lease again"


def test_a_grant_can_be_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = [device.uuid for device in cudawrap.devices()]
    monkeypatch.setenv(VISIBLE, first)
    with cudawrap.lease() as inside:
        assert inside.uuids == (first,)
        with pytest.raises(cudawrap.NoDeviceFree):
            cudawrap.lease()
        with cudawrap.lease(ignore_grant=True, policy="first") as outside:
            assert outside.uuids == (second,)


def test_a_lease_after_the_forkserver_is_refused(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing, cudawrap
def forked():
    with cudawrap.lease():
        print("forked", flush=True)
def main():
    worker = multiprocessing.get_context("forkserver").Process(target=print)
    worker.start(); worker.join()
    try:
        cudawrap.lease()
    except cudawrap.CudaInitialized as error:
        print(error, flush=True)
    worker = multiprocessing.get_context("fork").Process(target=forked)
    worker.start(); worker.join()
    with cudawrap.lease(env=False):
        print("leased")
if __name__ == "__main__":
    main()
""")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert "the forkserver of multiprocessing runs already" in said, said
    assert "forked" in said.split() and "leased" in said.split(), said


COMES_BACK = """
import json, os, sys, cudawrap
words = json.loads(sys.argv[1])
leases = [cudawrap.lease(wait="20s", **words.pop(0)) for _ in range(2)]
reserved = [device.uuid for device in cudawrap.devices() if device.state == "reserved"]
assert sorted(lease.uuids[0] for lease in leases) == sorted(reserved), reserved
print(os.environ["CUDA_VISIBLE_DEVICES"], *(lease.uuids[0] for lease in leases), flush=True)
if words:
    os.execv(sys.executable, [sys.executable, "-c", os.environ["AGAIN"], json.dumps(words)])
[lease.release() for lease in leases]
print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("PYTHON_CUDAWRAP_LEASES"))
"""
STAYS = """
import os, sys
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
if len(sys.argv) > 1:
    os.execv(sys.executable, [sys.executable, "-c", os.environ["AGAIN"]])
"""


def test_a_program_that_executes_itself_again_leases_again() -> None:
    def run(script: str, argument: str, *before: str) -> list[str]:
        words = [*before, sys.executable, "-c", script, argument]
        done = subprocess.run(words, env={**os.environ, "AGAIN": script}, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    # Two leases each time; at the third one asks for something else.
    words: list[dict[str, Any]] = [{}, {}, {}, {}, {"min_memory": "1G"}, {}]
    first, second, third, left = run(COMES_BACK, json.dumps(words))
    assert first == second
    assert third.split()[0] == third.split()[2] == first.split()[2], "the other one is as it was"
    assert left == "None None"
    first, second = run(STAYS, "again", "cudawrap", "--")
    assert first == second


LOADED_ANEW = """
import sys, cudawrap
first = cudawrap.lease()
for name in [name for name in sys.modules if name.partition(".")[0] == "cudawrap"]:
    del sys.modules[name]
import cudawrap
assert cudawrap.lease(ignore_grant=True).uuids != first.uuids
"""


def test_a_package_that_is_loaded_anew_leases_another_device() -> None:
    subprocess.run([sys.executable, "-c", LOADED_ANEW], check=True)


def test_what_the_first_of_two_leases_did_not_set_goes_with_the_second() -> None:
    with cudawrap.lease(), cudawrap.lease(share="1/2"):
        assert "XLA_PYTHON_CLIENT_MEM_FRACTION" in os.environ
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ and VISIBLE not in os.environ


def test_programs_below_a_lease_are_told_nothing_of_the_packages_own_variable() -> None:
    with cudawrap.lease():
        done = subprocess.run(["cudawrap", "--", "true"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
