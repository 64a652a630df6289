"""Enumerates a simulated node by NVIDIA's own Python binding and compares it with what its node.toml says.

Usage: SIM_NODE=DIR enumerate.py; the file is read here independently of the simulator. Exit status 1 on a difference.
"""

import os
import re
import sys
import tomllib

import pynvml as nvml


def written(spec):
    """The (GI, MIG index, profile) triples of a GPU as written; GI and index are None where left to the simulator."""
    found = []
    for item in spec.get("layout", "").split(","):
        if item.strip():
            count, profile = re.fullmatch(r"(?:(\d+)x)?(.+)", item.strip()).groups()
            found += [(None, None, profile)] * int(count or 1)
    found += [(d["gi"], d.get("index"), d["profile"]) for d in spec.get("device", [])]
    return found


def answered(gpu):
    """The same triples as the library answers, with checks of what every MIG device must have."""
    found = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError_NotFound:
            continue
        uuid, name = nvml.nvmlDeviceGetUUID(mig), nvml.nvmlDeviceGetName(mig)
        again = nvml.nvmlDeviceGetHandleByUUID(uuid)
        memory, attributes = nvml.nvmlDeviceGetMemoryInfo(mig), nvml.nvmlDeviceGetAttributes(mig)
        assert nvml.nvmlDeviceGetUUID(again) == uuid
        assert nvml.nvmlDeviceGetIndex(mig) == index
        assert nvml.nvmlDeviceIsMigDeviceHandle(mig).value == 1
        parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
        assert nvml.nvmlDeviceGetUUID(parent) == nvml.nvmlDeviceGetUUID(gpu)
        assert memory.total == memory.used + memory.free and 12 <= memory.used >> 20 <= 44
        if int(nvml.nvmlSystemGetDriverVersion().split(".")[0]) >= 510:
            assert nvml.nvmlDeviceGetMemoryInfo(mig, version=nvml.nvmlMemory_v2).total == memory.total
        assert attributes.memorySizeMB == memory.total >> 20 and attributes.multiprocessorCount > 0
        assert name.startswith(nvml.nvmlDeviceGetName(gpu) + " MIG "), name
        found.append((nvml.nvmlDeviceGetGpuInstanceId(mig), index, name.rsplit(" ", 1)[1]))
    return found


def mode(gpu):
    try:
        return nvml.nvmlDeviceGetMigMode(gpu)[0] == 1
    except nvml.NVMLError_NotSupported:
        return False


def main():
    with open(os.path.join(os.environ["SIM_NODE"], "node.toml"), "rb") as file:
        node = tomllib.load(file)
    specs = [spec for spec in node.get("gpu", []) for _ in range(spec.get("count", 1))]
    nvml.nvmlInit()
    assert nvml.nvmlSystemGetDriverVersion() == node["driver"]
    assert nvml.nvmlDeviceGetCount() == len(specs)
    total = 0
    for number, spec in enumerate(specs):
        gpu = nvml.nvmlDeviceGetHandleByIndex(number)
        assert spec["model"].split("-")[0] in nvml.nvmlDeviceGetName(gpu)
        assert mode(gpu) == spec.get("mig", False)
        want, have = written(spec), answered(gpu)
        same = len(want) == len(have) and all(
            w[2] == h[2] and w[0] in (None, h[0]) and w[1] in (None, h[1])
            for w, h in zip(want, have)
        )
        if not same:
            sys.exit(f"GPU {number}: written {want}, answered {have}")
        total += len(have)
    nvml.nvmlShutdown()
    print(f"{len(specs)} GPUs, {total} MIG devices")


main()
