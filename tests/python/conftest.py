"""Tests of the Python package, run by tests/suite/tests/recipes/python.rs in a sandbox: a simulated node with four MIG
devices, its own lock, and the real getgpu and cudawrap first in PATH.
"""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import cudawrap
import pytest

pytest_plugins = ["pytester"]


def states() -> list[str]:
    """The state of each device, in order."""
    return [device.state for device in cudawrap.devices()]


def until(condition: Callable[[], bool], what: str, limit: float = 20.0) -> None:
    """Waits for a condition; fails if it does not come true."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not within {limit} s: {what}: {cudawrap.devices()}"
        time.sleep(0.01)


def all_free() -> bool:
    return set(states()) == {"free"}


@functools.cache
def others_can_run() -> bool:
    """Whether root can run this Python as another user, who may not enter the directories that it is in."""
    if os.getuid() != 0:
        return False
    try:
        program = [sys.executable, "-c", "import cudawrap"]
        done = subprocess.run(program, user=1001, group=1001, extra_groups=[], check=False, cwd="/")
    except PermissionError:
        return False
    return done.returncode == 0


@pytest.fixture
def other_users() -> None:
    if not others_can_run():
        pytest.skip("not run as root, or other users cannot run this Python")


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins without a grant, and leaves every device free."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    until(all_free, "every device is free again", 5.0)
