"""Finds getgpu and cudawrap, and calls getgpu.

The site's programs come before those in the wheel: only the site knows its lock and its settings.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from ._errors import CudawrapWarning, ProgramMissing, failure, read

SITE_DIRECTORIES = ("/usr/bin", "/usr/local/bin")
# Names the descriptor on which getgpu writes its exit status.
_STATUS_FD = "GETGPU_STATUS_FD"
_warned: set[str] = set()


def version() -> str:
    """The version of this package; "unknown" where it is not installed but lies in the path."""
    try:
        return importlib.metadata.version("cudawrap")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def _carried() -> dict[str, Path]:
    """The programs that came with this wheel, by name."""
    try:
        files = importlib.metadata.files("cudawrap") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    ours = [file for file in files if file.name in ("getgpu", "cudawrap")]
    programs = {file.name: Path(os.path.realpath(file.locate())) for file in ours}
    return {name: path for name, path in programs.items() if _executable(path)}


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def find(name: str, path: str | None = None) -> str:
    """Where a program is: in `path` (or PATH), in the site's directories, in the wheel."""
    if sys.platform != "linux":
        raise ProgramMissing(f"cudawrap needs Linux, and this is {sys.platform}")
    carried = _carried().get(name)
    search = os.environ.get("PATH", os.defpath) if path is None else path
    # An empty or relative entry means the working directory, which others may write to.
    directories = [entry for entry in search.split(os.pathsep) if os.path.isabs(entry)]
    for directory in [*directories, *SITE_DIRECTORIES]:
        program = Path(directory, name)
        if _executable(program) and Path(os.path.realpath(program)) != carried:
            return str(program)
    if carried is None:
        raise ProgramMissing(f"{name}: not found in PATH", "install getgpu on this node, or a wheel that has it")
    return str(carried)


def getgpu(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, wants_output: bool = False
) -> str:
    """Calls getgpu and gives its output; what it says besides becomes a warning, once for each text."""
    search = None if environment is None else environment.get("PATH")
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [find("getgpu", search), *arguments],
            env={**(os.environ if environment is None else environment), _STATUS_FD: str(writer)},
            pass_fds=[writer],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        status = _told(reader, done.returncode)
    finally:
        os.close(reader)
        os.close(writer)
    if status != 0:
        raise failure(status, done.stderr)
    if wants_output and not done.stdout.strip():
        # It was killed, and the program has reaped it.
        raise failure(0, done.stderr)
    for line in read(done.stderr).lines:
        # How long the call waited is no warning.
        if line not in _warned and not line.startswith(("waiting for ", "waited ")):
            _warned.add(line)
            warnings.warn(line, CudawrapWarning, stacklevel=_level())
    return done.stdout


def _told(reader: int, waited: int) -> int:
    """The exit status that getgpu has written before it exited.

    wait(2) tells none where the program reaps its children in a handler of SIGCHLD, or ignores that signal:
    subprocess gives 0 then. An older getgpu of the site writes nothing.
    """
    os.set_blocking(reader, False)
    try:
        return int(os.read(reader, 16))
    except (BlockingIOError, ValueError):
        return waited


def _level() -> int:
    """How many calls above `warnings.warn` the first one is that is not of this package."""
    level, frame = 1, sys._getframe(1)
    # Not one whose name only begins so.
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(f"{__package__}."):
        level, frame = level + 1, frame.f_back
    return level
