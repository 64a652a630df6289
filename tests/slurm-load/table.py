#!/usr/bin/env python3
"""What each form of a request comes to on a real Slurm: FORMS x four ways x three kinds of constraint, each cell right, refused or WRONG.

    cargo build --workspace; tests/slurm-load/table.py DIR [TARGET=target/debug] [FORM...]

Right: as many programs ran as were asked for, each on a device that Slurm granted to its job, and on no device more than are meant to
share it. Refused: none ran, and a line says why. Not promised: etc/slurm/README.md says that this way leaves it alone. What programs do that nothing looks after (`bare`) is Slurm's own doing. Needs what
run.sh needs; DIR is made anew. Ends with 1 if a cell of the other ways is WRONG.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cluster
from cluster import A100, TOP, write

PORT = 28100
# Newer versions of srun have no --uid.
AS_USER = ["setpriv", "--reuid=games", "--regid=games", "--clear-groups"]
WAYS = {"bare": "plain", "cudawrap": "plain", "TaskProlog": "tasks", "Prolog and TaskProlog": "parts"}
CONSTRAINTS = {"constrained, hidden": ("yes", True), "constrained, listed": ("yes", False), "not constrained": ("no", False)}
MIG5 = f'[[gpu]]\n{A100}mig = true\nlayout = "5x1g.5gb"\n'
MIG3 = f'[[gpu]]\n{A100}mig = true\nlayout = "3x2g.10gb"\n'
# GPUs of each node, what the machine has, and what Slurm counts there.
NODES = {
    "whole": (4, f"[[gpu]]\n{A100}count = 4\n", "Gres=gpu:4"),
    "mig": (2, MIG5 + MIG3, "Gres=gpu:a100_1g.5gb:5,gpu:a100_2g.10gb:3"),
    "mixed": (3, f"[[gpu]]\n{A100}count = 2\n" + MIG5, "Gres=gpu:a100-sxm4-40gb:2,gpu:a100_1g.5gb:5"),
    "quarters": (4, f"[[gpu]]\n{A100}count = 4\n", "Gres=gpuquarter:16 Features=gpushare4"),
}
BOTH = ["whole", "mig"]
# Nodes, options of srun, programs, and how many of them may be on one device. 0 programs: none is to see a device.
STEPS = [
    (BOTH, "--gres=gpu:1", 1, 1),
    (BOTH, "--gres=gpu:2", 1, 1),
    (BOTH, "-n2 --gres=gpu:2", 2, 1),
    (BOTH, "-n4 --gres=gpu:2", 4, 2),
    (["whole"], "-n3 --gres=gpu:2", 3, 2),
    (["whole"], "-n2 --gres=gpu:1", 2, 2),
    (["whole"], "-n2 --gres=gpu:4", 2, 1),
    (["whole"], "-n4 --gres=gpu:4", 4, 1),
    (["whole"], "--gpus=1", 1, 1),
    (["whole"], "-n2 --gpus=2", 2, 1),
    (["whole"], "-n2 --gpus-per-node=2", 2, 1),
    (["whole"], "-N1 --ntasks-per-node=2 --gres=gpu:2", 2, 1),
    (BOTH, "-n2 --gpus-per-task=1", 2, 1),
    (["whole"], "-n4 --gpus-per-task=1", 4, 1),
    (["whole"], "-n2 --gpus-per-task=2", 2, 1),
    (["whole"], "-n1 --gpus-per-task=2", 1, 1),
    (["whole"], "--gpus=2 --ntasks-per-gpu=1", 2, 1),
    (["whole"], "--gpus=2 --ntasks-per-gpu=2", 4, 2),
    (["whole"], "-n2 --gpus=2 --cpus-per-gpu=2", 2, 1),
    (["whole"], "-n2 --gpus=2 --exclusive", 2, 1),
    (["whole"], "-n2 -c2 --gres=gpu:2 --exact", 2, 1),
    (BOTH, "-n2 --gres=gpu:2 --gpu-bind=none", 2, 1),
    (BOTH, "-n2 --gres=gpu:2 --gpu-bind=closest", 2, 1),
    (BOTH, "-n2 --gres=gpu:2 --gpu-bind=single:1", 2, 1),
    (BOTH, "-n2 --gres=gpu:2 --gpu-bind=per_task:1", 2, 1),
    (BOTH, "-n2 --gres=gpu:2 --gpu-bind=map_gpu:0,1", 2, 1),
    (["whole"], "-n2 --gres=gpu:2 --gpu-bind=map_gpu:1,0", 2, 1),
    (BOTH, "-n2 --gres=gpu:2 --gpu-bind=mask_gpu:1,2", 2, 1),
    (["whole"], "-n4 --gres=gpu:2 --gpu-bind=single:2", 4, 2),
    (["whole"], "-n4 --gres=gpu:4 --gpu-bind=map_gpu:3,2,1,0", 4, 1),
    (["whole"], "-n2 --gpus-per-task=1 --gpu-bind=none", 2, 1),
    (["whole"], "-n2 --gres=gpu:2 --export=ALL,GETGPU_SLURM=--wait=5s", 2, 1),
    (["whole"], "-n2 --gres=gpu:2 --export=ALL,GETGPU_SLURM=no", 2, 1),
    (["whole"], "-n2 --gres=gpu:2 --export=ALL,CUDA_VISIBLE_DEVICES=3", 2, 1),
    (["whole"], "-n1", 0, 0),
    (["whole"], "-n1 --gres=none --export=ALL,CUDA_VISIBLE_DEVICES=0", 0, 0),
    (["mig"], "-n2 --gres=gpu:a100_2g.10gb:2", 2, 1),
    (["mig"], "-n3 --gpus-per-task=a100_2g.10gb:1", 3, 1),
    (["mixed"], "-n2 --gres=gpu:a100_1g.5gb:2", 2, 1),
    (["mixed"], "-n2 --gpus-per-task=a100_1g.5gb:1", 2, 1),
    (["mixed"], "--gres=gpu:a100-sxm4-40gb:1", 1, 1),
    (["quarters"], "--constraint=gpushare4", 1, 4),
    (["quarters"], "-n4 --constraint=gpushare4", 4, 4),
    (["quarters"], "-n1", 0, 0),
]
# The same for the text of a batch script, in which APP is the program.
SCRIPTS = [
    (BOTH, "--gres=gpu:1", "APP", 1, 1),
    (BOTH, "--gres=gpu:1", "srun -Q APP", 1, 1),
    (["whole"], "--gres=gpu:1", "APP; srun -Q APP", 2, 1),
    (["whole"], "-n2 --gres=gpu:2", "srun -Q -n2 APP", 2, 1),
    (["whole"], "--gres=gpu:2", "APP & APP & wait", 2, 1),
    (["whole"], "-n4 --gres=gpu:4", "srun -Q --exclusive -n2 --gres=gpu:2 APP & srun -Q --exclusive -n2 --gres=gpu:2 APP & wait", 4, 1),
    (["whole"], "-n2 --gres=gpu:2", "srun -Q --exact -n1 --gres=gpu:1 APP & srun -Q --exact -n1 --gres=gpu:1 APP & wait", 2, 1),
    (["whole"], "-n2 --gres=gpu:2", "srun -Q --gpus-per-task=1 -n2 APP", 2, 1),
    (["whole"], "-n2 --gpus-per-task=1", "srun -Q -n2 APP", 2, 1),
    (["whole"], "-n2 --gres=gpu:2", "srun -Q --gpu-bind=none -n2 APP", 2, 1),
    (["whole"], "--gres=gpu:1", "srun -Q --gres=none APP", 1, 1),
    (["whole"], "--gres=gpu:2", "env -u CUDA_VISIBLE_DEVICES APP", 1, 1),
    (["whole"], "--gres=gpu:2", "printf '1\\n2\\n' | xargs -P2 -I{} APP", 2, 1),
    (["quarters"], "--constraint=gpushare4", "APP; srun -Q --overlap APP", 2, 4),
    (["quarters"], "--constraint=gpushare4", "env -u CUDA_VISIBLE_DEVICES cudawrap -- APP", 1, 4),
    (["quarters"], "--constraint=gpushare4", "getgpu -q --release-all; APP", 1, 4),
    (["quarters"], "-n1", "getgpu -q --release-all; env -u CUDA_VISIBLE_DEVICES cudawrap -- APP", 0, 0),
]
FORMS = [(node, options, None, *more) for nodes, options, *more in STEPS for node in nodes]
FORMS += [(node, options, script, *more) for nodes, options, script, *more in SCRIPTS for node in nodes]

APP = """#!/bin/bash
. {root}/$SLURMD_NODENAME/env
# Once for each job, while Slurm knows it.
mkdir "{root}/out/$SLURM_JOB_ID" 2>/dev/null && echo "JOB $SLURM_JOB_ID $(scontrol show job -d -o $SLURM_JOB_ID | grep -oE ' GRES=[^ ]*' | tr -d '\\n')"
sim-cuda --run 0.7 --max ${{MOST:-1}} >"{root}/out/$$" 2>&1 &
trap 'cat "{root}/out/$$"' EXIT
wait $!
"""
WRAPPED = """#!/bin/bash
. {root}/$SLURMD_NODENAME/env
exec cudawrap -- {root}/real/app
"""


def configure(root, target, constrain, hidden):
    cluster.fill(root, target, ["getgpu", "cudawrap", "sim-cuda"])
    nodes = "".join(
        f"NodeName={node} NodeHostname={cluster.host()} NodeAddr=127.0.0.1 Port={PORT + 1 + at} CPUs=64 CoresPerSocket=64 {gres}\n"
        + "".join(f"PartitionName={node}-{way} Nodes={node} State=UP OverSubscribe=YES:8\n" for way in sorted(set(WAYS.values())))
        for at, (node, (_, _, gres)) in enumerate(NODES.items())
    )
    slurm = f"""ClusterName=table
