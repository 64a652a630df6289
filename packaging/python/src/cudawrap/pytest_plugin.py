"""Plugin for pytest: with --gpu-lease each process that runs tests leases a device before it collects them.

Under pytest-xdist these are the workers, else pytest itself. Without the option a process leases one at the first test
that has the marker `gpu` or asks for the fixture `gpu_lease`, and none if there is no such test.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from . import DriverError, Lease, NoDeviceFree, ProgramMissing, _programs, devices, lease
from ._errors import CudawrapError
from ._options import Wait

# A worker that xdist starts for one that crashed: the kernel may still be closing the files of that one.
REPLACEMENT_WAIT = 10
# Options with which pytest runs no test.
_NO_TESTS = ("help", "version", "collectonly", "markers", "showfixtures", "show_fixtures_per_test")
_lease = pytest.StashKey[Lease]()
# The arguments of lease() in a hint, and the options that stand for them here.
_OPTIONS = (
    (r"\bwait=True\b", "--gpu-lease-wait=forever"),
    (r'\bwait="([^"]*)"', r"--gpu-lease-wait=\1"),
    (r'\bshare="([^"]*)"', r"--gpu-share=\1"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, each also as an ini option."""
    group = parser.getgroup("gpu-lease", "a GPU for each process that runs tests (cudawrap)")
    group.addoption("--gpu-lease", action="store_true", help="lease a device before tests are collected")
    group.addoption(
        "--gpu-share",
        metavar="SHARE",
        help="lease a part of one: 1/2, 10G; auto: an even part if there are more workers than devices",
    )
    group.addoption("--gpu-count", metavar="N", help="lease so many devices, or parts of so many, for each process")
    group.addoption(
        "--gpu-required",
        action="store_true",
        help="tests with the marker gpu fail where there is no driver, instead of being skipped",
    )
    group.addoption(
        "--gpu-lease-wait",
        metavar="TIME",
        help="wait that long for devices that others use (30, 1.5m, forever)",
    )
    parser.addini("gpu_lease", "as --gpu-lease: 1, a share, or auto", default="")
    parser.addini("gpu_count", "as --gpu-count", default="")
    parser.addini("gpu_lease_wait", "as --gpu-lease-wait", default="")


def _share(config: pytest.Config) -> str:
    """What each process leases: "1" for a whole device, a part, or "auto"."""
    ini = config.getini("gpu_lease")
    return config.getoption("--gpu-share") or ("1" if ini in ("", "0") else ini)


def _count(config: pytest.Config) -> int:
    """How many devices each process leases."""
    text = config.getoption("--gpu-count") or config.getini("gpu_count") or "1"
    if not re.fullmatch("[1-9][0-9]{0,3}", text):
        raise pytest.UsageError(f"--gpu-count: `{text}` is not a number of devices")
    return int(text)


def _at_start(config: pytest.Config) -> bool:
    """Whether a device is leased before tests are collected; to list tests none is."""
    options = ("--gpu-lease", "--gpu-share", "--gpu-count")
    asked = any(config.getoption(option) for option in options)
    asked = asked or config.getini("gpu_lease") not in ("", "0")
    return bool(asked) and not any(getattr(config.option, name, False) for name in _NO_TESTS)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leases; in xdist's controller, which runs no tests, only checks that each worker can have its part."""
    config.addinivalue_line("markers", "gpu: the test needs a device, which is leased at the first such test")
    if not _at_start(config):
        return
    try:
        if _is_worker() or not _is_controller(config):
            _leased(config)
        else:
            _check(config, _share(config))
    except (DriverError, ProgramMissing) as error:
        # Tests that need no device can run, and those with the marker say why they do not.
        if config.getoption("--gpu-required"):
            raise pytest.UsageError(f"--gpu-lease: {_said(error)}") from None
    except CudawrapError as error:
        if not _is_worker():
            raise pytest.UsageError(f"--gpu-lease: {_said(error)}") from None
        config.pluginmanager.register(_Failed(f"--gpu-lease: {_worker_id()}: {_said(error)}"))


