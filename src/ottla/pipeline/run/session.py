"""A Spark session that is set up for streams of records, on any master. What it sets is in
`session_settings`, which needs no Spark; `new_session` starts it."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipeline.run.class_archive import ClassArchive
from ottla.pipeline.run.fork_server import forking_python
from ottla.pipeline.run.java import JavaHome, find_java
from ottla.pipeline.run.java_process import JavaEnded, JavaProcess
from ottla.pipeline.run.stages import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = str(Path(__file__).resolve().parents[3])
"""The folder that `ottla` and `pyspark_ottla` lie in."""

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")
_CONNECT = "sc://"
_OTHERS = ("yarn", "k8s://")
"""Masters that decide where an executor runs, and have never been tried here."""
_SHARED_TEMPORARY = "/tmp"
_SOCKET_FOLDER_BYTES_MAX = 60
"""Names of sockets have a hundred bytes or so, and Spark takes 42 of them."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # State of any size, outside the heap; `transformWithState` has no other. A checkpoint then
    # writes what changed, not all of it.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

_KEPT_FOR_PAGES = {
    # Spark keeps these for its web pages, which are off: by default a thousand of each, with the
    # text of every plan.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def new_session(
    name: str,
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    folder: Path,
    on_stage: Callable[[Stage], None] = lambda stage: None,
    on_java: Callable[[JavaProcess], None] = lambda java: None,
    archive_to_make: ClassArchive | None = None,
) -> SparkSession:
    """`settings` are Spark's own, and win over ours. In `folder` are Spark's warehouse and its
    log, `spark.log`: warnings and errors of the driver go there, with all that it and its Python
    workers print; the terminal is left to whoever called. `on_stage` is called when Java answers,
    and when Spark is ready; `on_java` as soon as it is started: it ends with this process, unless
    it is ended before. `archive_to_make`: Java writes it when it ends.

    One at a time in a process, and one JVM: a second session, after the first was stopped, still
    writes to the log of the first."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master.startswith(_CONNECT):
        # Its server was started by others, with a Java and a Python of its own.
        given = {**_EVERYWHERE, **(settings or {})}
        session = builder.remote(master).config(map=dict(given)).getOrCreate()
        on_stage("Spark session")
        return session
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING.format(log=(folder / "spark.log").resolve()))
    found = session_settings(master, folder)
    for key, value in (settings or {}).items():
        # A user's options of the JVM stand beside ours.
        is_added = key == _JAVA_OPTIONS
        found[key] = f"{found[key]} {value}" if is_added else value
    java = find_java()
    with _environment(master, java):
        given = {"spark.app.name": name, "spark.master": master, **found}
        _start_java(given, java, folder, on_java, archive_to_make)
        on_stage("Java")
        session = builder.master(master).config(map=dict(found)).getOrCreate()
    on_stage("Spark session")
    return session


def _start_java(
    settings: Mapping[str, str],
    home: JavaHome,
    folder: Path,
    on_java: Callable[[JavaProcess], None],
    archive_to_make: ClassArchive | None = None,
) -> None:
    """Unless this process has one."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        return

    def started(options: str) -> Any:
        given = {**settings, _JAVA_OPTIONS: f"{options} {settings[_JAVA_OPTIONS]}"}
        java = JavaProcess(given, folder / "spark.log")
        on_java(java)
        return java.connect()

    if archive_to_make is not None:
        gateway = started(archive_to_make.making_options(home))
    else:
        # With classes of others in front of Spark's it would be another one.
        is_usual = "spark.driver.extraClassPath" not in settings
        archive = class_archive(home) if is_usual else None
        try:
            gateway = started("" if archive is None else archive.java_options())
        except JavaEnded:
            # It may be the archive that Java died of.
            if archive is None or not archive.delete():
                raise
            gateway = started("")
    SparkContext._ensure_initialized(gateway=gateway)


def is_prepared(master: str) -> bool:
    """False where `ottla pipeline prepare` would make the next start quicker. Raises NoJava."""
    if master.startswith(_CONNECT):
        return True
    archive = class_archive(find_java())
    return archive is None or archive.path() is not None


def class_archive(java: JavaHome) -> ClassArchive | None:
    """Of this Java and the Spark that is installed. None where nothing can be kept."""
    from pyspark.find_spark_home import _find_spark_home

    return ClassArchive.of(java.runtime, Path(_find_spark_home()))


def session_settings(master: str, folder: Path) -> dict[str, str]:
    """What a user's settings come on top of."""
    found = {
        **_EVERYWHERE,
        "spark.ui.enabled": "false",
        **_KEPT_FOR_PAGES,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str((folder / "warehouse").resolve()),
        _JAVA_OPTIONS: (
            f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').resolve().as_uri()}"
        ),
    }
    sockets = _socket_folder(master)
    if not master.startswith(_OTHERS) and os.access(sockets, os.W_OK):
        # By TCP the second thing that Spark tells a Python worker waits until the first has been
        # acknowledged, which Linux does after 40 ms: measured, that much of each task.
        found["spark.python.unix.domain.socket.enabled"] = "true"
        found["spark.python.unix.domain.socket.dir"] = sockets
    if (path := _added_path()) is not None:
        found["spark.executorEnv.PYTHONPATH"] = path
    if (cores := local_cores(master)) is not None:
        found |= {
            # Nobody else has to reach this driver: other names and networks of the machine must
            # not matter.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # More partitions than cores only make a batch slower.
            "spark.sql.shuffle.partitions": str(cores),
            # Spark's own choice starts a process (`readlink`) for every file of a checkpoint that
            # it renames: measured, 70 ms of 190 ms a micro-batch.
            "spark.sql.streaming.checkpointFileManagerClass": (
                "org.apache.spark.sql.execution.streaming.checkpointing"
                ".FileSystemBasedCheckpointFileManager"
            ),
        }
    return found


def _socket_folder(master: str) -> str:
    """The folder for temporary files, which goes with a demo: a JVM that is killed leaves them."""
    folder = tempfile.gettempdir()
    is_short = len(os.fsencode(folder)) <= _SOCKET_FOLDER_BYTES_MAX
    return folder if is_short and local_cores(master) is not None else _SHARED_TEMPORARY


def local_cores(master: str) -> int | None:
    """Of a master that is this process; None of one that is elsewhere."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    if found[1] == "*":
        return os.cpu_count() or 1
    return int(found[1] or 1)


@contextmanager
def _environment(master: str, java: JavaHome) -> Iterator[None]:
    """While the JVM starts, which keeps it: what Spark has no settings for."""
    wanted = {"JAVA_HOME": str(java.path)}
    if (path := _added_path()) is not None:
        wanted["PYTHONPATH"] = path
    if local_cores(master) is not None:
        # At once: it imports while Java starts.
        wanted |= forking_python({**os.environ, **wanted}) or _plain_python()
    else:
        # There it may be elsewhere, and whoever runs that has said so.
        wanted |= {**_plain_python(), **_given("PYSPARK_PYTHON")}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _plain_python() -> dict[str, str]:
    return dict.fromkeys(("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"), sys.executable)


def _given(name: str) -> dict[str, str]:
    return {name: os.environ[name]} if name in os.environ else {}


def _added_path() -> str | None:
    """The PYTHONPATH of Python workers, so that they find these modules too. None where the package
    is installed: there a worker with an interpreter of its own has one of its own."""
    if _PACKAGES in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return None
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([_PACKAGES, *filter(None, others)]))