SlurmctldHost={cluster.host()}(127.0.0.1)
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
PrologFlags=Contain
GresTypes=gpu,gpuhalf,gpuquarter,gpueighth
JobSubmitPlugins=lua
KillWait=3
SchedulerParameters=sched_interval=1,batch_sched_delay=0
Prolog={root}/hooks/prolog
Epilog={root}/hooks/epilog
TaskProlog={root}/hooks/task-prolog
TaskEpilog={root}/hooks/task-prolog
"""
    write(root / "slurm.conf", slurm + cluster.own_lines(root, PORT) + nodes)
    write(root / "gres.conf", "AutoDetect=nvml\nNodeName=quarters Name=gpuquarter Count=16 Flags=CountOnly\n")
    write(root / "cgroup.conf", f"CgroupPlugin=cgroup/v1\nConstrainDevices={constrain}\n")
    for name in ["prolog", "epilog"]:
        cluster.hook(root, name, "*-parts")
    cluster.hook(root, "task-prolog", "*-tasks|*-parts")
    write(root / "real/app", APP.format(root=root), 0o755)
    write(root / "real/wrapped", WRAPPED.format(root=root), 0o755)
    for node, (_, gpus, _) in NODES.items():
        shares = 'shares = ["gpushare4=1/4"]\n' if node == "quarters" else ""
        cluster.machine(root, node, gpus, f'without_grant = "none"\n[slurm]\n{shares}', hidden)


def numbered(root, node, environment):
    """The device that each of Slurm's numbers stands for; none where they stand for no certain one (whole GPUs beside MIG devices)."""
    if node == "mixed":
        return []
    if node == "mig":
        words = [*AS_USER, "srun", "-Q", "-p", "mig-plain", "--gres=gpu:8", "printenv", "CUDA_VISIBLE_DEVICES"]
        return subprocess.run(words, env=environment, capture_output=True, text=True).stdout.strip().split(",")
    words = [root / "bin/getgpu", "--list", "--json"]
    listing = subprocess.run(words, env=dict(environment, SLURMD_NODENAME=node), capture_output=True, text=True)
    return [device["uuid"] for device in json.loads(listing.stdout)["devices"]]


