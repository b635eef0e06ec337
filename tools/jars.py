"""Fetches the jars that a pom names, once, into .cache/."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_CACHE = _ROOT / ".cache"
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_TIMEOUT_S = 600


class Jars:
    """A folder of jars, of what is called `title` here. Whole or not there; safe to fetch from
    several processes at once."""

    def __init__(self, title: str, pom: Path, folder_name: str) -> None:
        self._title = title
        self._pom = pom
        self._folder = _CACHE / folder_name

    def missing(self) -> str | None:
        """What keeps it from running here, as a sentence; None when nothing does."""
        if shutil.which("java") is None:
            return "Java is not installed"
        if not self._is_there() and shutil.which("mvn") is None:
            return f"Maven is not installed, and {self._folder.relative_to(_ROOT)} is not there yet"
        return None

    def folder(self) -> Path:
        if self._is_there():
            return self._folder
        if (reason := self.missing()) is not None:
            raise RuntimeError(f"no {self._title}: {reason}")
        _CACHE.mkdir(exist_ok=True)
        with open(_CACHE / f"{self._folder.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._is_there():
                self._fetch()
        return self._folder

    def _is_there(self) -> bool:
        # A changed pom asks for other jars.
        copy = self._folder / self._pom.name
        return copy.is_file() and copy.read_bytes() == self._pom.read_bytes()

    def _fetch(self) -> None:
        with tempfile.TemporaryDirectory(dir=_CACHE, prefix="assembling-") as temporary:
            folder = Path(temporary) / "libs"
            command = ["mvn", "--batch-mode", "--quiet", "--file", str(self._pom)]
            command += [f"{_DEPENDENCY_PLUGIN}:copy-dependencies", "-DincludeScope=runtime"]
            command += [f"-DoutputDirectory={folder}"]
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
            if done.returncode != 0:
                output = done.stdout + done.stderr
                raise RuntimeError(f"Maven could not fetch {self._title}:\n{output}")
            shutil.copyfile(self._pom, folder / self._pom.name)
            shutil.rmtree(self._folder, ignore_errors=True)
            folder.rename(self._folder)
