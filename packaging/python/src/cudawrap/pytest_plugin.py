"""Plugin for pytest: with --gpu-lease each process that runs tests leases a device before it collects them.

Under pytest-xdist these are the workers, else pytest itself. Without the option the plugin does nothing.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import pytest

from . import Lease, NoDeviceFree, devices, lease
from ._errors import CudawrapError
from ._options import Wait

# A worker that xdist starts for one that crashed: the kernel may still be closing the files of that one.
REPLACEMENT_WAIT = 10
_lease = pytest.StashKey[Lease]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, each also as an ini option."""
    group = parser.getgroup("gpu-lease", "a GPU for each process that runs tests (cudawrap)")
    group.addoption(
        "--gpu-lease",
        nargs="?",
        const="1",
        type=_share,
        metavar="SHARE",
        help="lease a device, or a part of one (1/2, 10G; auto: an even part if there are more workers than devices)",
    )
    group.addoption(
        "--gpu-lease-wait",
        metavar="TIME",
        help="wait that long for devices that others use (30, 1.5m, forever)",
    )
    parser.addini("gpu_lease", "as --gpu-lease: 1, a share, or auto", default="")
    parser.addini("gpu_lease_wait", "as --gpu-lease-wait", default="")


def _share(word: str) -> str:
    """Refuses a path, which argparse takes for the share in `pytest --gpu-lease tests/`."""
    if word != "auto" and not word[:1].isdigit():
        raise argparse.ArgumentTypeError(f"{word}: not a share: write --gpu-lease=1 before a path")
    return word


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leases; in xdist's controller, which runs no tests, only checks that each worker can have its part."""
    share = config.getoption("--gpu-lease") or config.getini("gpu_lease")
    if not share or share == "0" or config.option.help or config.option.version:
        return
    try:
        if _is_worker():
            config.stash[_lease] = _worker_lease(config, share)
        elif _is_controller(config):
            _check(config, share)
        else:
            config.stash[_lease] = lease(share=None if share in ("1", "auto") else share, wait=_wait(config))
    except CudawrapError as error:
        if not _is_worker():
            raise pytest.UsageError(f"--gpu-lease: {error}") from None
        config.pluginmanager.register(_Failed(f"--gpu-lease: {_worker_id()}: {error}"))


def pytest_report_header(config: pytest.Config) -> str | None:
    """The device, where there is one process only."""
    held = config.stash.get(_lease, None)
    return f"gpu-lease: {','.join(held.uuids)}" if held else None


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Gives the device back; if the process is killed, its device is free anyway."""
    held = config.stash.get(_lease, None)
    if held:
        held.release()


class _Failed:
    """In a worker without a device: no test is run, and the controller shows why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        session.shouldfail = self._reason
        raise session.Failed(self._reason)


def _worker_id() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "")


def _is_worker() -> bool:
    return bool(_worker_id())


def _is_controller(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "tx", None)) or getattr(config.option, "dist", "no") != "no"


def _wait(config: pytest.Config) -> Wait | None:
    wait = config.getoption("--gpu-lease-wait") or config.getini("gpu_lease_wait") or None
    return True if wait == "forever" else wait


def _worker_lease(config: pytest.Config, share: str) -> Lease:
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = _worker_id()[len("gw") :]
    wait = _wait(config)
    if wait is None and number.isdigit() and int(number) >= count:
        wait = REPLACEMENT_WAIT
    return lease(share=_part(share, count), wait=wait)


def _part(share: str, workers: int) -> str | None:
    """What one of so many workers leases; None: a whole device."""
    if share != "auto":
        return None if share == "1" else share
    places = _places()
    each = -(-workers // places) if places else 1
    return None if each == 1 else f"1/{each}"


def _places() -> int:
    """How many devices these workers may choose from, in use or not."""
    return sum(device.index is not None for device in devices())


def _check(config: pytest.Config, share: str) -> None:
    """Whole devices for more workers than there are devices: waiting would never end, since every worker keeps its
    device until all tests have run."""
    workers = len(getattr(config.option, "tx", None) or [])
    places = _places()
    if share == "1" and workers > places:
        raise NoDeviceFree(
            f"{workers} workers, and {places} device{'s' if places != 1 else ''} for them",
            f"-n {places}, or --gpu-lease=auto for an even part of a device for each worker",
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: Any) -> int | None:
    """`-n auto` with whole devices: as many workers as there are devices, if there are as many CPUs."""
    share = config.getoption("--gpu-lease") or config.getini("gpu_lease")
    try:
        return min(_places(), os.cpu_count() or 1) or None if share == "1" else None
    except CudawrapError:
        return None  # pytest_configure says why
