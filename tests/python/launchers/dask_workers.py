"""docs/LAUNCHERS.md: Dask. Prints whether each worker has a device of its own, and the one too many is closed."""

import os
import subprocess
import time

import cudawrap.dask
from dask.distributed import Client, LocalCluster


def job(number: int) -> tuple[str, int]:
    """One job; gives the device and the process that did it."""
    subprocess.run(["./job", str(number)], check=True, stdout=subprocess.DEVNULL)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


if __name__ == "__main__":
    client = Client(LocalCluster(n_workers=5, threads_per_worker=1, dashboard_address=None))
    client.register_plugin(cudawrap.dask.Lease())
    try:
        end = time.monotonic() + 30
        while len(client.scheduler_info(n_workers=-1)["workers"]) != 4 and time.monotonic() < end:
            time.sleep(0.05)
        used = client.gather(client.map(job, range(8), pure=False))
    finally:
        client.shutdown()
    print(1 < len(set(used)) == len({device for device, _ in used}) <= 4 and time.monotonic() < end)
