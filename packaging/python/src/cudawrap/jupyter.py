"""A kernel provisioner for Jupyter: each kernel has its own device until it is shut down, also while it restarts.

It is LocalProvisioner with `cudawrap --` before the kernel's command, so interrupts, restarts and kills work as they do
there. The device is reserved for the server, and the kernel leases it inside that reservation.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.consoleapp import JupyterConsoleApp
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Bool, Unicode
from traitlets.config import Application

from . import _lease, _programs
from ._errors import CudawrapError
from ._options import choosing


class CudawrapProvisioner(LocalProvisioner):
    """For kernelspecs that name `cudawrap` as provisioner_name, or as JUPYTER_DEFAULT_PROVISIONER_NAME for all."""

    share = Unicode("", config=True, help="a part of a device, such as 1/2 or 10G")
    wait_time = Unicode("", config=True, help="how long to wait for a device: 30, 1.5m; forever")
    min_memory = Unicode("", config=True, help="only devices with at least that much memory, such as 10G")
    profile = Unicode("", config=True, help="only MIG devices of this profile")
    model = Unicode("", config=True, help="only devices on GPUs with this in their name, such as H100")
    lazy = Bool(False, config=True, help="take the device at the kernel's first CUDA call (libcudawrap.so)")

    _tag = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Reserves a device, once for all restarts of the kernel, and puts cudawrap before the kernel's command."""
        kwargs = await super().pre_launch(**kwargs)
        environment = dict(kwargs.get("env") or os.environ)
        cudawrap = _programs.find("cudawrap", environment.get("PATH"))
        if self.lazy:
            kwargs["cmd"] = [cudawrap, *self._options(), "--auto", "--", *kwargs["cmd"]]
            return kwargs
        # What cudawrap could not start is said before a device is reserved for it.
        if shutil.which(kwargs["cmd"][0], path=environment.get("PATH")) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), kwargs["cmd"][0])
        if self._tag is None:
            try:
                self._tag, self._variables = await asyncio.to_thread(_lease.reserve, self._options(), environment)
            except CudawrapError as error:
                # One line where this process is for the one kernel: `jupyter run` and consoles show all else as a traceback.
                if Application.initialized() and isinstance(Application.instance(), JupyterConsoleApp):
                    raise SystemExit(f"cudawrap: {error}") from None
                raise
        kwargs["env"] = {**environment, **self._variables}
        kwargs["cmd"] = [cudawrap, "--", *kwargs["cmd"]]
        return kwargs

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Starts the kernel; if that fails the device is given back."""
        try:
            return await super().launch_kernel(cmd, **kwargs)
        except BaseException:
            await self._give_back()
            raise

    async def cleanup(self, restart: bool = False) -> None:
        """Gives the device back, unless the kernel is about to be started again."""
        await super().cleanup(restart)
        if not restart:
            await self._give_back()

    async def _give_back(self) -> None:
        if self._tag is not None:
            tag, self._tag = self._tag, None
            await asyncio.to_thread(_lease.release, tag)

    def _options(self) -> list[str]:
        wait = True if self.wait_time == "forever" else self.wait_time or None
        model = self.model or None
        return choosing(1, self.share or None, self.min_memory or None, self.profile or None, wait, model=model)