def _said(error: CudawrapError) -> str:
    """The reason, and the hint with the options of this plugin."""
    text = str(error)
    for argument, option in _OPTIONS:
        text = re.sub(argument, option, text)
    return text


def _leased(config: pytest.Config) -> Lease:
    """The lease of this process, made at the first call."""
    held = config.stash.get(_lease, None)
    if held is None:
        share, count = _share(config), _count(config)
        if _is_worker():
            held = _worker_lease(config, share, count)
        else:
            held = lease(count, share=None if share in ("1", "auto") else share, wait=_wait(config))
        config.stash[_lease] = held
    return held


def _device_for_test(config: pytest.Config) -> Lease:
    """The same in a test: without a driver the test is skipped, unless --gpu-required."""
    try:
        return _leased(config)
    except CudawrapError as error:
        failed = error
    # Outside the handler, so that pytest does not show the exception with the words of lease() above this line.
    reason = f"gpu: {_said(failed)}"
    if isinstance(failed, (DriverError, ProgramMissing)) and not config.getoption("--gpu-required"):
        pytest.skip(reason)
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def gpu_lease(request: pytest.FixtureRequest) -> Lease:
    """The lease of the process that runs the test."""
    return _device_for_test(request.config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A device for a test with the marker, once pytest has found that it is not skipped."""
    if item.get_closest_marker("gpu"):
        _device_for_test(item.config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """The device, where there is one process only, or that there is none."""
    held = config.stash.get(_lease, None)
    if held:
        return f"gpu-lease: {','.join(held.uuids)}"
    return "gpu-lease: none" if _at_start(config) and not _is_controller(config) else None


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


def _worker_lease(config: pytest.Config, share: str, count: int) -> Lease:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = _worker_id()[len("gw") :]
    wait = _wait(config)
    if wait is None and number.isdigit() and int(number) >= workers:
        wait = REPLACEMENT_WAIT
    return lease(count, share=_part(share, workers * count), wait=wait)


def _part(share: str, wanted: int) -> str | None:
    """What each is, of so many that the workers want together; None: a whole device."""
    if share != "auto":
        return None if share == "1" else share
    places = _places()
    each = -(-wanted // places) if places else 1
    return None if each == 1 else f"1/{each}"


def _places() -> int:
    """How many devices these workers may choose from, in use or not."""
    return sum(device.index is not None for device in devices())


def _check(config: pytest.Config, share: str) -> None:
    """Whole devices for more workers than there are devices: waiting would never end, since every worker keeps its
    device until all tests have run."""
    workers, count = len(getattr(config.option, "tx", None) or []), _count(config)
    places = _places()
    if share != "1" or workers * count <= places:
        return
    them = f"{places} device{'s' if places != 1 else ''}"
    if count == 1:
        reason = f"{workers} workers, and {them} for them"
    else:
        reason = f"{workers} worker{'s' if workers != 1 else ''} with {count} devices each, and {them} for all"
    if count > places:
        hint = f"--gpu-count={places} at most"
    else:
        hint = f"-n {places // count}, or --gpu-share=auto for an even part of a device for each worker"
    raise NoDeviceFree(reason, hint)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: Any) -> int | None:
    """`-n auto`: as many workers as find room now, at least one, which says why it finds none.

    Of workers with parts at most one for each CPU or device: small parts of large devices are many. What the
    variable of xdist says comes first, and with even parts any number of workers finds room.
    """
    share = _share(config)
    if not _at_start(config) or share == "auto" or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    part = [] if share == "1" else [f"--share={share}"]
    try:
        found = int(_programs.getgpu(["--count-free", *part])) // _count(config)
        if part and found > len(os.sched_getaffinity(0)):
            devices = int(_programs.getgpu(["--count-free"])) // _count(config)
            found = min(found, max(devices, len(os.sched_getaffinity(0))))
        return max(found, 1)
    except CudawrapError:
        return None  # pytest_configure says why
