"""A plugin for Dask: each worker process leases a device, and one that gets none is closed instead of working without.

`client.register_plugin(cudawrap.dask.Lease(share="1/2"))`, with the arguments of cudawrap.lease().
"""

from __future__ import annotations

import logging
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from . import _lease
from ._errors import CudawrapError

_log = logging.getLogger(__name__)


class Lease(WorkerPlugin):  # type: ignore[misc]
    """A lease for each worker, from its start to its end."""

    name = "cudawrap"

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self._held: _lease.Lease | None = None

    async def setup(self, worker: Any) -> None:
        """Leases; a worker without a device is closed, with its nanny, which would only start it again."""
        try:
            self._held = _lease.lease(**self._arguments)
        except CudawrapError as error:
            _log.error("cudawrap: worker %s is closed: %s", worker.address, error)
            worker.loop.add_callback(worker.close, reason=f"cudawrap: {error}")

    def teardown(self, worker: Any) -> None:
        """Gives the device back."""
        if self._held is not None:
            self._held.release()
