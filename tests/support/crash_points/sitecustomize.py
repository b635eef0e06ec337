"""On PYTHONPATH, this makes a program of Spark's die at a point in its Python, as kill -9 of its
driver would. Every Python of the program imports it when it starts: the driver, the processes that
plan and commit, the workers.

OTTLA_CRASH_POINT names the point: "before MODULE:FUNCTION" or "after MODULE:CLASS.METHOD". Whoever
gets there first kills the JVM, the driver's Python, and itself.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

CRASH_POINT = "OTTLA_CRASH_POINT"


def crash() -> NoReturn:
    import psutil

    here = psutil.Process()
    # The JVM is above a worker, and below the driver; beside the parent of a worker that is a fork.
    beside = [child for parent in here.parents() for child in parent.children()]
    family = [*here.parents(), *here.children(recursive=True), *beside]
    for jvm in [one for one in family if one.name() == "java"][:1]:
        driver = jvm.parent()
        jvm.send_signal(signal.SIGKILL)
        if driver is not None and driver.pid != here.pid and "python" in driver.name():
            driver.send_signal(signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives that")


def crashing(function: Callable[..., Any], is_before: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        if not is_before:
            function(*args, **options)
        crash()

    return wrapped


class Patching(importlib.abc.MetaPathFinder):
    """Finds the one module as it is, and patches it when it has been loaded."""

    def __init__(self, point: str) -> None:
        when, _, where = point.partition(" ")
        assert when in ("before", "after"), point
        self._is_before = when == "before"
        self._module, _, self._name = where.partition(":")

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None, f"there is no module {name}"
        assert spec.loader is not None, f"{name} is no module"
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self.patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def patch(self, module: ModuleType) -> None:
        *outer, last = self._name.split(".")
        owner = functools.reduce(getattr, outer, module)
        setattr(owner, last, crashing(getattr(owner, last), self._is_before))


if (_POINT := os.environ.get(CRASH_POINT)) is not None:
    sys.meta_path.insert(0, Patching(_POINT))
