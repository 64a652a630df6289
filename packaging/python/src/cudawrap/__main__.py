"""`python -m cudawrap`: what the package has found on this machine, and where."""

from __future__ import annotations

import os
import subprocess
import sys

from . import CudawrapError, __version__, _programs, devices


def _program(name: str) -> str:
    """Where a program is and which version it has, or why it cannot be used."""
    try:
        path = _programs.find(name)
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except (CudawrapError, OSError) as error:
        return str(error)
    return f"{path}: {(done.stdout or done.stderr).strip()}"


def main() -> int:
    """Prints it; the status is 1 where no device can be leased here."""
    print(f"cudawrap {__version__}: {os.path.dirname(__file__)}")
    print(f"Python {sys.version.split()[0]}: {sys.executable}")
    for name in ("getgpu", "cudawrap"):
        print(f"{name}: {_program(name)}")
    try:
        all_devices = devices()
    except CudawrapError as error:
        print(f"devices: {error}")
        return 1
    print(f"devices: {len(all_devices)}, of them free: {sum(device.free for device in all_devices)}")
    return 0


sys.exit(main())