def run(form, way, root, environment):
    """What one cell said, all of its programs together."""
    node, options, script, _, most = form
    app = str(root / "real" / ("wrapped" if way == "cudawrap" else "app"))
    environment = dict(environment, MOST=str(max(most, 1)))
    common = ["-p", f"{node}-{WAYS[way]}", "-D", "/tmp", *options.split()]
    if script is None:
        words = [*AS_USER, "srun", "-Q", "-l", "-t1", *common, app]
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
        return ran.stdout + ran.stderr
    out = root / "out" / f"batch-{time.monotonic_ns()}"
    text = f"#!/bin/bash\n. {root}/{node}/env\n{script.replace('APP', app)}\necho DONE\n"
    words = [*AS_USER, "sbatch", "-Q", "-t1", "-o", str(out), *common]
    subprocess.run(words, input=text, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    for _ in range(600):
        if out.exists() and re.search("^DONE|CANCELLED", out.read_text(), re.M):
            break
        time.sleep(0.1)
    return out.read_text() if out.exists() else "never started"


def granted(said, known):
    """The devices of `JOB 7 GRES=gpu:TYPE:2(IDX:0,2-3)`; None where no program could say, or no number is certain."""
    line = re.search(r"JOB .*", said)
    if not line or not known:
        return None
    found = set()
    for ranges in re.findall(r"gpu:[^()]*\(IDX:([0-9,-]+)\)", line.group(0)):
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            found.update(known[number] for number in range(int(first), int(last or first) + 1))
    return found


def reason(said, syslog):
    """The line that says why a program has no device: its own, or that of a hook in the log of the node."""
    lines = re.findall(r"(?:cudawrap|getgpu[\w -]*): .*", said)
    job = re.search(r"JOB (\d+)", said)
    if job:
        lines += re.findall(rf"getgpu[\w -]*(?:\[\d+\])?: .*\bjob {job.group(1)}\b.*", syslog)
    line = next((line for line in lines if "hint:" not in line), None)
    return line and re.sub(r"\b\d+\b", "N", re.sub(r"(MIG|GPU)-[0-9a-f-]+", "UUID", line))


def is_promised(form, way):
    """Whether the page promises anything: a job may say no, a script that starts several programs itself needs way 1, parts need a Prolog."""
    node, options, script, *_ = form
    by_hooks = way in ("TaskProlog", "Prolog and TaskProlog")
    several = "APP & APP" in (script or "") or "xargs" in (script or "")
    return not (by_hooks and ("GETGPU_SLURM=no" in options or several) or (node == "quarters" and way == "TaskProlog"))


def verdict(form, said, known, syslog):
    """Right, refused or WRONG, and why it is not right."""
    node, _, _, programs, most = form
    ran = re.findall(r"RUN (\S+)", said)
    given = granted(said, known)
    if "COLLISION" in said:
        return "WRONG", "two programs on one device"
    if node != "quarters" and given is not None and set(ran) - given:
        return "WRONG", "a device that was not granted"
    if node == "quarters" and len(set(ran)) > 1:
        return "WRONG", "devices beside its part"
    if ran and max(Counter(ran).values()) > most and (form[2] is None or "&" in form[2]):
        return "WRONG", "more programs on a device than others of the job need"
    # A step that asks for no GPU may use its job's or none.
    asks_for_none = "--gres=none" in (form[2] or "")
    why = reason(said, syslog)
    if not said or "never started" in said or not (ran or why or "NODEVICE" in said):
        return "WRONG", "nothing ran at all"
    if len(ran) == programs or (asks_for_none and not ran):
        return "right", ""
    if not ran and why:
        return "refused", why
    return "WRONG", f"{len(ran)} of {programs} ran: {why or 'nothing said'}"


def table(root, target, chosen):
    cells, reasons = {}, defaultdict(list)
    for constraint, (constrain, hidden) in CONSTRAINTS.items():
        configure(root, target, constrain, hidden)
        path = f"{root}/bin:{os.environ['PATH']}:/usr/sbin"
        environment = dict(os.environ, SLURM_CONF=f"{root}/slurm.conf", PATH=path)
        nodes = {node: gpus for node, (gpus, _, _) in NODES.items()}
        daemons = cluster.start(root, environment, nodes)
        known = {node: numbered(root, node, environment) for node in NODES}

        def of_node(node):
            for form in chosen:
                for way in WAYS:
                    if form[0] == node:
                        said = run(form, way, root, environment)
                        result, why = verdict(form, said, known[node], (root / node / "syslog").read_text())
                        if result == "WRONG" and not is_promised(form, way):
                            result = "not promised"
                        cells[form, way, constraint] = result
                        if result != "right" and way != "bare":
                            reasons[result, why].append((form, way, constraint, said))

        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(of_node, NODES))
        finally:
            cluster.stop(root, daemons, NODES)
    return cells, reasons


