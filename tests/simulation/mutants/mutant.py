"""A deliberate bug: a function of the code with a few words changed.

It is a patch of the source, so it fails to apply when the words are not there any more, or are
there twice: a mutant of code that has moved on proves nothing.
"""

from __future__ import annotations
import __future__

import inspect
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from ottla.testing.simulation.client import Refused
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import run_plan

Run = Callable[[int], list[str]]
"""The problems that a seed finds."""


class Change(NamedTuple):
    function: Callable[..., Any]
    was: str
    becomes: str


class Mutant(NamedTuple):
    name: str
    bug: str
    """What it does wrong, and the past bug that it stands for."""
    changes: tuple[Change, ...]
    run: Run
    seed: int = 0
    """One that finds it: tried first."""

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        for function, was, becomes in self.changes:
            change(patch, function, was, becomes)


def under(*fault_kinds: str, **plan: Any) -> Run:
    """A whole cluster, under the faults that aim at the bug. What else a seed may draw, and which
    has nothing to do with it, is left out."""

    def run(seed: int) -> list[str]:
        drawn: dict[str, Any] = {
            "fault_kinds": fault_kinds,
            "broker_count": 3,
            "workload_s": 8.0,
            "session_timeout_s": 0.6 if seed % 2 else 1.5,
            "skew_ms_max": 0,
            "has_slow_disks": False,
            "has_admin": False,
            "has_rivals": False,
            "has_priorities": False,
            "is_consumer_protocol": False,
            "topic_config": {"internal.segment.bytes": "1024" if seed % 3 else str(1 << 20)},
        }
        return run_plan(replace(draw_plan(seed), **drawn | plan)).problems

    return run


def playing(play: Callable[[int], object]) -> Run:
    """Something that is done in order. A client that is refused for good has lost something."""

    def run(seed: int) -> list[str]:
        try:
            play(seed)
        except (AssertionError, pytest.fail.Exception, TimeoutError, Refused) as error:
            return [f"{type(error).__name__}: {error}"]
        return []

    return run


def change(patch: pytest.MonkeyPatch, function: Callable[..., Any], was: str, becomes: str) -> None:
    """Until the patch is undone, also for those who have imported the function by its name."""
    function = inspect.unwrap(function)  # Tests look who calls some of them (`loop_thread.py`).
    assert isinstance(function, FunctionType), f"{function} is no function"
    source = inspect.getsource(function)
    count = source.count(was)
    assert count == 1, f"{function.__qualname__} has {was!r} {count} times: the patch does not fit"
    changed = source.replace(was, becomes)
    space: dict[str, Any] = {}
    code = compile(
        f"if True:\n{changed}" if changed[0].isspace() else changed,
        function.__code__.co_filename,
        "exec",
        flags=__future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    exec(code, {**function.__globals__}, space)
    made = space[function.__name__]
    if isinstance(made, property):
        made = made.fget
    assert isinstance(made, FunctionType), f"{function.__qualname__} has become {made}"
    patch.setattr(function, "__code__", made.__code__)
