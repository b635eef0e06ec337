"""Time, files, sockets, randomness and threads are reached through the kernel's seams only, so
that a whole broker can run on fakes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SRC = ROOT / "src" / "ottla"

# They are the seams' other side, or start processes of their own.
OUTSIDE = (
    *("kernel/", "cli/", "console/", "pipeline/", "testing/"),
    *("__main__.py", "broker.py", "broker_process.py"),
)

WORLD = frozenset({"os", "io", "time", "socket", "select", "selectors", "ssl", "threading"})
WORLD |= {"subprocess", "multiprocessing", "concurrent", "shutil", "tempfile", "pathlib", "fcntl"}
WORLD |= {"glob", "secrets", "uuid", "datetime", "signal", "random"}

# Pure, or only a type.
HARMLESS = frozenset({"os.path", "random.Random", "uuid.UUID"})

# The coordination store is a seam itself, and simulated as a whole; these are its real sides.
ALLOWED = {
    "client/blocking.py": {"socket", "time"},  # For the pipeline, which waits; brokers do not.
    "coordination/boot.py": {"open", "os"},  # All it does is to ask the machine.
    "coordination/sqlite_database.py": {"os", "time"},
    "coordination/wakeup.py": {"os", "socket"},
    "coordination/zookeeper_session.py": {"threading", "time"},
}


def test_the_world_is_reached_through_the_seams() -> None:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        name = path.relative_to(SRC).as_posix()
        if name.startswith(OUTSIDE):
            continue
        allowed = ALLOWED.get(name, set())
        found += [
            f"{path.relative_to(ROOT)}:{line}: {what}"
            for line, what in sorted(_reaches(ast.parse(path.read_text())))
            if what.split(".")[0] not in allowed
        ]
    assert not found, "pass it in through the constructor:\n" + "\n".join(found)


def test_the_check_sees_what_it_should() -> None:
    source = """
import os
import random
import time as clock
from threading import Thread
import os.path
def f(rng: random.Random, path: str) -> None:
    open(path)
    os.path.join(path, "x")
    os.unlink(path)
    random.random()
    clock.time()
"""
    assert [what for _, what in sorted(_reaches(ast.parse(source)))] == [
        "threading.Thread",
        "open",
        "os.unlink",
        "random.random",
        "time.time",
    ]


def _reaches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.asname:
                    aliases[name.asname] = name.name
                else:
                    top = name.name.split(".")[0]
                    aliases[top] = top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                what = f"{node.module}.{name.name}"
                if _is_world(what):
                    yield node.lineno, what
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"open", "input"} and node.func.id not in aliases:
                yield node.lineno, node.func.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            what = f"{aliases.get(node.value.id, '')}.{node.attr}"
            if _is_world(what):
                yield node.lineno, what


def _is_world(what: str) -> bool:
    return what.split(".")[0] in WORLD and what not in HARMLESS
