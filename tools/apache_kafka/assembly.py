"""Fetches the jars of Apache Kafka, once."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent.parent
_POM = _HERE / "pom.xml"
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_TIMEOUT_S = 600


def _version() -> str:
    found = re.search(r"<kafka\.version>(.+?)</kafka\.version>", _POM.read_text())
    assert found, f"{_POM} names no kafka.version"
    return found[1]


VERSION = _version()
_CACHE = _ROOT / ".cache"
_LIBS = _CACHE / f"apache-kafka-{VERSION}"


def missing() -> str | None:
    """What keeps Apache Kafka from running here, as a sentence; None when nothing does."""
    if shutil.which("java") is None:
        return "Java is not installed"
    if not _is_assembled() and shutil.which("mvn") is None:
        return f"Maven is not installed, and {_LIBS.relative_to(_ROOT)} is not there yet"
    return None


def libs() -> Path:
    """The folder of jars. Safe to call from several processes at once; whole or not there."""
    if _is_assembled():
        return _LIBS
    if (reason := missing()) is not None:
        raise RuntimeError(f"no Apache Kafka: {reason}")
    _CACHE.mkdir(exist_ok=True)
    with open(_CACHE / "apache-kafka.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_assembled():
            _assemble()
    return _LIBS


def _is_assembled() -> bool:
    # A changed pom asks for other jars.
    copy = _LIBS / _POM.name
    return copy.is_file() and copy.read_bytes() == _POM.read_bytes()


def _assemble() -> None:
    with tempfile.TemporaryDirectory(dir=_CACHE, prefix="assembling-") as temporary:
        folder = Path(temporary) / "libs"
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(_POM)]
        command += [f"{_DEPENDENCY_PLUGIN}:copy-dependencies", "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={folder}"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        if done.returncode != 0:
            raise RuntimeError(f"Maven could not fetch Apache Kafka:\n{done.stdout}{done.stderr}")
        shutil.copyfile(_POM, folder / _POM.name)
        shutil.rmtree(_LIBS, ignore_errors=True)
        folder.rename(_LIBS)
