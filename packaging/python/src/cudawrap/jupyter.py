"""A kernel provisioner for Jupyter: each kernel is started by cudawrap and has its own device until it ends.

It is LocalProvisioner with `cudawrap OPTIONS --` before the kernel's command, so interrupts, restarts and kills work
as they do there.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Bool, Unicode

from . import _programs
from ._errors import CudawrapError, NoDeviceFree
from ._options import choosing

NONE_FREE = 75
FAILED = 125


class CudawrapProvisioner(LocalProvisioner):
    """For kernelspecs that name `cudawrap` as provisioner_name, or as JUPYTER_DEFAULT_PROVISIONER_NAME for all."""

    share = Unicode("", config=True, help="a part of a device, such as 1/2 or 10G")
    wait_time = Unicode("", config=True, help="how long to wait for a device: 30, 1.5m; forever")
    min_memory = Unicode("", config=True, help="only devices with at least that much memory, such as 10G")
    profile = Unicode("", config=True, help="only MIG devices of this profile")
    lazy = Bool(False, config=True, help="take the device at the kernel's first CUDA call (libcudawrap.so)")

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Puts cudawrap before the kernel's command."""
        kwargs = await super().pre_launch(**kwargs)
        self._cudawrap = _programs.find("cudawrap", kwargs.get("env", os.environ).get("PATH"))
        auto = ["--auto"] if self.lazy else []
        kwargs["cmd"] = [self._cudawrap, *self._options(), *auto, "--", *kwargs["cmd"]]
        return kwargs

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Starts the kernel; if there is no device for it, raises the reason, which the notebook shows."""
        info = await super().launch_kernel(cmd, **kwargs)
        status = await self._status_of_cudawrap()
        if status is not None:
            await self.wait()
            raise self._reason(status, kwargs.get("env"))
        return info

    def _options(self) -> list[str]:
        wait = True if self.wait_time == "forever" else self.wait_time or None
        return choosing(1, self.share or None, self.min_memory or None, self.profile or None, wait)

    async def _status_of_cudawrap(self) -> int | None:
        """Waits until cudawrap has become the kernel; gives its status if it ended instead."""
        assert self.process is not None
        program = os.path.realpath(self._cudawrap)
        while True:
            status = self.process.poll()
            if status in (NONE_FREE, FAILED):
                return int(status)
            try:
                running = os.readlink(f"/proc/{self.process.pid}/exe")
            except OSError:
                # Ended just now, or made unreadable by its new program.
                running = program if self.process.poll() is None and _is_cudawrap(self.process.pid) else ""
            if running != program or status is not None:
                status = self.process.poll()
                return int(status) if status in (NONE_FREE, FAILED) else None
            await asyncio.sleep(0.02)

    def _reason(self, status: int, environment: dict[str, str] | None) -> CudawrapError:
        """Asks getgpu why, since what cudawrap wrote is in the server's log."""
        try:
            words = [word for word in self._options() if not word.startswith("--wait")]
            _programs.getgpu(["--no-reserve", *words], environment)
        except CudawrapError as error:
            return error
        if status == NONE_FREE:
            return NoDeviceFree("no device was free for this kernel", "start it again: one is free now")
        return CudawrapError("cudawrap could not start the kernel", "its reason is in the log of the Jupyter server")


def _is_cudawrap(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip() == "cudawrap"
    except OSError:
        return False
