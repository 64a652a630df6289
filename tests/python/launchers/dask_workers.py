"""docs/LAUNCHERS.md: Dask. Prints whether each worker has a device of its own."""

import os
import subprocess

import cudawrap
from dask.distributed import Client, LocalCluster


def job(number: int) -> tuple[str, int]:
    """One job; gives the device and the process that did it."""
    subprocess.run(["./job", str(number)], check=True, stdout=subprocess.DEVNULL)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


if __name__ == "__main__":
    client = Client(LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None))
    client.register_worker_callbacks(cudawrap.lease)
    try:
        used = client.gather(client.map(job, range(8), pure=False))
    finally:
        client.shutdown()
    print(len(set(used)) == len({device for device, _ in used}))
