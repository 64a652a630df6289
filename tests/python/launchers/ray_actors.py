"""docs/LAUNCHERS.md: Ray. Prints whether each worker has a device of its own."""

import os
import subprocess

import cudawrap
import ray


def job(number: int) -> tuple[str, int]:
    """One job; gives the device and the process that did it."""
    subprocess.run(["./job", str(number)], check=True, stdout=subprocess.DEVNULL)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


@ray.remote
class Worker:
    """An actor with a device of its own."""

    def __init__(self) -> None:
        self.lease = cudawrap.lease()

    def job(self, number: int) -> tuple[str, int]:
        return job(number)


if __name__ == "__main__":
    ray.init(num_cpus=4, num_gpus=0, include_dashboard=False)
    workers = [Worker.remote() for _ in range(4)]
    used = ray.get([workers[n % 4].job.remote(n) for n in range(8)])
    print(len(set(used)) == len({device for device, _ in used}))
