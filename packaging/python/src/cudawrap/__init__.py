"""A free NVIDIA MIG device or GPU for every Python process on a shared node.

`lease()` reserves a device for this process, `run()` starts a program on one, `devices()` lists them.
"""

from ._devices import Device, Holder, Process, devices
from ._errors import (
    CudaInitialized,
    CudawrapError,
    CudawrapWarning,
    DriverError,
    LimitReached,
    LockUnusable,
    NoDeviceFree,
    NoSuchDevice,
    ProgramMissing,
    UsageError,
)
from ._lease import Lease, lease
from ._programs import version
from ._run import run

__version__ = version()

__all__ = [
    "CudaInitialized",
    "CudawrapError",
    "CudawrapWarning",
    "Device",
    "DriverError",
    "Holder",
    "Lease",
    "LimitReached",
    "LockUnusable",
    "NoDeviceFree",
    "NoSuchDevice",
    "Process",
    "ProgramMissing",
    "UsageError",
    "devices",
    "lease",
    "run",
]
