"""A program on a free device: subprocess.run with cudawrap before the program.

The program holds its lease itself, so it also outlives this process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from . import _programs
from ._lease import VISIBLE, current, visible
from ._options import Share, Wait, choosing


def run(
    args: Sequence[str | os.PathLike[str]],
    *,
    count: int | str = 1,
    share: Share | None = None,
    min_memory: str | int | None = None,
    profile: str | Sequence[str] | None = None,
    wait: Wait | None = None,
    gpu: int | str | None = None,
    policy: str | None = None,
    model: str | Sequence[str] | None = None,
    prefer_model: str | Sequence[str] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Runs a program on a free device and gives what subprocess.run gives; `options` are those of subprocess.run.

    Exit status 75 means that no device is free and 125 that cudawrap failed; its line is on standard error. Inside a
    lease the program runs on a device of that lease, also in a block of `with lease(env=False)`, and where the
    environment in `options` has no CUDA_VISIBLE_DEVICES.
    """
    if isinstance(args, (str, bytes)) or options.get("shell"):
        raise TypeError("cudawrap.run() takes a list of words, and no shell")
    words = choosing(count, share, min_memory, profile, wait, gpu, policy, model, prefer_model)
    given = options.get("env")
    if current() is not None or given is not None:
        environment = dict(os.environ if given is None else given)
        devices = visible()
        if devices is not None and (current() is not None or VISIBLE not in environment):
            environment[VISIBLE] = devices
        options["env"] = environment
    return subprocess.run([_programs.find("cudawrap"), *words, "--", *args], **options)
