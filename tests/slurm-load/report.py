#!/usr/bin/env python3
"""What the load of run.sh came to, from DIR. Ends with 1 if a program used what its job was not granted, two programs had one
device at a time, a device is still kept, a hook drained a node, or, without disturbances, a job got less than it was promised."""

import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

root = Path(sys.argv[1])
numbers = {node: (root / node / "numbers").read_text().strip().split(",") for node in ("mig", "whole")}
text = (root / "disturbed").read_text() if (root / "disturbed").exists() else ""
syslog = [line for node in numbers for line in (root / node / "syslog").read_text().splitlines() if "task-prolog: job" in line]
disturbed = defaultdict(set)
for line in text.splitlines():
    what, job = line.split()
    disturbed[job].add(what)


def granted(words):
    """The devices of lines like ` Nodes=mig CPU_IDs=0 Mem=0 GRES=gpu:TYPE:2(IDX:0,2-3)`."""
    found = set()
    for node, gres in re.findall(r"^ Nodes=(\S+) .*GRES=(\S+)", words, re.M):
        for ranges in re.findall(r"gpu:[^()]*\(IDX:([0-9,-]+)\)", gres):
            for part in ranges.split(","):
                first, _, last = part.partition("-")
                found.update(numbers[node][number] for number in range(int(first), int(last or first) + 1))
    return found


class Start:
    """One start of a job: what it was granted, and what its programs said."""

    def __init__(self, job, head, words):
        self.job, self.words = job, words
        _, self.kind, promised, restart, self.partition = head.split()
        self.promised, self.restart = int(promised), int(restart)
        self.way = self.partition.split("-")[1]
        self.granted = granted(words)
        self.ran = re.findall(r"^RUN (\S+)", words, re.M)

    def reason(self):
        told = [line for line in syslog if f"job {self.job}, " in line]
        if told:
            return self.plain(told[-1].partition(": ")[2])
        said = re.findall(r"^(?:\d+: )?((?:cudawrap|getgpu(?: task-prolog)?|srun|slurmstepd\S*): .*)", self.words, re.M)
        line = next((line for line in said if "hint:" not in line), "nothing said")
        return self.plain(line)

    @staticmethod
    def plain(line):
        return re.sub(r"\b[0-9]+\b", "N", re.sub(r"(MIG|GPU)-[0-9a-f-]+", "UUID", line))[:170]


starts = []
for path in sorted((root / "out").iterdir()):
    pieces = re.split(r"(?m)^(START .*)$", path.read_text())
    job = path.name.split("_")[2]
    starts += [Start(job, head, words) for head, words in zip(pieces[1::2], pieces[2::2])]
last = {}
for start in starts:
    last[start.job] = start

# Who used what, by the record of the simulated library.
foreign, doubled, shared = [], [], []
by_job = {}
for start in starts:
    by_job[start.job, start.restart] = start
for node in numbers:
    for line in (root / node / "sim" / "runs.log").read_text().splitlines():
        what, _, uuid, _, tag = line.split()
        job, restart, *_ = tag.split(".")
        start = by_job.get((job, int(restart)))
        if what == "start" and start and start.way != "parts" and start.granted and uuid not in start.granted:
            foreign.append(f"{tag}: {uuid}")
    for line in (root / node / "sim" / "collisions.log").read_text().splitlines():
        tags = line.split()[-2:]
        same = len({tag.split(".")[0] for tag in tags}) == 1
        (shared if same else doubled).append(line)

short = [
    start
    for start in last.values()
    if len(start.ran) < start.promised and not disturbed[start.job] & {"cancel", "kill"}
]
# The last hook that was started for a job: after its prolog alone, its epilog never began.
hooks = dict(reversed(line.split()) for line in (root / "mig" / "hooks").read_text().splitlines())
notes = (root / "mig" / "notes").read_text().split()
late, kept = [], []
for device in json.loads((root / "mig" / "before-late-prologs").read_text())["devices"]:
    for job in [holder["job"] for holder in device["holders"]]:
        unfinished = hooks.get(job) == "prolog" or f"ended-{job}" in notes
        (late if unfinished else kept).append(f"mig {device['uuid']}: of job {job}, whose epilog was over")
for node in numbers:
    for device in json.loads((root / node / "after").read_text())["devices"]:
        if device["state"] != "free" or device["holders"]:
            kept.append(f"{node} {device['uuid']}: {device['state']}")
    kept += [f"{node} {path.name}" for path in (root / node / "run").iterdir() if path.name.startswith("slurm-")]
drained = (root / "drained").read_text().splitlines() if (root / "drained").exists() else []
programs = sum(len(start.ran) for start in starts)

print(f"jobs {len(last)}, starts {len(starts)}, programs {programs}, disturbed {dict(Counter(line.split()[0] for line in text.splitlines()))}")
print("| | |\n| --- | --- |")
print(f"| devices used that were not granted | {len(foreign)} |")
print(f"| two jobs on one device | {len(doubled)} |")
print(f"| two programs of a job on one device | {len(shared)} |")
print(f"| jobs with fewer programs than promised | {len(short)} |")
print(f"| reservations left to a later prolog, as Slurm started no epilog or it was killed | {len(late)} |")
print(f"| devices or marks kept after all jobs and that prolog | {len(kept)} |")
print(f"| drained nodes | {len(drained)} |")
for line in foreign[:10] + doubled[:10] + shared[:10] + kept[:10] + drained[:10]:
    print("   ", line)
for (kind, partition, why), count in Counter((s.kind, s.partition, s.reason()) for s in short).most_common(40):
    print(f"    {count} {kind} in {partition}: {why}")

print("\n| step starts, ms | number | median | worst |\n| --- | --- | --- | --- |")
times = defaultdict(list)
for start in starts:
    for partition, value in re.findall(r"^(?:\d+: )?STARTED (\S+) (\d+)$", start.words, re.M):
        times[f"{partition}, load"].append(int(value))
for line in (root / "quiet").read_text().splitlines():
    _, partition, value = line.split()
    times[f"{partition}, quiet"].append(int(value))
for name, values in sorted(times.items()):
    print(f"| {name} | {len(values)} | {statistics.median(values):.0f} | {max(values)} |")
# slurmd gives this reason too when its own message about the prolog is lost: then its log names no hook that failed.
logs = [(root / "log" / node).read_text(errors="replace") for node in numbers]
hooks_failed = any(re.search("(pro|epi)log failed", log) for log in logs)
failed_hooks = hooks_failed and [line for line in drained if re.search("Prolog|Epilog", line)]
# What a killed slurmd takes with it says nothing; without disturbances every job has what it was promised.
sys.exit(bool(foreign or doubled or shared or kept or failed_hooks or (short and not disturbed)))
