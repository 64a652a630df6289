#!/usr/bin/env python3
"""Builds the complete cluster of etc/slurm/README.md from the blocks of that page, as a newcomer would, and runs the lines that it prints.

    cargo build --workspace; tests/slurm-load/page.py DIR [TARGET=target/debug]

Only what one host and a simulated node need is changed: addresses and ports, the users, and where files lie. Needs what run.sh needs; DIR is made anew.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import cluster
from cluster import A100, TOP, write

PORT = 27900
# The GPUs of each node of the page.
NODES = {
    "mig1": (1, A100 + 'mig = true\nlayout = "7x1g.5gb"\n'),
    "mig2": (1, A100 + 'mig = true\nlayout = "7x1g.5gb"\n'),
    "whole1": (8, A100 + "count = 8\n"),
    "shared1": (4, A100 + "count = 4\n"),
}


def node_lines(line, host):
    """A line of NodeName for each node, all on this host."""
    name = re.match(r"NodeName=(\S+)", line).group(1)
    cpus = re.search(r"CPUs=(\d+)", line).group(1)
    lines = []
    for at, node in enumerate(NODES):
        if node == name or (name == "mig[1-2]" and node.startswith("mig")):
            own = f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={PORT + 1 + at} CoresPerSocket={cpus}"
            lines.append(line.replace(f"NodeName={name}", own))
    return "\n".join(lines)


def configure(root, target):
    blocks = (TOP / "etc/slurm/README.md").read_text().split("\n```\n")
    conf = next(block for block in blocks if block.startswith("# /etc/slurm/slurm.conf"))
    settings = next(block for block in blocks if block.startswith("# /etc/getgpu/config.toml"))
    slurm, rest = conf.split("# /etc/slurm/gres.conf\n")
    gres, cgroup = rest.split("# /etc/slurm/cgroup.conf\n")
    slurm = slurm.replace("SlurmctldHost=head", f"SlurmctldHost={cluster.host()}(127.0.0.1)")
    slurm = slurm.replace("/usr/local/share/getgpu/slurm/", f"{root}/hooks/")
    slurm = re.sub(r"^NodeName=.*$", lambda found: node_lines(found.group(0), cluster.host()), slurm, flags=re.M)
    cluster.fill(root, target, ["getgpu", "cudawrap"])
    write(root / "slurm.conf", slurm + cluster.own_lines(root, PORT))
    write(root / "gres.conf", gres)
    write(root / "cgroup.conf", "CgroupPlugin=cgroup/v1\n" + cgroup)
    for name in ["prolog", "epilog", "task-prolog", "health"]:
        cluster.hook(root, name)
    for node, (_, gpus) in NODES.items():
        cluster.machine(root, node, f"[[gpu]]\n{gpus}", settings, hidden=True)
    return next(block for block in blocks if block.startswith("show=")).splitlines()


def check(lines, environment):
    """Runs the lines of the page; the first sets a variable that the others use."""
    kinds = [("MIG-", 2), ("GPU-", 4), ("GPU-", 1)]
    wrong = int(len(lines) < len(kinds) + 3)
    for number, line in enumerate(lines[1:]):
        command = line.split("  #")[0].replace("./app", "true").replace("srun ", "srun -Q ", 1)
        ran = subprocess.run(["bash", "-c", f"{lines[0]}\n{command}"], env=environment, cwd="/tmp", capture_output=True, text=True)
        devices = ran.stdout.split()
        if number < len(kinds):
            kind, many = kinds[number]
            fine = len(set(devices)) == many == len(devices) and all(device.startswith(kind) for device in devices)
        elif number == len(kinds):
            fine = ran.stdout == "\n"
        else:
            fine = ran.returncode == 125 and "this job has no part of a GPU on this node" in ran.stderr
        print("right" if fine else "WRONG", line)
        if not fine:
            wrong += 1
            print(ran.returncode, ran.stdout, ran.stderr)
    return wrong


def main():
    cluster.skip_unless_possible()
    root = Path(sys.argv[1]).resolve()
    target = Path(sys.argv[2] if len(sys.argv) > 2 else TOP / "target/debug").resolve()
    lines = configure(root, target)
    path = f"{root}/bin:{os.environ['PATH']}:/usr/sbin"
    environment = dict(os.environ, SLURM_CONF=f"{root}/slurm.conf", PATH=path)
    nodes = {node: gpus for node, (gpus, _) in NODES.items()}
    daemons = cluster.start(root, environment, nodes)
    try:
        wrong = check(lines, environment)
    finally:
        cluster.stop(root, daemons, nodes)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
