"""An archive of the classes that Spark loads, for Java's class data sharing: 17,000 until the first
results, which Java else unpacks, parses and verifies at every start. Measured until the first
result of the activity pipeline: 8.2 s of processor time in Java where it was 12.4.

The first run writes down which classes it loads; when it loads no more, a process beside it makes
the archive of them, at the lowest priority (40 s of processor time, 190 MB), in the user's cache.
Later runs use it. It is for one Java and one Spark, Java itself looks whether it is for these jars,
and one that is broken is deleted. A run that ends before it is made leaves it to the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipeline.run.helper_process import end_helper, leave_signals, start_helper
from ottla.pipeline.run.user_cache import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS_LIST = "java-classes.txt"
"""In the folder of a run: what it has loaded."""

_QUIET_S = 10.0
_LOOK_S = 0.5
_UNUSED_S = 30 * 86_400
_LOWEST_PRIORITY = 19
_UNFINISHED = (".txt", ".part")
"""While one is made: the names of its classes, and as much of it as there is."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Of one Java and one Spark, whether it is there or not."""

    stem: Path

    @classmethod
    def of(cls, java_home: Path, spark_home: Path) -> ClassArchive | None:
        """None where nothing can be kept. Jars that are replaced have other times."""
        files = [java_home / "lib" / "modules", *sorted((spark_home / "jars").glob("*.jar"))]
        try:
            known = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
            folder = cache_folder()
        except OSError:
            return None
        return cls(folder / f"classes-{hashlib.sha256(repr(known).encode()).hexdigest()[:12]}")

    def path(self) -> Path | None:
        """Its name has its size: Java dies of one that is cut off."""
        with contextlib.suppress(OSError):
            for path in self.stem.parent.glob(f"{self.stem.name}-*.jsa"):
                if path.name == self._name(path.stat().st_size):
                    return path
                path.unlink(missing_ok=True)
        return None

    def java_options(self, class_list: Path) -> str:
        """That use it, or that say what belongs into it."""
        class_list.unlink(missing_ok=True)
        if (path := self.path()) is None:
            return shlex.quote(f"-XX:DumpLoadedClassList={class_list.resolve()}")
        with contextlib.suppress(OSError):
            os.utime(path)
        return shlex.quote(f"-XX:SharedArchiveFile={path}")

    def delete(self) -> bool:
        """Whether there was one."""
        path = self.path()
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
        return path is not None

    def keep(self, made: Path) -> None:
        os.replace(made, self.stem.parent / self._name(made.stat().st_size))

    def _name(self, size_bytes: int) -> str:
        return f"{self.stem.name}-{size_bytes}.jsa"


@contextlib.contextmanager
def class_archive_made(spark: SparkSession, folder: Path) -> Iterator[None]:
    """HelperProcess what runs in it, if it takes long enough, and if the session asked for it."""
    class_list = folder / CLASS_LIST
    if not class_list.exists():
        yield
        return
    from pyspark.find_spark_home import _find_spark_home

    assert spark._jvm is not None, "a session that is elsewhere writes no list"
    properties = spark._jvm.java.lang.System
    java_home = Path(properties.getProperty("java.home"))
    archive = ClassArchive.of(java_home, Path(_find_spark_home()))
    if archive is None:
        yield
        return
    class_path = properties.getProperty("java.class.path")
    arguments = [java_home / "bin" / "java", class_path, class_list, archive.stem]
    process = start_helper(__name__, [str(argument) for argument in arguments])
    try:
        yield
    finally:
        end_helper(process)


def main(arguments: Sequence[str]) -> None:
    leave_signals()
    os.nice(_LOWEST_PRIORITY)
    java, class_path, class_list, stem = arguments
    # A cache or a disk that fails costs later runs some seconds, and this one nothing.
    with contextlib.suppress(OSError):
        _make(java, class_path, Path(class_list), ClassArchive(Path(stem)))


def _make(java: str, class_path: str, class_list: Path, archive: ClassArchive) -> None:
    names, made = (archive.stem.with_suffix(suffix) for suffix in _UNFINISHED)
    with _lock(archive.stem.with_suffix(".lock")) as is_ours:
        if not is_ours:
            return  # another run makes it
        try:
            if _wait_until_quiet(class_list):
                # Its last line may be half of one.
                names.write_bytes(class_list.read_bytes().rpartition(b"\n")[0] + b"\n")
                if _dump(java, class_path, names, made):
                    archive.keep(made)
                    _delete_unused(archive.stem.parent)
        finally:
            for left in (names, made):
                left.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """False where another process has it."""
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _wait_until_quiet(class_list: Path) -> bool:
    """Until no class was loaded for a while; False where the driver has ended before."""
    size, since_s = -1, time.monotonic()
    while time.monotonic() - since_s < _QUIET_S:
        if _is_over():
            return False
        if (now := class_list.stat().st_size) != size:
            size, since_s = now, time.monotonic()
    return True


def _dump(java: str, class_path: str, names: Path, made: Path) -> bool:
    """Whether it was made. What Java says of classes that it cannot archive is of no use."""
    command = [java, "-Xshare:dump", f"-XX:SharedClassListFile={names}"]
    command += [f"-XX:SharedArchiveFile={made}", "-XX:TieredStopAtLevel=1", "-cp", class_path]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            if _is_over():
                process.kill()
        return process.wait() == 0 and made.exists()


def _is_over() -> bool:
    """After a short while, or at once when the driver has ended."""
    return bool(select.select([sys.stdin], [], [], _LOOK_S)[0])


def _delete_unused(folder: Path) -> None:
    for path in folder.glob("classes-*.jsa"):
        if time.time() - path.stat().st_mtime > _UNUSED_S:
            path.unlink(missing_ok=True)
    for path in folder.glob("classes-*.lock"):
        with _lock(path) as is_ours:
            if is_ours:  # and nobody makes it: this is of a run that was killed
                for suffix in _UNFINISHED:
                    path.with_suffix(suffix).unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
