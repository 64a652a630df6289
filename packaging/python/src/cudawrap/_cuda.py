"""Whether CUDA is in use in this process, found out without importing anything and without starting CUDA.

The driver reads CUDA_VISIBLE_DEVICES once, in cuInit, so a variable that is set later has no effect.
"""

from __future__ import annotations

import ctypes
import os
import sys

_NOT_INITIALIZED = 3
_USERS = ("torch", "cupy", "jax", "tensorflow", "numba.cuda", "cuda.bindings", "cuda.cuda", "pycuda")


def initialized() -> str | None:
    """Names what has initialised CUDA here, or gives None if nothing has."""
    if not _driver_started() and not _torch_started():
        return None
    loaded = [name for name in _USERS if name in sys.modules]
    return ", ".join(loaded) if loaded else "a library of this process"


def forkserver_runs() -> bool:
    """Whether multiprocessing's forkserver is a child of this process: what it forks has the environment of its start."""
    module = sys.modules.get("multiprocessing.forkserver")
    pid = getattr(getattr(module, "_forkserver", None), "_forkserver_pid", None)
    try:
        return pid is not None and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False  # it has ended, or a forked process has this pid of its parent


def _driver_started() -> bool:
    """Asks the driver, if it is loaded: before cuInit every other call answers CUDA_ERROR_NOT_INITIALIZED."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        count = ctypes.c_int(0)
        return bool(driver.cuDeviceGetCount(ctypes.byref(count)) != _NOT_INITIALIZED)
    except (OSError, AttributeError):
        return False


def _torch_started() -> bool:
    """Asks PyTorch, which also knows of a start in the parent of a forked process."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    in_bad_fork = getattr(cuda, "_is_in_bad_fork", None)
    started = getattr(cuda, "is_initialized", None)
    return bool((started and started()) or (in_bad_fork and in_bad_fork()))
