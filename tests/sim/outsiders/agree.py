"""Compares `getgpu --list --json` device by device with what other people's readers of NVML say of the same node.

Usage: agree.py LISTING [nvidia-smi]. LISTING is the file with getgpu's output; NVML is the library that the dynamic loader finds.
The readers are NVIDIA's nvidia-ml-py, nvitop, nvisel and gpustat, and NVIDIA's own nvidia-smi where it is named. Prints a line for each
reader; exit status 1 with the difference.
"""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import gpustat
import nvitop
import pynvml as nvml

MIB = 1 << 20


def fail(reader, what, ours, theirs):
    sys.exit(f"{reader}: {what}:\n  getgpu: {ours}\n  {reader}: {theirs}")


def equal(reader, what, ours, theirs):
    if ours != theirs:
        fail(reader, what, ours, theirs)


def value(question, *arguments):
    """What NVML answers, or None where it has no answer, which getgpu prints as null."""
    try:
        return question(*arguments)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, nvml.NVMLLibraryMismatchError):
        return None


def pids(handle):
    """The processes on a device; None where this binding asks for a function that the driver does not have yet."""
    lists = [
        value(nvml.nvmlDeviceGetComputeRunningProcesses, handle),
        value(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle),
    ]
    return None if None in lists else [process.pid for found in lists for process in found]


def equal_processes(reader, listing, device, theirs):
    """The same processes. Drivers 535.43 to 535.86 write wider entries than nvml.h has: of these others misread all but the first."""
    ours = sorted(process["pid"] for process in device["processes"])
    if listing["driver"].startswith("535.") and int(listing["driver"].split(".")[1]) < 98:
        equal(reader, f"{device['uuid']}: number of processes", len(ours), len(theirs))
    else:
        equal(reader, f"{device['uuid']}: processes", ours, sorted(set(theirs)))


def by_binding(listing):
    """NVIDIA's Python binding: every device in NVML's order, its UUID, GPU, profile, memory and processes."""
    nvml.nvmlInit()
    found = []
    for number in range(nvml.nvmlDeviceGetCount()):
        gpu = nvml.nvmlDeviceGetHandleByIndex(number)
        if (value(nvml.nvmlDeviceGetMigMode, gpu) or [0])[0] != 1:
            found.append((number, None, gpu))
            continue
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            try:
                found.append((number, index, nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)))
            except nvml.NVMLError_NotFound:
                pass
    equal("nvidia-ml-py", "the driver", listing["driver"], nvml.nvmlSystemGetDriverVersion())
    ours = listing["devices"]
    order = [(number, index, nvml.nvmlDeviceGetUUID(handle)) for number, index, handle in found]
    equal("nvidia-ml-py", "devices", [(d["gpu"], d["mig_index"], d["uuid"]) for d in ours], order)
    compared = 0
    for device, (number, index, handle) in zip(ours, found):
        what = device["uuid"]
        parent = nvml.nvmlDeviceGetHandleByIndex(number)
        equal("nvidia-ml-py", f"{what}: its GPU", device["gpu_uuid"], nvml.nvmlDeviceGetUUID(parent))
        equal("nvidia-ml-py", f"{what}: its GPU's name", device["gpu_name"], nvml.nvmlDeviceGetName(parent))
        if index is not None:
            ids = nvml.nvmlDeviceGetGpuInstanceId(handle), nvml.nvmlDeviceGetComputeInstanceId(handle)
            equal("nvidia-ml-py", f"{what}: instances", (device["gpu_instance"], device["compute_instance"]), ids)
            name = nvml.nvmlDeviceGetName(handle)
            # Before driver 470 a MIG device has the name of its GPU.
            if " MIG " in name:
                equal("nvidia-ml-py", f"{what}: profile", device["profile"], name.rsplit(" MIG ", 1)[1])
        memory = value(nvml.nvmlDeviceGetMemoryInfo, handle)
        equal("nvidia-ml-py", f"{what}: memory", device["memory_total"], memory and memory.total)
        equal("nvidia-ml-py", f"{what}: memory in use", device["memory_used"], memory and memory.used)
        theirs = pids(handle)
        if theirs is not None:
            compared += 1
            equal_processes("nvidia-ml-py", listing, device, theirs)
    nvml.nvmlShutdown()
    return f"nvidia-ml-py: {len(ours)} devices, processes of {compared}"


def reached(listing):
    """What nvitop reaches of a listing: it stops looking for MIG devices of a GPU at the first index that has none."""
    following = {}
    for device in listing["devices"]:
        if not device["mig"] or device["mig_index"] == following.get(device["gpu"], 0):
            following[device["gpu"]] = following.get(device["gpu"], 0) + 1
            yield device


