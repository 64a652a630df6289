"""A program on a free device: subprocess.run with cudawrap before the program.

The program holds its lease itself, so it also outlives this process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from . import _programs
from ._lease import VISIBLE, current
from ._options import Share, Wait, choosing


def run(
    args: Sequence[str | os.PathLike[str]],
    *,
    count: int = 1,
    share: Share | None = None,
    min_memory: str | int | None = None,
    profile: str | Sequence[str] | None = None,
    wait: Wait | None = None,
    gpu: int | str | None = None,
    policy: str | None = None,
    model: str | Sequence[str] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Runs a program on a free device and gives what subprocess.run gives; `options` are those of subprocess.run.

    Exit status 75 means that no device is free and 125 that cudawrap failed; its line is on standard error. Inside a
    lease the program runs on a device of that lease, also in a block of `with lease(env=False)`.
    """
    if isinstance(args, (str, bytes)) or options.get("shell"):
        raise TypeError("cudawrap.run() takes a list of words, and no shell")
    words = choosing(count, share, min_memory, profile, wait, gpu, policy, model)
    lease = current()
    if lease is not None:
        options["env"] = {**(os.environ if options.get("env") is None else options["env"]), VISIBLE: ",".join(lease.uuids)}
    return subprocess.run([_programs.find("cudawrap"), *words, "--", *args], **options)
