"""The kernel provisioner, with real kernels started by jupyter_client, as notebook servers start them."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import cudawrap
import pytest
from conftest import states, until
from jupyter_client.manager import KernelManager

DEVICE = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"


@pytest.fixture(autouse=True)
def kernelspec(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernelspec that says nothing of devices; the default provisioner is the package's."""
    write("plain", tmp_path, {})
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", "cudawrap")


def write(name: str, place: pathlib.Path, metadata: dict[str, Any]) -> None:
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
        "metadata": metadata,
    }
    path = place / "kernels" / name / "kernel.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(spec))


class Kernel:
    """A kernel that runs, and a client of it."""

    def __init__(self, name: str = "plain") -> None:
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, interrupt: bool = False) -> str:
        """Runs a cell; gives what it prints, or the name of its exception."""
        said: list[str] = []

        def listen(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                said.append(message["content"]["text"])
                if interrupt:
                    self.manager.interrupt_kernel()

        reply = self.client.execute_interactive(code, output_hook=listen, timeout=60)["content"]
        # A line may come in two messages.
        return str(reply.get("ename") or "".join(said).strip())

    def restart(self, now: bool) -> None:
        self.manager.restart_kernel(now=now)
        self.client.wait_for_ready(timeout=60)

    def close(self) -> None:
        self.manager.shutdown_kernel(now=True)
        self.client.stop_channels()


@contextlib.contextmanager
def kernel(name: str = "plain") -> Iterator[Kernel]:
    running = Kernel(name)
    try:
        yield running
    finally:
        running.close()


def test_each_kernel_has_a_device_until_it_is_shut_down() -> None:
    with kernel() as one, kernel() as other:
        devices = [one.run(DEVICE), other.run(DEVICE)]
        assert len(set(devices)) == 2
        assert set(devices) < {device.uuid for device in cudawrap.devices()}
        assert states().count("leased") == 2
        assert one.run("import time; print('x', flush=True); time.sleep(100)", interrupt=True) == "KeyboardInterrupt"
        assert one.run(DEVICE) == devices[0], "an interrupted kernel keeps its device"
        os.kill(int(other.run("import os; print(os.getpid())")), signal.SIGKILL)
        until(lambda: states().count("reserved") == 1, "its device waits for a restart")
        other.restart(now=True)
        assert other.run(DEVICE) == devices[1]
    assert states() == ["free"] * 4


def test_a_kernel_that_restarts_keeps_its_device() -> None:
    with kernel() as one:
        device = one.run(DEVICE)
        # All others are taken, and somebody waits for this one.
        with cudawrap.lease(count=3, env=False):
            waiter = subprocess.Popen(["cudawrap", "--wait", "--", "true"])
            for now in (False, True):
                one.run("kept = 1")
                one.restart(now)
                assert one.run("print(kept)") == "NameError"
                assert one.run(DEVICE) == device
                assert waiter.poll() is None
        assert waiter.wait(20) == 0


def test_without_a_free_device_the_notebook_says_who_has_them() -> None:
    with cudawrap.lease(count=4, env=False):
        with pytest.raises(cudawrap.NoDeviceFree, match=r"^no free device: 4 of 4 in use \(.* 4\)"):
            Kernel()
    with kernel() as later:
        assert later.run(DEVICE).startswith("MIG-")


def test_a_kernelspec_chooses_share_and_the_first_cuda_call(tmp_path: pathlib.Path) -> None:
    write("local", tmp_path, {"kernel_provisioner": {"provisioner_name": "local-provisioner"}})
    for name, config in (("half", {"share": "1/2"}), ("lazy", {"lazy": True})):
        write(name, tmp_path, {"kernel_provisioner": {"provisioner_name": "cudawrap", "config": config}})
    with kernel("half") as half:
        assert half.run("import os; print(os.environ['XLA_PYTHON_CLIENT_MEM_FRACTION'])") == "0.45"
        assert states().count("shared") == 1
    with kernel("lazy") as lazy:
        assert states() == ["free"] * 4
        assert lazy.run("import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))") == "0"
        assert states().count("leased") == 1
    with kernel("local") as local:
        assert local.run(DEVICE) == "None"
        assert states() == ["free"] * 4


def test_without_the_package_a_kernel_has_its_device_from_cudawrap(tmp_path: pathlib.Path) -> None:
    write("wrapped", tmp_path, {"kernel_provisioner": {"provisioner_name": "local-provisioner"}})
    path = tmp_path / "kernels/wrapped/kernel.json"
    spec = json.loads(path.read_text())
    path.write_text(json.dumps({**spec, "argv": ["cudawrap", "--", *spec["argv"]]}))
    with kernel("wrapped") as one, kernel("wrapped") as other:
        devices = [one.run(DEVICE), other.run(DEVICE)]
        assert len(set(devices)) == 2
        assert states().count("leased") == 2
        assert one.run("import time; print('x', flush=True); time.sleep(100)", interrupt=True) == "KeyboardInterrupt"
        assert one.run(DEVICE) == devices[0], "an interrupted kernel keeps its device"
        one.restart(now=False)
        assert one.run(DEVICE).startswith("MIG-")
        os.kill(int(other.run("import os; print(os.getpid())")), signal.SIGKILL)
        until(lambda: states().count("leased") == 1, "a killed kernel has given its device back")
    until(lambda: states() == ["free"] * 4, "both have given their devices back")


USER = f"""
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name="plain")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
client.execute_interactive({DEVICE!r}, timeout=60)
input()
manager.shutdown_kernel(now=True)
"""


@pytest.mark.usefixtures("other_users")
def test_kernels_of_two_users_have_different_devices(tmp_path: pathlib.Path) -> None:
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    users = []
    for uid in (1001, 1002):
        home = tmp_path / str(uid)
        home.mkdir()
        os.chown(home, uid, uid)
        own = {"HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "IPYTHONDIR": str(home / "ipython")}
        user = subprocess.Popen(
            [sys.executable, "-c", USER],
            env={**os.environ, **own},
            user=uid,
            group=uid,
            extra_groups=[],
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        users.append(user)
    lines = [user.stdout.readline().strip() for user in users if user.stdout]
    assert len(set(lines)) == 2 and all(line.startswith("MIG-") for line in lines), lines
    holders = {holder.uid for device in cudawrap.devices() for holder in device.holders}
    assert holders == {1001, 1002}
    for user in users:
        user.communicate("\n", timeout=60)


def test_a_kernel_that_cannot_start_leaves_no_device(tmp_path: pathlib.Path) -> None:
    write("missing", tmp_path, {})
    spec = tmp_path / "kernels/missing/kernel.json"
    spec.write_text(spec.read_text().replace(sys.executable, "/nonexistent/python"))
    with pytest.raises(FileNotFoundError):
        Kernel("missing")
    with pytest.raises(ValueError):
        KernelManager(kernel_name="plain").start_kernel(extra_arguments=["a\0b"])
    assert states() == ["free"] * 4


def test_jupyter_run_says_in_one_line_that_no_device_is_free(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DEVICE)
    with cudawrap.lease(4, env=False):
        run = [sys.executable, "-m", "jupyter_client.runapp", "--kernel=plain", str(script)]
        done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "cudawrap: no free device: 4 of 4 in use" in done.stderr
    assert "Traceback" not in done.stderr, done.stderr
