"""What a program leaves in its environment for the one that its process executes next (os.execv): the leases it has.

The kernel puts the stack of a process at another random place whenever it executes a program (execve(2), and startstack in
proc_pid_stat(5)). Where the place differs and pid and start do not, this is that next program.
"""

from __future__ import annotations

import contextlib
import json
import os

# A name that begins with CUDAWRAP_ would be taken for a setting.
_NAME = "PYTHON_CUDAWRAP_LEASES"

# For each tag the variables that its lease has set.
Set = dict[str, dict[str, str]]
# What the variables were before the first lease.
Original = dict[str, "str | None"]


def leave(leases: Set, original: Original) -> None:
    """Says which leases there are; without any nothing is left behind."""
    if leases:
        os.environ[_NAME] = json.dumps([_process(), leases, original])
    else:
        os.environ.pop(_NAME, None)


def found() -> tuple[Set, Original]:
    """What the program before this one has left; nothing the second time, and in other processes."""
    leases: Set = {}
    original: Original = {}
    # Anything may stand in a variable.
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        (pid, start, stack), left, before = json.loads(os.environ.get(_NAME, "null"))
        own_pid, own_start, own_stack = _process()
        if (pid, start) == (own_pid, own_start) and stack != own_stack:
            leases, original = left, before
            leave(leases, original)
    return leases, original


def _process() -> tuple[int, str, str]:
    """This process's pid and start, and where its stack is."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            # The name may have blanks and parentheses itself; the third field follows it.
            fields = stat.read().rpartition(b")")[2].decode().split()
    except OSError:
        return os.getpid(), "", ""
    return os.getpid(), fields[19], fields[25]
