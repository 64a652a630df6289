"""The options of getgpu and cudawrap for the arguments of lease() and run()."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

Share = Union[str, float, int]
Wait = Union[bool, str, float, int]


def choosing(
    count: int | str,
    share: Share | None,
    min_memory: str | int | None,
    profile: str | Sequence[str] | None,
    wait: Wait | None,
    gpu: int | str | None = None,
    policy: str | None = None,
    model: str | Sequence[str] | None = None,
    prefer_model: str | Sequence[str] | None = None,
) -> list[str]:
    """Words for the command line. What they mean is checked by the program itself."""
    words = [f"--count={count}"] if count != 1 else []
    if share is not None:
        words.append(f"--share={share}")
    if min_memory is not None:
        words.append(f"--min-memory={min_memory}")
    words += [f"--profile={name}" for name in _each(profile)]
    words += [f"--model={name}" for name in _each(model)]
    words += [f"--prefer-model={name}" for name in _each(prefer_model)]
    if gpu is not None:
        words.append(f"--gpu={gpu}")
    if policy is not None:
        words.append(f"--policy={policy}")
    if wait is True:
        words.append("--wait")
    elif wait is not None:
        words.append(f"--wait={0 if wait is False else wait}")
    return words


def _each(names: str | Sequence[str] | None) -> Sequence[str]:
    return [names] if isinstance(names, str) else names or []