def by_nvitop(listing):
    """nvitop: MIG devices below their GPUs, and GPUs that are not in MIG mode."""
    found = []
    for gpu in nvitop.Device.all():
        found += gpu.mig_devices() if gpu.is_mig_mode_enabled() else [gpu]
    ours = list(reached(listing))
    equal("nvitop", "devices", [d["uuid"] for d in ours], [device.uuid() for device in found])
    for device, theirs in zip(ours, found):
        what = device["uuid"]
        for field, answer in (("memory_total", theirs.memory_total()), ("memory_used", theirs.memory_used())):
            equal("nvitop", f"{what}: {field}", device[field], None if answer is nvitop.NA else answer)
        equal_processes("nvitop", listing, device, theirs.processes())
    return f"nvitop: {len(ours)} devices with their processes"


def by_nvisel(listing):
    """nvisel chooses what has the most free memory: one MIG device, or all GPUs that are not in MIG mode."""
    # Not total less used: what the driver reserves for itself is neither used nor free.
    known = {d["uuid"] for d in reached(listing) if d["memory_total"] is not None}
    found = [device for gpu in nvitop.Device.all() for device in gpu.to_leaf_devices()]
    free = {device.uuid(): device.memory_free() for device in found if device.uuid() in known}
    equal("nvisel", "devices", sorted(known), sorted(free))
    used = [d["uuid"] for d in listing["devices"] if d["processes"] and d["uuid"] in free]

    def selected(*options):
        nvisel = [str(Path(sys.executable).with_name("nvisel")), "--format", "uuid", *options]
        out = subprocess.run(nvisel, capture_output=True, text=True, check=True).stdout.strip()
        return out.split(",") if out else []

    for least in [0] + [free[uuid] + 1 for uuid in used]:
        fit = {uuid: memory for uuid, memory in free.items() if memory >= least}
        theirs = selected("--min-free-memory", str(least))
        most = sorted(uuid for uuid, memory in fit.items() if memory == max(fit.values()))
        if not set(theirs) <= set(fit) or bool(theirs) != bool(fit) or (fit and theirs[0] not in most):
            fail("nvisel", f"the most free of those with {least} bytes", most, theirs)
    return f"nvisel: the most free of {len(free)} devices, and of those with more than the {len(used)} in use"


def by_gpustat(listing):
    """gpustat knows GPUs alone: their order, and the memory and processes of those that are not in MIG mode."""
    query = gpustat.new_query()
    gpus = {d["gpu"]: d["gpu_uuid"] for d in listing["devices"]}
    theirs = {gpu.index: gpu.uuid for gpu in query if gpu.index in gpus}
    equal("gpustat", "GPUs", gpus, theirs)
    whole = {d["gpu"]: d for d in listing["devices"] if not d["mig"]}
    for gpu in query:
        device = whole.get(gpu.index)
        if device is None:
            continue
        if device["memory_total"] is not None:
            equal("gpustat", f"{gpu.uuid}: memory", device["memory_total"] // MIB, gpu.memory_total)
            equal("gpustat", f"{gpu.uuid}: memory in use", device["memory_used"] // MIB, gpu.memory_used)
        if gpu.processes is not None:
            equal_processes("gpustat", listing, device, [process["pid"] for process in gpu.processes])
    return f"gpustat: {len(gpus)} GPUs, {len(whole)} of them devices"


def by_nvidia_smi(listing):
    """NVIDIA's own program: order, UUIDs and memory of the GPUs, and the UUIDs of MIG devices."""
    text = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, check=True).stdout
    gpus = ElementTree.fromstring(text).findall("gpu")
    names = {d["gpu"]: d["gpu_uuid"] for d in listing["devices"]}
    equal("nvidia-smi", "GPUs", names, {n: gpu.findtext("uuid") for n, gpu in enumerate(gpus) if n in names})
    for device in listing["devices"]:
        if device["mig"] or device["memory_total"] is None:
            continue
        total = int(gpus[device["gpu"]].findtext("fb_memory_usage/total").split()[0])
        equal("nvidia-smi", f"{device['uuid']}: memory", device["memory_total"] // MIB, total)
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    for device in listing["devices"]:
        if f"UUID: {device['uuid']})" not in listed:
            fail("nvidia-smi", "a device that it does not list", device["uuid"], listed)
    return f"nvidia-smi: {len(listing['devices'])} devices"


def main():
    listing = json.loads(Path(sys.argv[1]).read_text())
    readers = [by_binding, by_nvitop, by_nvisel, by_gpustat] + [by_nvidia_smi] * ("nvidia-smi" in sys.argv[2:])
    for reader in readers:
        print(f"  {reader(listing)}")


main()
