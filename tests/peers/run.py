"""`make peers`: the same black-box cases for this project and for others that start programs on free GPUs, on a simulated
node with four GPUs. Prints a table for docs/COMPARISON.md; words choose the ways whose names have them.

Each way is a line for a shell that starts JOB, a program that loads the driver's library (libcuda.so.1) and has a context
for a while. The simulated one notes programs that meet on a GPU, of which the second gets none.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

TOP = pathlib.Path(__file__).resolve().parents[2]
OTHER_USER = 65534
STARTS = 20

# A picker that asks NVML for the first GPU without a process, as scripts do.
PICK = (
    "import pynvml as n; n.nvmlInit(); "
    "free = [i for i in range(n.nvmlDeviceGetCount()) "
    "if not n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(i))]; print(free[0])"
)
GPUSTAT = (
    "import gpustat; print(min(gpustat.new_query(), key=lambda gpu: gpu.memory_used).index)"
)
# What it costs to ask NVML at all (tests/bench/client.c).
CLIENT = TOP / "target/peers/client"
# Name, package of PyPI, line.
WAYS = [
    ("a C client that asks NVML, and chooses nothing", None, f"{CLIENT} && JOB"),
    ("cudawrap --wait", None, "cudawrap --wait -- JOB"),
    ("$(getgpu --wait)", None, "d=$(getgpu --wait) && CUDA_VISIBLE_DEVICES=$d JOB"),
    ("gpu-gate run", "gpu-gate", "gpu-gate run --poll 0.2 --quiet -- JOB"),
    ("nvisel", "nvitop", "d=$(nvisel -n 1 2>/dev/null) && CUDA_VISIBLE_DEVICES=$d JOB"),
    ("a picker with gpustat", "gpustat", f'd=$(python -c "{GPUSTAT}") && CUDA_VISIBLE_DEVICES=$d JOB'),
    ("a picker with nvidia-ml-py", "nvidia-ml-py", f'd=$(python -c "{PICK}") && CUDA_VISIBLE_DEVICES=$d JOB'),
]


class Node:
    """A simulated node of its own, with a home and a place for locks."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.room = pathlib.Path(tempfile.mkdtemp(prefix="getgpu-peers."))
        built = TOP / "target/release"
        for name in ("lib", "lock", "node/running", "tmp"):
            (self.room / name).mkdir(parents=True)
        shutil.copy(TOP / "tests/sim/nodes/gpus4.toml", self.room / "node/node.toml")
        shutil.copy(TOP / "target/debug/libsim_nvml.so", self.room / "lib/libnvidia-ml.so.1")
        shutil.copy(TOP / "target/debug/libsim_cuda.so", self.room / "lib/libcuda.so.1")
        (self.room / "config.toml").touch()
        (self.room / "job").write_text(f'#!/bin/sh\necho $NUMBER >>{self.room}/tmp/begun\nexec "$@"\n')
        for place in (self.room, *self.room.rglob("*")):
            place.chmod(0o1777 if place.is_dir() else 0o666)
        (self.room / "config.toml").chmod(0o644)
        (self.room / "job").chmod(0o755)
        (self.room / "lock").chmod(0o755)
        path = [str(built), str(TOP / "target/debug"), str(pathlib.Path(sys.executable).parent), "/usr/bin:/bin"]
        self.environment = {
            "PATH": ":".join(path),
            "LD_LIBRARY_PATH": str(self.room / "lib"),
            "SIM_NODE": str(self.room / "node"),
            "GETGPU_LOCK": str(self.room / "lock/lock"),
            "GETGPU_CONFIG": str(self.room / "config.toml"),
            "HOME": str(self.room / "tmp"),
            "TMPDIR": str(self.room / "tmp"),
        }
        # As an installation by root leaves it.
        subprocess.run(["getgpu", "--count-free"], env=self.environment, stdout=subprocess.DEVNULL, check=True)

    def start(self, seconds: float, user: int | None = None, number: int = 0) -> subprocess.Popen[bytes]:
        """Starts a job in the way, of so many seconds, which notes its number where it begins."""
        job = f"{TOP}/target/debug/cuda init context sleep={seconds * 1000:.0f}"
        line = self.line.replace("JOB", f"{self.room}/job {job}")
        return subprocess.Popen(
            ["bash", "-c", line],
            env=self.environment | {"NUMBER": str(number)},
            cwd=self.room / "tmp",
            user=user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def count(self, log: str, word: str = "") -> int:
        """Lines of a log of the node that begin so."""
        try:
            return sum(line.startswith(word) for line in (self.room / "node" / log).read_text().splitlines())
        except FileNotFoundError:
            return 0

    def end(self, jobs: list[subprocess.Popen[bytes]], limit: float = 60.0) -> str:
        """What came of the jobs; what has not ended in time is killed."""
        end = time.monotonic() + limit
        for job in jobs:
            try:
                job.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        met = self.count("collisions.log")
        return f"{met} met, {self.count('runs.log', 'start')} of {len(jobs)} ran"

    def until_running(self, number: int, limit: float = 20.0) -> None:
        end = time.monotonic() + limit
        while self.count("runs.log", "start") < number and time.monotonic() < end:
            time.sleep(0.02)


def at_once(node: Node) -> str:
    """Twenty starts at once."""
    return node.end([node.start(1.0) for _ in range(STARTS)])


def two_users(node: Node) -> str:
    """Four starts of each of two users at once."""
    return node.end([node.start(1.0, user) for _ in range(4) for user in (None, OTHER_USER)])


def killed(node: Node) -> str:
    """Whether others come to a program whose starter was killed, while it goes on."""
    first = node.start(8.0)
    node.until_running(1)
    program = int(next((node.room / "node/runs.log").open()).split()[3])
    children = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    for pid in children:
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if os.getsid(pid) == first.pid and pid != program and "getgpu-hold" not in stat:
            os.kill(pid, signal.SIGKILL)
    first.wait()
    node.end([node.start(0.5) for _ in range(8)], 30.0)
    return f"{node.count('collisions.log')} met"


def sick(node: Node) -> str:
    """Twenty starts one after the other, where a GPU needs a reset: NVML says so, and CUDA cannot start there."""
    inventory = node.room / "node/node.toml"
    # Older drivers do not tell it.
    inventory.write_text(re.sub('driver = ".*"', 'driver = "580.65.06"', inventory.read_text()))
    (node.room / "node/faults.toml").write_text("[[health]]\ngpu = 0\nrecovery_action = 1\n")
    for _ in range(STARTS):
        node.end([node.start(0.0)])
    first = node.count("runs.log", "start") and (node.room / "node/runs.log").read_text()
    uuid = subprocess.run(
        ["getgpu", "0"], env=node.environment, capture_output=True, text=True, check=False
    ).stdout.strip()
    lost = sum(line.startswith("start") and line.split()[2] == uuid for line in str(first).splitlines())
    return f"{lost} of {STARTS}"


def order(node: Node) -> str:
    """Whether eight that wait for four GPUs in use begin in the order in which they came."""
    held = [node.start(5.0) for _ in range(4)]
    node.until_running(4)
    (node.room / "tmp/begun").unlink(missing_ok=True)
    waiting = []
    for number in range(8):
        waiting.append(node.start(0.4, number=number))
        time.sleep(0.3)
    node.end(held + waiting, 40.0)
    begun = node.room / "tmp/begun"
    numbers = [int(line) for line in begun.read_text().split()] if begun.exists() else []
    overtaken = sum(one > other for at, one in enumerate(numbers) for other in numbers[at + 1 :])
    return f"{len(numbers)} of 8 began, {overtaken} overtaken"


def cost(node: Node) -> str:
    """What a start takes, in milliseconds: the middle of eleven."""
    times = []
    for _ in range(11):
        began = time.monotonic()
        node.end([node.start(0.0)])
        times.append(time.monotonic() - began)
        time.sleep(0.05)
    return f"{sorted(times)[5] * 1000:.0f} ms"


CASES: list[tuple[str, Callable[[Node], str]]] = [
    (f"{STARTS} starts at once, four GPUs", at_once),
    ("two users, four starts each", two_users),
    ("the starter is killed, the program goes on", killed),
    ("a sick GPU: jobs lost", sick),
    ("eight wait for four GPUs", order),
    ("a start", cost),
]


def main() -> None:
    print("| way | version | " + " | ".join(name for name, _ in CASES) + " |")
    print("| --- " * (len(CASES) + 2) + "|")
    chosen = sys.argv[1:]
    for name, package, line in WAYS:
        if chosen and not any(word in name for word in chosen):
            continue
        try:
            version = importlib.metadata.version(package) if package else "this"
        except importlib.metadata.PackageNotFoundError:
            print(f"| `{name}` | not installed |" + " |" * len(CASES))
            continue
        cells = []
        for _, case in CASES:
            node = Node(line)
            cells.append(case(node))
            subprocess.run(["getgpu", "--release-all", "-q"], env=node.environment, check=False)
            shutil.rmtree(node.room, ignore_errors=True)
        print(f"| `{name}` | {version} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
