"""A real Slurm on this host whose nodes are simulated machines: what page.py and table.py have in common. Its own nvml plugin
finds the GPUs. Needs what run.sh needs. With SLURM_PLUGINS=DIR and GPU_NVML=FILE it is another Slurm, the first in PATH."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
A100 = 'model = "A100-SXM4-40GB"\ncpus = "0-1"\n'


def plugin():
    return Path(os.environ.get("GPU_NVML") or TOP / "target/tools/slurm/gpu_nvml.so")


def skip_unless_possible():
    """Ends with a line where this machine lacks what run.sh needs, or cannot constrain devices."""
    missing = [tool for tool in ["slurmctld", "slurmd", "srun"] if not shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin")]
    if os.geteuid() != 0:
        why = "needs root"
    elif missing:
        why = f"{missing[0]} is not installed"
    elif not plugin().exists():
        why = f"Slurm's plugin gpu_nvml.so is not in {plugin().parent}"
    elif not os.access("/sys/fs/cgroup/devices", os.W_OK):
        why = "there are no cgroups of version 1 for ConstrainDevices"
    else:
        return
    print(f"SKIPPED: slurm-load: {why}")
    sys.exit(0)


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def host():
    return os.uname().nodename.split(".")[0]


def own_lines(root, port):
    """What slurm.conf needs for a cluster of one host without munge."""
    debian = "dpkg -L slurm-wlm-basic-plugins | grep -m1 /select_cons_tres.so"
    plugins = os.environ.get("SLURM_PLUGINS") or Path(subprocess.getoutput(debian)).parent
    return f"""SlurmctldPort={port}
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
PluginDir={plugins}:{root}/plugins
MpiDefault=none
"""


def fill(root, target, programs):
    """The folders, the plugin, the simulated library and `programs`, each started with the settings of the node that it runs on."""
    shutil.rmtree(root, ignore_errors=True)
    for place in ["state", "log", "bin", "real", "lib", "plugins", "out"]:
        (root / place).mkdir(parents=True)
    (root / "out").chmod(0o1777)
    shutil.copy(TOP / "etc/slurm/job_submit.lua", root)
    shutil.copy(plugin(), root / "plugins/gpu_nvml.so")
    for name in ["libnvidia-ml.so", "libnvidia-ml.so.1"]:
        shutil.copy(target / "libsim_nvml.so", root / "lib" / name)
    for name in programs:
        shutil.copy(target / name, root / "real" / name)
        script = f'#!/bin/sh\n. {root}/$SLURMD_NODENAME/env\nexec {root}/real/{name} "$@"\n'
        write(root / "bin" / name, script, 0o755)


def hook(root, name, partitions="*"):
    """One of the scripts of etc/slurm, for jobs of these partitions (a pattern of sh)."""
    run = f"exec {TOP}/etc/slurm/{name}"
    script = f"#!/bin/sh\n. {root}/$SLURMD_NODENAME/env\ncase ${{SLURM_JOB_PARTITION-}} in {partitions}) {run} ;; esac\n"
    write(root / "hooks" / name, script, 0o755)


def machine(root, node, gpus, settings, hidden):
    """The simulated machine of a node; `hidden`: NVML lists only what a task's cgroup leaves open."""
    own = root / node
    write(own / "sim/node.toml", f'driver = "550.54.15"\nhost = "{node}"\n{gpus}')
    if hidden:
        write(own / "sim/faults.toml", "closed_hidden = true\n")
    write(own / "config.toml", settings)
    (own / "run").mkdir()
    (own / "sim/running").mkdir(mode=0o1777)
    for folder in [own / "sim", own / "sim/running"]:
        folder.chmod(0o1777)
    for log in ["runs.log", "collisions.log"]:
        write(own / "sim" / log, "", 0o666)
    variables = f"SIM_NODE={own}/sim LD_LIBRARY_PATH={root}/lib GETGPU_LOCK={own}/run/lock GETGPU_CONFIG={own}/config.toml"
    write(own / "env", f"export {variables} PATH={root}/real:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n")


def start(root, environment, nodes):
    """Starts the controller and the nodes, each with its number of GPUs, and waits until Slurm has them all."""
    daemons = [subprocess.Popen(["slurmctld", "-D"], env=environment, stderr=subprocess.DEVNULL)]
    for node, gpus in nodes.items():
        call = 'unshare --mount --propagation private bash -c \'. "$1/$2/env"; exec "$0" "$@"\' "$@"'
        words = ["setsid", "bash", "-c", f"exec {call}", "machine", str(HERE / "node.sh"), str(root), node, str(gpus)]
        daemons.append(subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL))
    for _ in range(150):
        idle = subprocess.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], env=environment, capture_output=True, text=True)
        if set(idle.stdout.split()) == set(nodes):
            return daemons
        time.sleep(0.2)
    stop(root, daemons, nodes)
    sys.exit(f"slurm-load: of {', '.join(nodes)} only these are idle: {idle.stdout.split()}")


def stop(root, daemons, nodes):
    for node in nodes:
        end(root / f"slurmd-{node}.pid")
    for daemon in daemons:
        daemon.terminate()
        daemon.wait()


def end(file):
    """Ends a daemon, which is no child of this process."""
    pid = int(file.read_text()) if file.exists() else 0
    for number in [signal.SIGTERM] * 50 + [signal.SIGKILL]:
        if not pid or not Path(f"/proc/{pid}").exists():
            return
        os.kill(pid, number)
        time.sleep(0.1)
