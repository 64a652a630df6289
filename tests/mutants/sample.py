#!/usr/bin/env python3
"""Draws changes to the files that meet the system, and runs the tests that touch each file.

sample.py SEED COUNT [FIRST]: needs cargo-mutants, which lists the changes; each is made in a copy of the
sources below target/mutants, built, and has to fail the unit tests of its crate or a theme of its file.
"""

import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Which themes of tests/suite (or of the crate itself, after a colon) touch a file; the first that fails ends it.
THEMES = {
    "common/lock/src/ofd_lock.rs": ["device_choice", "error_injection", "leases", "reservations"],
    "common/lock/src/lock_file.rs": ["security", "error_injection", "device_choice"],
    "common/lock/src/claim.rs": ["leases", "device_choice", "error_injection", "reservations"],
    "common/lock/src/holders.rs": ["listing", "leases", "reservations", "site_policy", "security", "slurm"],
    "common/lock/src/kept.rs": ["queue", "listing"],
    "common/queue/src/keeping.rs": ["queue"],
    "common/queue/src/ticket.rs": ["queue", "error_injection"],
    "common/queue/src/waiter.rs": ["queue", "leases"],
    "common/choose/src/choice/cap.rs": ["site_policy", "error_injection"],
    "common/nvml/src/session.rs": ["listing", "nvml_faults", "device_choice", "leases", "ranks_and_cpus"],
    "common/nvml/src/usage.rs": ["listing", "nvml_faults", "device_choice"],
    "common/nvml/src/device_files.rs": ["nvml_faults", "device_choice", "security"],
    "getgpu/core/src/holder/lifecycle.rs": ["reservations", "leases"],
    "getgpu/core/src/holder/proc_scanner.rs": ["reservations", "leases"],
    "getgpu/core/src/holder/start.rs": ["reservations", "error_injection"],
    "getgpu/core/src/release.rs": ["reservations", "listing", "slurm"],
    "common/choose/src/take/named.rs": ["leases", "ranks_and_cpus", "error_injection", "slurm"],
    "cudawrap/src/start/linked.rs": ["invocation", "leases", "transparency"],
    "cudawrap/src/ranks/apply_rank.rs": ["ranks_and_cpus"],
    "create-cudawrap/src/plan.rs": [":plans", ":commands"],
    "create-cudawrap/src/apply.rs": [":plans", ":commands", ":crash_safety"],
    "create-cudawrap/src/inspect.rs": [":commands", ":plans"],
    "create-cudawrap/src/dirlock.rs": [":commands", ":crash_safety"],
}
# What nothing outside sees: texts for a person who debugs.
LEFT_OUT = "impl (std::fmt::)?Debug"
SECONDS = 300
UNIT_TEST_SECONDS = 90
# linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36


def end_descendants():
    """Kills what a run of tests has left: processes whose parent is gone are children of this one."""
    while True:
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not children:
            return
        for child in children:
            try:
                os.kill(int(child), signal.SIGKILL)
                os.waitpid(int(child), 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def reap(run):
    """Waits for orphans, as init does: a thousand zombies make each look at /proc, under a tracer, too slow for a test."""
    while (seen := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and seen.si_pid != run.pid:
        os.waitpid(seen.si_pid, 0)


def cargo(tree, *words, limit=SECONDS):
    """The exit status of cargo in the copy, and the first test that failed, which ends the run; a test that hangs has failed."""
    with tempfile.TemporaryFile("w+b") as output:
        # In a group of its own, for a change that makes a test end its whole group.
        run = subprocess.Popen(["cargo", *words], cwd=tree, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            deadline = time.monotonic() + limit
            while time.monotonic() < deadline:
                reap(run)
                ended = run.poll() is not None
                said = os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace")
                failed = re.search(r"^test (\S+) .*\.\.\. FAILED$", said, re.M)
                if failed:
                    return 101, failed[1]
                if ended:
                    return run.returncode, ""
                time.sleep(0.05)
            return 124, "it hangs"
        finally:
            end_descendants()


def fate(tree, file):
    """Which tests see the change that is in the copy."""
    crate = next(part for part in pathlib.Path(file).parents if (tree / part / "Cargo.toml").exists())
    package = json.loads(
        subprocess.check_output(["cargo", "read-manifest", "--manifest-path", tree / crate / "Cargo.toml"])
    )["name"]
    if cargo(tree, "build", "--workspace", "--locked")[0]:
        return "does not build"
    targets = {"lib.rs": "--lib", "main.rs": "--bins"}
    targets = [option for name, option in targets.items() if (tree / crate / "src" / name).exists()]
    cargo(tree, "test", "--no-run", "--locked", "-p", package, *targets)
    status, failed = cargo(tree, "test", "--locked", "-p", package, *targets, limit=UNIT_TEST_SECONDS)
    if status:
        return f"killed by unit tests: {failed}"
    for theme in THEMES[file]:
        of = package if theme.startswith(":") else "getgpu-tests"
        words = ["test", "--locked", "--no-fail-fast", "-p", of, "--test", theme.lstrip(":"), "--", "--test-threads", "4"]
        status, failed = cargo(tree, *words)
        if status:
            return f"killed by {theme.lstrip(':')}: {failed}"
    return "SURVIVED"


def main():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    root = pathlib.Path(__file__).resolve().parents[2]
    files = [word for file in THEMES for word in ("-f", file)]
    words = ["cargo", "mutants", "--workspace", "--no-config", "--list", "--json", "--diff", "--exclude-re", LEFT_OUT, *files]
    changes = json.loads(subprocess.check_output(words, cwd=root))
    changes.sort(key=lambda change: (change["file"], change["name"]))
    drawn = random.Random(seed).sample(changes, min(count, len(changes)))
    tree = root / "target/mutants/tree"
    tree.mkdir(parents=True, exist_ok=True)
    print(f"seed {seed}: {len(drawn)} of {len(changes)} changes, from number {first}", flush=True)
    for number, change in enumerate(drawn[first:], first):
        listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, text=True)
        for name in filter(None, listed.split("\0")):
            source, copy = root / name, tree / name
            if not source.exists() or (copy.exists() and copy.read_bytes() == source.read_bytes()):
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
            copy.touch()
        subprocess.run(["patch", "-s", tree / change["file"]], input=change["diff"], text=True, check=True)
        started = time.monotonic()
        seen = fate(tree, change["file"])
        print(f"{number}\t{change['name']}\t{seen}\t{time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
