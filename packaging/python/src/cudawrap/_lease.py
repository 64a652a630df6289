"""A device for this process: reserved by getgpu until it is released or the process exits, however it exits.

The reservation is `getgpu --hold=PID` under a tag that no other lease has, so that releasing it gives up nothing else.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shlex
import threading
from collections.abc import Sequence
from types import TracebackType

from . import _cuda, _programs
from ._errors import CudaInitialized, CudawrapError, NoDeviceFree
from ._options import Share, Wait, choosing

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Lease:
    """One or several devices that are reserved for this process; also a context manager."""

    def __init__(self, uuids: Sequence[str], tag: str) -> None:
        self._uuids = tuple(uuids)
        self._tag = tag
        self._pid = os.getpid()
        self._open = True
        self._guard = threading.Lock()

    @property
    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of the devices, as CUDA_VISIBLE_DEVICES takes them."""
        return self._uuids

    def release(self) -> None:
        """Gives the devices back and puts the environment back.

        In a forked child it does nothing: the lease is the parent's.
        """
        if self._pid != os.getpid():
            return
        with self._guard:
            if not self._open:
                return
            self._open = False
        _variables.remove(self._tag)
        _release(self._tag)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "" if self._open else ", released"
        return f"<cudawrap.Lease {','.join(self._uuids)}{state}>"


def lease(
    count: int = 1,
    *,
    share: Share | None = None,
    min_memory: str | int | None = None,
    profile: str | Sequence[str] | None = None,
    wait: Wait | None = None,
    env: bool = True,
) -> Lease:
    """Reserves `count` free devices for this process until it exits.

    An inherited CUDA_VISIBLE_DEVICES is a grant: only its devices are chosen from. A second lease of this process
    takes another device of the same grant.

    :param share: a part of a device, such as "1/2", 0.25 or "10G".
    :param min_memory: only devices with at least that much, such as "10G".
    :param profile: only MIG devices of this profile, or of one of these.
    :param wait: True: queue without end; a number of seconds or "1h": that long; None: as the settings say.
    :param env: set CUDA_VISIBLE_DEVICES, and with a share the variables by which frameworks limit their memory.
    """
    user = _cuda.initialized() if env else None
    if user is not None:
        raise CudaInitialized(
            f"CUDA is initialised already in this process (by {user}), so {VISIBLE} has no effect any more",
            "call cudawrap.lease() before the first CUDA call, or start the program by cudawrap",
        )
    tag = f"python-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(4)}"
    words = [f"--hold={os.getpid()}", f"--tag={tag}", "--format=task"]
    words += choosing(count, share, min_memory, profile, wait)
    try:
        variables = _exports(_programs.getgpu(words, _variables.before()))
    except CudawrapError:
        raise
    except BaseException:
        # An interrupt: getgpu may have been killed after it had reserved and before it could say so.
        _release(tag)
        raise
    if env:
        _variables.add(tag, variables)
    return Lease(variables[VISIBLE].split(","), tag)


def _exports(text: str) -> dict[str, str]:
    """The variables in lines of the form `export NAME=VALUE`."""
    pairs = [word.partition("=") for line in text.splitlines() for word in shlex.split(line)[1:]]
    return {name: value for name, _, value in pairs}


def _release(tag: str) -> None:
    try:
        _programs.getgpu([f"--release={tag}", "--quiet"])
    except NoDeviceFree:
        # Nothing is reserved under the tag: somebody has released it before, or the hold's time was limited.
        pass


class _Variables:
    """What the leases of this process have set in os.environ, so that each can be taken away in any order."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked child: what the parent has set is what this process inherits.

        The guard is new, since a thread that does not exist here may have held the old one.
        """
        self._guard = threading.Lock()
        self._set: dict[str, dict[str, str]] = {}
        self._original: dict[str, str | None] = {}

    def before(self) -> dict[str, str]:
        """The environment without what leases of this process have set: they are not its grant."""
        with self._guard:
            environment = dict(os.environ)
            for name, value in self._original.items():
                _put(environment, name, value)
            return environment

    def add(self, tag: str, variables: dict[str, str]) -> None:
        with self._guard:
            for name in variables:
                self._original.setdefault(name, os.environ.get(name))
            self._set[tag] = variables
            os.environ.update(variables)

    def remove(self, tag: str) -> None:
        """Leaves what the latest other lease has set, else what was there before the first."""
        with self._guard:
            for name in self._set.pop(tag, {}):
                others = [variables[name] for variables in self._set.values() if name in variables]
                if others:
                    os.environ[name] = others[-1]
                else:
                    _put(os.environ, name, self._original.pop(name))


def _put(environment: dict[str, str] | os._Environ[str], name: str, value: str | None) -> None:
    if value is None:
        environment.pop(name, None)
    else:
        environment[name] = value


_numbers = itertools.count(1)
_variables = _Variables()
os.register_at_fork(after_in_child=_variables.forget)
