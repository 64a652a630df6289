"""docs/LAUNCHERS.md: joblib. Prints whether each worker has a device of its own."""

import os
import subprocess

import cudawrap
from joblib import Parallel, delayed


def job(number: int) -> tuple[str, int]:
    """One job; gives the device and the process that did it."""
    subprocess.run(["./job", str(number)], check=True, stdout=subprocess.DEVNULL)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


if __name__ == "__main__":
    used = Parallel(n_jobs=4, initializer=cudawrap.lease)(delayed(job)(n) for n in range(8))
    print(len(set(used)) == len({device for device, _ in used}))
