"""A device for this process: reserved by getgpu until it is released or the process exits, however it exits.

The reservation is `getgpu --hold=PID` under a tag that no other lease has, so that releasing it gives up nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import secrets
import shlex
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from . import _cuda, _programs, _restart
from ._errors import CudaInitialized, CudawrapError, NoDeviceFree, UsageError
from ._options import Share, Wait, choosing

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Lease:
    """One or several devices that are reserved for this process; also a context manager, `async` or not."""

    # Whether leaving a `with` block keeps it.
    _stays = False

    def __init__(self, uuids: Sequence[str], tag: str, in_environment: bool) -> None:
        self._uuids = tuple(uuids)
        self._tag = tag
        self._in_environment = in_environment
        self._outer: contextvars.Token[Lease | None] | None = None
        self._pid = os.getpid()
        self._open = True
        self._guard = threading.Lock()

    @property
    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of the devices, as CUDA_VISIBLE_DEVICES takes them."""
        return self._uuids

    @property
    def is_active(self) -> bool:
        """Whether the lease is this process's and has not been released. A limit of the site may end it before."""
        return self._open and self._pid == os.getpid()

    @property
    def wanted(self) -> bool:
        """Whether another call waits for a device now: a long job can end after a checkpoint and make room.

        The queue does not say which devices a waiter could use, so every waiter counts that was not started by this
        process, and that does not wait for a limit of its user. False after `release()`.
        """
        if not self._open:
            return False
        try:
            said = _programs.getgpu(["--wanted"])
        except NoDeviceFree:
            return False
        # The status of an older getgpu may have been lost, and its text begins with how many wait.
        return said[:1].isdigit()

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
        release(self._tag)

    def __enter__(self) -> Lease:
        if not self._open:
            raise CudawrapError("this lease has been released", "cudawrap.lease() makes another one")
        # In the environment it is for all that is started, and hides one that is not.
        self._outer = _current.set(None if self._in_environment else self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        if not self._stays:
            self.release()

    async def __aenter__(self) -> Lease:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        if not self._stays:
            await asyncio.to_thread(self.release)

    def _leave(self) -> None:
        if self._outer is not None:
            # An asynchronous fixture may end in another context, where there is nothing to put back.
            with contextlib.suppress(ValueError):
                _current.reset(self._outer)
            self._outer = None

    def __repr__(self) -> str:
        state = "" if self.is_active else ", released"
        return f"<cudawrap.Lease {','.join(self._uuids)}{state}>"


def lease(
    count: int | str = 1,
    *,
    share: Share | None = None,
    min_memory: str | int | None = None,
    profile: str | Sequence[str] | None = None,
    wait: Wait | None = None,
    gpu: int | str | None = None,
    policy: str | None = None,
    model: str | Sequence[str] | None = None,
    prefer_model: str | Sequence[str] | None = None,
    env: bool = True,
    tag: str | None = None,
    ignore_grant: bool = False,
    once: bool = False,
) -> Lease:
    """Reserves `count` free devices for this process until it exits; "2..4": as many as there are, at least two.

    An inherited CUDA_VISIBLE_DEVICES is a grant: only its devices are chosen from. A second lease of this process
    takes another device of the same grant.

    :param share: a part of a device, such as "1/2", 0.25 or "10G".
    :param min_memory: only devices with at least that much, such as "10G".
    :param profile: only MIG devices of this profile, or of one of these.
    :param gpu: only devices of this GPU: its number, UUID or PCI bus id.
    :param model: only devices on GPUs with this in their name, such as "H100", or with one of these.
    :param prefer_model: devices on GPUs with this in their name if there are any free, else any that fit.
    :param policy: which of the free devices, such as "pack" (`cudawrap --help` lists them).
    :param wait: True: queue without end; a number of seconds or "1h": that long; None: as the settings say.
    :param env: set CUDA_VISIBLE_DEVICES, and with a share the variables by which frameworks limit their memory.
    :param ignore_grant: choose among all devices, and not only those of an inherited CUDA_VISIBLE_DEVICES.
    :param once: one lease for the process: a later call with the same arguments gives this one again, and leaving a
        `with` block keeps it, as the tasks of a worker that lives on need it.
    :param tag: a name for listings, metrics and the log; None: that of CUDAWRAP_TAG.
    """
    if once:
        return _once.lease(
            env=env,
            count=count,
            share=share,
            min_memory=min_memory,
            profile=profile,
            wait=wait,
            gpu=gpu,
            policy=policy,
            model=model,
            prefer_model=prefer_model,
            tag=tag,
            ignore_grant=ignore_grant,
        )
    user = _cuda.initialized() if env else None
    if user is not None:
        raise CudaInitialized(
            f"CUDA is initialised already in this process (by {user}), so {VISIBLE} has no effect any more",
            "call cudawrap.lease() before the first CUDA call, or start the program by cudawrap",
        )
    if env and _cuda.forkserver_runs():
        raise CudaInitialized(
            f"the forkserver of multiprocessing runs already, so the workers that it forks have no {VISIBLE} of this lease",
            "call cudawrap.lease() before the first worker starts, or in each worker; for a program that needs the device"
            " alone: cudawrap.run()",
        )
    words = choosing(count, share, min_memory, profile, wait, gpu, policy, model, prefer_model)
    words += ["--ignore-grant"] if ignore_grant else []
    shown = {} if tag is None else {"CUDAWRAP_TAG": tag}
    environment = {**_variables.before(), **shown}
    former = _variables.former() if env else None
    try:
        name, variables = _reserve_again(words, environment, former) or reserve(words, environment)
    except NoDeviceFree as error:
        held = _variables.visible()
        if held is None:
            raise
        text = f"{error.message}; this process holds {held}"
        raise type(error)(text, "lease(once=True) gives a process the same lease again") from None
    if env:
        _variables.add(name, variables)
    return Lease(variables[VISIBLE].split(","), name, in_environment=env)


def current() -> Lease | None:
    """The lease of the innermost `with lease(env=False)` around the caller, in its thread or task, also in a forked child."""
    lease = _current.get()
    return lease if lease is not None and lease._open else None


def visible() -> str | None:
    """The devices of the innermost lease around the caller, of either kind, as CUDA_VISIBLE_DEVICES has them."""
    lease = current()
    return _variables.visible() if lease is None else ",".join(lease.uuids)


def _reserve_again(words: Sequence[str], environment: dict[str, str], tag: str | None) -> tuple[str, dict[str, str]] | None:
    """What the program that this process executed before has reserved; None: nothing, or other things, which end."""
    if tag is not None:
        with contextlib.suppress(UsageError):
            return reserve(words, environment, tag)
        _variables.remove(tag)
        release(tag)
    return None


def reserve(words: Sequence[str], environment: dict[str, str], tag: str | None = None) -> tuple[str, dict[str, str]]:
    """Reserves for this process what `words` choose; gives the tag and the variables for a program."""
    tag = tag or f"python-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(4)}"
    hold = ["--as-lease", f"--hold={os.getpid()}", f"--tag={tag}", "--format=task"]
    try:
        return tag, _exports(_programs.getgpu([*hold, *words], environment, wants_output=True))
    except CudawrapError:
        raise
    except BaseException:
        # An interrupt: getgpu may have been killed after it had reserved and before it could say so.
        release(tag)
        raise


def _exports(text: str) -> dict[str, str]:
    """The variables in lines of the form `export NAME=VALUE`."""
    pairs = [word.partition("=") for line in text.splitlines() for word in shlex.split(line)[1:]]
    return {name: value for name, _, value in pairs}


def release(tag: str) -> None:
    """Gives up what is reserved under a tag."""
    try:
        _programs.getgpu([f"--release={tag}", "--quiet"])
    except NoDeviceFree:
        # Nothing is reserved under the tag: somebody has released it before, or the hold's time was limited.
        pass


class _Variables:
    """What the leases of this process have set in os.environ, so that each can be taken away in any order."""

    def __init__(self) -> None:
        self._begin(*_restart.found())

    def forget(self) -> None:
        """In a forked child: what the parent has set is what this process inherits."""
        self._begin({}, {})

    def _begin(self, leases: _restart.Set, original: _restart.Original) -> None:
        """The guard is new, since a thread that does not exist in a forked child may have held the old one."""
        self._guard = threading.Lock()
        self._set = leases
        self._original = original
        # Of the program that this process executed before: those which this one has not asked for again.
        self._former = list(leases)

    def former(self) -> str | None:
        """The tag of the first lease that a program before has made, for one call."""
        with self._guard:
            return self._former.pop(0) if self._former else None

    def before(self) -> dict[str, str]:
        """The environment without what leases of this process have set: they are not its grant."""
        with self._guard:
            environment = dict(os.environ)
            for name, value in self._original.items():
                if self._is_of_lease(name):
                    _put(environment, name, value)
            return environment

    def visible(self) -> str | None:
        """What the latest lease in the environment has set CUDA_VISIBLE_DEVICES to."""
        with self._guard:
            values = [variables[VISIBLE] for variables in self._set.values() if VISIBLE in variables]
            return values[-1] if values else None

    def _is_of_lease(self, name: str) -> bool:
        """Whether a lease has set what the variable is now, and not the program itself since."""
        value = os.environ.get(name)
        return any(name in variables and variables[name] == value for variables in self._set.values())

    def add(self, tag: str, variables: dict[str, str]) -> None:
        with self._guard:
            for name in variables:
                if not self._is_of_lease(name):
                    # Set by the program since: what comes back, instead of what leases had set before.
                    self._original[name] = os.environ.get(name)
                    for earlier in self._set.values():
                        earlier.pop(name, None)
            self._set[tag] = dict(variables)
            os.environ.update(variables)
            _restart.leave(self._set, self._original)

    def remove(self, tag: str) -> None:
        """Leaves what the latest other lease has set, else what was there before the first.

        What the program has set itself since stays.
        """
        with self._guard:
            own = self._set.get(tag, {})
            changed = {name for name in own if not self._is_of_lease(name)}
            self._set.pop(tag, None)
            for name in own:
                others = [variables[name] for variables in self._set.values() if name in variables]
                value = others[-1] if others else self._original.pop(name)
                if name not in changed:
                    _put(os.environ, name, value)
            _restart.leave(self._set, self._original)


class _Once:
    """The lease that a process makes once, whatever calls for it."""

    def __init__(self) -> None:
        self._lease: Lease | None = None
        self.forget()

    def forget(self) -> None:
        """In a forked child: the lease is the parent's."""
        self._guard = threading.Lock()
        self._lease = None
        self._arguments: dict[str, object] = {}

    def lease(self, **arguments: Any) -> Lease:
        with self._guard:
            if self._lease is not None and self._lease.is_active:
                if arguments != self._arguments:
                    held = ",".join(self._lease.uuids)
                    raise CudawrapError(
                        f"this process has leased {held} once, with other arguments",
                        "release() it first, or leave out once=True",
                    )
                return self._lease
            self._lease = lease(**arguments)
            self._lease._stays = True
            self._arguments = arguments
            return self._lease


def _put(environment: dict[str, str] | os._Environ[str], name: str, value: str | None) -> None:
    if value is None:
        environment.pop(name, None)
    else:
        environment[name] = value


_numbers = itertools.count(1)
_current: contextvars.ContextVar[Lease | None] = contextvars.ContextVar("cudawrap.lease", default=None)
_variables = _Variables()
_once = _Once()
if hasattr(os, "register_at_fork"):  # Not on Windows, where the package can be imported and no more.
    os.register_at_fork(after_in_child=_variables.forget)
    os.register_at_fork(after_in_child=_once.forget)