def show(cells, reasons, chosen):
    keys = [(way, constraint) for way in WAYS for constraint in CONSTRAINTS]
    print("| form | " + " | ".join(f"{way}: {constraint}" for way, constraint in keys) + " |")
    print("| --- |" + " --- |" * len(keys))
    for form in chosen:
        name = f"{form[0]}: {form[1]}" + (f": {form[2]}" if form[2] else "")
        name = name.replace("|", "\\|")
        print(f"| {name} | " + " | ".join(cells[form, *key] for key in keys) + " |")
    for way in WAYS:
        print(way, dict(Counter(result for (_, own, _), result in cells.items() if own == way)))
    for (result, why), where in sorted(reasons.items()):
        print(f"{len(where)} {result}: {why}")
        for form, way, constraint, said in where:
            print(f"    {form[0]} {form[1]} {form[2] or ''} ({way}, {constraint})")
            if result == "WRONG" and way != "bare":
                print("        " + said.replace("\n", "\n        "))


def main():
    cluster.skip_unless_possible()
    root = Path(sys.argv[1]).resolve()
    target = Path(sys.argv[2] if len(sys.argv) > 2 else TOP / "target/debug").resolve()
    wanted = sys.argv[3:]
    chosen = [form for form in FORMS if not wanted or any(word in f"{form[0]} {form[1]} {form[2]}" for word in wanted)]
    cells, reasons = table(root, target, chosen)
    show(cells, reasons, chosen)
    sys.exit(any(result == "WRONG" and way != "bare" for (_, way, _), result in cells.items()))


if __name__ == "__main__":
    main()
