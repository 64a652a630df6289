"""The exceptions: one for each exit status of getgpu, with getgpu's own line as their text.

A line of getgpu is `getgpu: what, on which object: why`, and then maybe `getgpu: hint: what to do`.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class CudawrapWarning(UserWarning):
    """What getgpu says although it found a device, such as that other users are not excluded."""


class CudawrapError(RuntimeError):
    """No device: the reason, and in `hint` what can be done about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class NoDeviceFree(CudawrapError):
    """No device is free now, or none became free while waiting. Trying again later can help."""


class LimitReached(NoDeviceFree):
    """The site's max_per_user: this user holds as many devices as they may."""


class UsageError(CudawrapError, ValueError):
    """Wrong arguments or settings, such as `share=2`."""


class NoSuchDevice(CudawrapError):
    """No device of the request exists on this node, now or later."""


class DriverError(CudawrapError):
    """No NVIDIA driver on this node, or it failed or did not answer."""


class LockUnusable(CudawrapError):
    """The lock of the host cannot be used, so nothing is handed out."""


class ProgramMissing(CudawrapError):
    """getgpu or cudawrap is neither installed on this node nor in this package."""


class CudaInitialized(CudawrapError):
    """CUDA is in use already in this process, so CUDA_VISIBLE_DEVICES has no effect any more."""


class Said(NamedTuple):
    """What a program wrote to standard error, without its name before each line."""

    lines: list[str]
    hint: str | None


def read(stderr: str) -> Said:
    """Takes the program's name and the hints out of its lines."""
    lines: list[str] = []
    hint = None
    for line in stderr.splitlines():
        text = re.sub(r"^getgpu: ", "", line)
        if text.startswith("hint: "):
            hint = _for_python(text[len("hint: ") :])
        elif text:
            lines.append(text)
    return Said(lines, hint)


def failure(status: int, stderr: str) -> CudawrapError:
    """The exception for an exit status of getgpu and what it wrote."""
    lines, hint = read(stderr)
    message = lines[-1] if lines else f"getgpu ended with status {status} and said nothing"
    kind = _KINDS.get(status, CudawrapError)
    if kind is NoDeviceFree and message.startswith("you hold "):
        kind = LimitReached
    # Status 3 has two kinds: getgpu names the driver, NVML or its library if one of those failed.
    elif kind is NoSuchDevice and re.search(r"\bNVML\b|NVIDIA driver|^cannot load |^no device answers", message):
        kind = DriverError
    return kind(message, hint)


def _for_python(hint: str) -> str:
    """A hint with the arguments of lease() in the place of getgpu's options."""
    for option, argument in _ARGUMENTS:
        hint = re.sub(option, argument, hint)
    return hint


_ARGUMENTS = (
    (r", or use --ignore-grant,", ", or use ignore_grant=True,"),
    (r"--ignore-grant\b", "ignore_grant=True"),
    (r".*\bgetgpu --wait\b", "wait=True joins the queue"),
    (r"getgpu --list( --json)?\b", "cudawrap.devices()"),
    (r"--share[ =]([\d/.%A-Z]+)", r'share="\1"'),
    (r"--wait=([\w.]+)", r'wait="\1"'),
    (r"--wait\b", "wait=True"),
    (r"--min-memory\b", "min_memory"),
    (r"--(share|profile|model|count|policy)\b", r"\1"),
)
_KINDS: dict[int, type[CudawrapError]] = {
    1: NoDeviceFree,
    2: UsageError,
    3: NoSuchDevice,
    4: LockUnusable,
}
