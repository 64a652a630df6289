"""`getgpu --list --json` as dataclasses. Names that a newer getgpu adds to schema 1 are left out."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from . import _programs
from ._errors import CudawrapError


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who holds a device, or a part of it."""

    kind: str
    """lease, reservation, claim or waiter (one that a free device is kept for)."""
    uid: int | None = None
    user: str | None = None
    pid: int | None = None
    program: str | None = None
    share: float | None = None
    memory_limit: int | None = None
    """Bytes of the GPU's memory that the driver lets its job have; None where its part is counted only."""
    since: int | None = None
    until: int | None = None
    hold: bool | None = None
    tag: str | None = None
    job: str | None = None
    task: int | None = None


@dataclasses.dataclass(frozen=True)
class Process:
    """What NVML shows on a device."""

    pid: int | None = None
    user: str | None = None
    name: str | None = None
    memory: int | None = None


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of this node. Sizes are in bytes; None where something is not known."""

    uuid: str
    state: str
    """leased, shared, reserved, busy, unknown, unhealthy, claimed, kept or free."""
    index: int | None = None
    """Its number in `getgpu --list`; None outside what this process may choose from."""
    gpu: int | None = None
    gpu_uuid: str | None = None
    gpu_name: str | None = None
    pci_bus_id: str | None = None
    mig: bool | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    mig_index: int | None = None
    profile: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    allowed: bool | None = None
    usable: bool | None = None
    excluded: bool | None = None
    share_used: float | None = None
    reason: str | None = None
    compute_mode: str | None = None
    """default, exclusive_process or prohibited."""
    health: tuple[str, ...] = ()
    """What NVML says is wrong with its GPU, or set on it."""
    empty: bool | None = None
    empty_since: int | None = None
    """Since when no program uses it, in seconds since 1970."""
    idle_since: int | None = None
    """Since when its programs compute nothing, in seconds since 1970."""
    holders: tuple[Holder, ...] = ()
    processes: tuple[Process, ...] = ()

    @property
    def free(self) -> bool:
        """Whether this process could lease the whole device now."""
        return self.state == "free" and self.index is not None


def devices() -> list[Device]:
    """All devices of this node, in the order of `getgpu --list`."""
    listing = json.loads(_programs.getgpu(["--list", "--json"]))
    if listing.get("schema") != 1:
        message = f"getgpu --list --json: schema {listing.get('schema')} is not known here"
        raise CudawrapError(message, "update the Python package")
    return [_device(entry) for entry in listing["devices"]]


def _device(entry: dict[str, Any]) -> Device:
    known = _known(Device, entry)
    known["holders"] = tuple(Holder(**_known(Holder, holder)) for holder in entry.get("holders") or [])
    known["processes"] = tuple(Process(**_known(Process, process)) for process in entry.get("processes") or [])
    return Device(**known)


def _known(kind: type, entry: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in entry.items() if name in names}
