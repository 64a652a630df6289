#!/usr/bin/env python3
"""What the start of a step costs on a real Slurm, as a ratio to a bare srun in the same run: one task and four at once, with cudawrap
and with the TaskProlog, on a node of four GPUs where nothing else goes on.

    cargo build --release --workspace; tests/slurm-load/starts.py DIR [TARGET=target/release] [ROUNDS=30]

The time from the call of srun until the last program has begun. Needs what run.sh needs; DIR is made anew.
"""

import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import cluster
import table

WAYS = {"bare": "plain", "cudawrap": "plain", "TaskProlog": "tasks"}


def begun(way, tasks, root, environment):
    """Seconds until the last task of a step runs."""
    wrap = ["cudawrap", "--"] if way == "cudawrap" else []
    words = ["srun", "-Q", "-p", f"whole-{WAYS[way]}", f"-n{tasks}", f"--gres=gpu:{tasks}", *wrap, "date", "+%s.%N"]
    before = time.time()
    ran = subprocess.run(words, env=dict(environment, SLURMD_NODENAME="whole"), capture_output=True, text=True, check=True)
    return max(map(float, ran.stdout.split())) - before


def main():
    cluster.skip_unless_possible()
    root = Path(sys.argv[1]).resolve()
    target = Path(sys.argv[2] if len(sys.argv) > 2 else cluster.TOP / "target/release").resolve()
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    for other in set(table.NODES) - {"whole"}:
        del table.NODES[other]
    table.configure(root, target, "yes", True)
    environment = dict(os.environ, SLURM_CONF=f"{root}/slurm.conf", PATH=f"{root}/bin:{os.environ['PATH']}:/usr/sbin")
    daemons = cluster.start(root, environment, {"whole": 4})
    times = defaultdict(list)
    try:
        for _ in range(rounds):
            for tasks in (1, 4):
                for way in WAYS:
                    times[way, tasks].append(begun(way, tasks, root, environment))
    finally:
        cluster.stop(root, daemons, ["whole"])
    print("| | 1 task | 4 tasks at once |\n| --- | --- | --- |")
    for way in WAYS:
        cells = []
        for tasks in (1, 4):
            median, bare = statistics.median(times[way, tasks]), statistics.median(times["bare", tasks])
            cells.append(f"{median / bare:.2f} ({1000 * median:.0f} ms)")
        print(f"| {way} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
