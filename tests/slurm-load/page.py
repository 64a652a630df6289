#!/usr/bin/env python3
"""Builds the complete cluster of etc/slurm/README.md from the blocks of that page, as a newcomer would, and runs the lines that it prints.

    cargo build --workspace; tests/slurm-load/page.py DIR [TARGET=target/debug]

Only what one host and a simulated node need is changed: addresses and ports, the users, and where files lie. Needs what run.sh needs; DIR is made anew.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
PORT = 27900
A100 = 'model = "A100-SXM4-40GB"\ncpus = "0-1"\n'
# The GPUs of each node of the page.
NODES = {
    "mig1": (1, A100 + 'mig = true\nlayout = "7x1g.5gb"\n'),
    "mig2": (1, A100 + 'mig = true\nlayout = "7x1g.5gb"\n'),
    "whole1": (8, A100 + "count = 8\n"),
    "shared1": (4, A100 + "count = 4\n"),
}


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


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
    host = os.uname().nodename.split(".")[0]
    blocks = (TOP / "etc/slurm/README.md").read_text().split("\n```\n")
    conf = next(block for block in blocks if block.startswith("# /etc/slurm/slurm.conf"))
    settings = next(block for block in blocks if block.startswith("# /etc/getgpu/config.toml"))
    slurm, rest = conf.split("# /etc/slurm/gres.conf\n")
    gres, cgroup = rest.split("# /etc/slurm/cgroup.conf\n")
    slurm = slurm.replace("SlurmctldHost=head", f"SlurmctldHost={host}(127.0.0.1)")
    slurm = slurm.replace("/usr/local/share/getgpu/slurm/", f"{root}/hooks/")
    slurm = re.sub(r"^NodeName=.*$", lambda found: node_lines(found.group(0), host), slurm, flags=re.M)
    plugins = subprocess.getoutput("dpkg -L slurm-wlm-basic-plugins | grep -m1 /select_cons_tres.so")
    slurm += f"""SlurmctldPort={PORT}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld
SlurmdLogFile={root}/log/%n
SlurmdParameters=config_overrides
PluginDir={Path(plugins).parent}:{root}/plugins
MpiDefault=none
"""
    write(root / "slurm.conf", slurm)
    write(root / "gres.conf", gres)
    write(root / "cgroup.conf", "CgroupPlugin=cgroup/v1\n" + cgroup)
    shutil.copy(TOP / "etc/slurm/job_submit.lua", root)
    for place in ["state", "log", "bin", "real", "lib", "plugins"]:
        (root / place).mkdir()
    plugin = os.environ.get("GPU_NVML") or TOP / "target/tools/slurm/gpu_nvml.so"
    shutil.copy(plugin, root / "plugins/gpu_nvml.so")
    for name in ["libnvidia-ml.so", "libnvidia-ml.so.1"]:
        shutil.copy(target / "libsim_nvml.so", root / "lib" / name)
    for name in ["getgpu", "cudawrap"]:
        shutil.copy(target / name, root / "real" / name)
        script = f'#!/bin/sh\n. {root}/$SLURMD_NODENAME/env\nexec {root}/real/{name} "$@"\n'
        write(root / "bin" / name, script, 0o755)
    for name in ["prolog", "epilog", "task-prolog", "health"]:
        script = f"#!/bin/sh\n. {root}/$SLURMD_NODENAME/env\nexec {TOP}/etc/slurm/{name}\n"
        write(root / "hooks" / name, script, 0o755)
    for node, (_, gpus) in NODES.items():
        own = root / node
        write(own / "sim/node.toml", f'driver = "550.54.15"\nhost = "{node}"\n[[gpu]]\n{gpus}')
        write(own / "sim/faults.toml", "closed_hidden = true\n")
        write(own / "config.toml", settings)
        (own / "run").mkdir()
        (own / "sim/running").mkdir()
        for log in ["runs.log", "collisions.log"]:
            write(own / "sim" / log, "", 0o666)
        variables = f"SIM_NODE={own}/sim LD_LIBRARY_PATH={root}/lib GETGPU_LOCK={own}/run/lock GETGPU_CONFIG={own}/config.toml"
        write(own / "env", f"export {variables} PATH={root}/real:/usr/sbin:/usr/bin:/sbin:/bin\n")
    return next(block for block in blocks if block.startswith("show=")).splitlines()


def start(root, environment):
    daemons = [subprocess.Popen(["slurmctld", "-D"], env=environment, stderr=subprocess.DEVNULL)]
    for node, (gpus, _) in NODES.items():
        machine = 'unshare --mount --propagation private bash -c \'. "$1/$2/env"; exec "$0" "$@"\' "$@"'
        words = ["setsid", "bash", "-c", f"exec {machine}", "machine", str(HERE / "node.sh"), str(root), node, str(gpus)]
        daemons.append(subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL))
    for _ in range(150):
        idle = subprocess.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], env=environment, capture_output=True, text=True)
        if set(idle.stdout.split()) == set(NODES):
            break
        time.sleep(0.2)
    return daemons


def check(lines, environment):
    """Runs the lines of the page; the first sets a variable that the others use."""
    kinds = [("MIG-", 2), ("GPU-", 4), ("GPU-", 1)]
    wrong = 0
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


def end(file):
    """Ends a daemon, which is no child of this process."""
    pid = int(file.read_text()) if file.exists() else 0
    for number in [signal.SIGTERM] * 50 + [signal.SIGKILL]:
        if not pid or not Path(f"/proc/{pid}").exists():
            return
        os.kill(pid, number)
        time.sleep(0.1)


def main():
    root = Path(sys.argv[1]).resolve()
    target = Path(sys.argv[2] if len(sys.argv) > 2 else TOP / "target/debug").resolve()
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    lines = configure(root, target)
    path = f"{root}/bin:{os.environ['PATH']}:/usr/sbin"
    environment = dict(os.environ, SLURM_CONF=f"{root}/slurm.conf", PATH=path)
    daemons = start(root, environment)
    try:
        wrong = check(lines, environment)
    finally:
        for node in NODES:
            end(root / f"slurmd-{node}.pid")
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
