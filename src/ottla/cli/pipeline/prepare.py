"""`ottla pipeline prepare`: Spark starts in half the time from then on."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.errors import Failure, warn
from ottla.cli.interrupts import at_end, take_over
from ottla.cli.options import json_option
from ottla.cli.pipeline.held_java import JavaDied, held_java
from ottla.cli.pipeline.options import known_job, need_extra
from ottla.cli.pipeline.view import stage_line
from ottla.cli.tables import print_json, size_text

if TYPE_CHECKING:
    from ottla.pipeline.run.class_archive import ClassArchive
    from ottla.pipeline.run.stages import Stage

_JOB = "activity"
_RECORDS = 1000
_PARTITIONS = 2
_POLL_S = 0.1
_FLUSH_S = 30.0
_JAVA_PATIENCE_S = 600.0
"""It writes the archive when it ends."""


@click.command("prepare", short_help="Make Spark start in half the time.")
@json_option
def prepare(as_json: bool) -> None:
    """Make Spark start in half the time, once for this Java and this Spark.

    Runs a pipeline on a broker of its own and keeps what Java has loaded for it, ready to use: some
    180 MB in the user's cache folder (~/.cache/ottla). It takes up to a minute. `pipeline run` and
    `demo` use it from then on. In a clone of the repository the set-up has run it already.

    With --json: {"archive", "size_bytes", "seconds"}.
    """
    need_extra()
    began_s = time.monotonic()
    archive = _archive()
    if (path := archive.path()) is not None:
        done, after = "Spark is prepared already", ""
    else:
        path = _made(archive, began_s)
        done, after = "prepared", f", after {time.monotonic() - began_s:.0f} s"
    seconds, size_bytes = time.monotonic() - began_s, path.stat().st_size
    if as_json:
        found = {"archive": str(path), "size_bytes": size_bytes, "seconds": round(seconds, 1)}
        print_json(found)
    else:
        warn(f"{done}: {path} ({size_text(size_bytes)}){after}")


def _archive() -> ClassArchive:
    from ottla.pipeline.run.java import NoJava, find_java
    from ottla.pipeline.run.session import class_archive
    from ottla.pipeline.run.user_cache import cache_folder

    try:
        archive = class_archive(find_java())
    except NoJava as error:
        raise Failure(str(error)) from error
    if archive is None:
        with _writable_cache():
            cache_folder()
        raise Failure("Spark cannot be prepared: a file of Java or of Spark is missing")
    return archive


@contextmanager
def _writable_cache() -> Iterator[None]:
    """Names the folder where it is not."""
    try:
        yield
    except OSError as error:
        what = str(error) if error.strerror is None else f"{error.filename}: {error.strerror}"
        raise Failure(
            f"the cache folder cannot be used: {what}; make it one that only you can write to, or "
            "set XDG_CACHE_HOME to another folder"
        ) from error


def _made(archive: ClassArchive, began_s: float) -> Path:
    """Where it is."""
    with _writable_cache(), archive.lock() as is_ours:
        if not is_ours:
            raise Failure("another process is preparing Spark: wait until it is done")
        folder, log = archive.stem.with_suffix(".run"), archive.log
        log.unlink(missing_ok=True)
        with _emptied(folder):
            try:
                _run_job(archive, folder, began_s)
            except _NotPrepared as error:
                see = ""
                with suppress(OSError):
                    shutil.copyfile(folder / "spark.log", log)
                    see = f"; see {log}"
                raise Failure(f"Spark was not prepared: {error}{see}") from error
        path = archive.keep()
    if path is None:
        raise Failure("Java wrote no archive: is the disk full, or is it no OpenJDK?")
    return path


class _NotPrepared(Exception):
    """Says why."""


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """For all temporary files. Only whoever is killed leaves it, and the next one removes it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        with at_end(lambda: shutil.rmtree(folder, ignore_errors=True)):
            yield
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


def _run_job(archive: ClassArchive, folder: Path, began_s: float) -> None:
    """Raises _NotPrepared."""
    from ottla.pipeline.run.causes import cause_of

    try:
        with ExitStack() as stack:
            _run_on(stack, archive, folder, began_s)
    except Failure:
        raise
    except JavaDied as died:
        raise _NotPrepared(died) from died
    except Exception as error:
        raise _NotPrepared(cause_of(error)) from error


def _run_on(stack: ExitStack, archive: ClassArchive, folder: Path, began_s: float) -> None:
    from ottla.cli.child_broker import ChildBroker
    from ottla.pipeline.run.runner import JobRun
    from ottla.pipeline.run.session import new_session
    from ottla.pipeline.run.settings import new_settings

    def on_stage(stage: Stage) -> None:
        warn(stage_line(stage, time.monotonic() - began_s))

    broker = ChildBroker(is_on_usual_port=False)
    stack.enter_context(at_end(broker.end))
    stack.enter_context(broker)
    _generate(broker.bootstrap)
    places = {"bootstrap": broker.bootstrap, "folder": str(folder), "lake": str(folder / "lake")}
    job = known_job(_JOB)
    settings = new_settings(job, places)
    spark = new_session(
        "ottla-prepare",
        settings={
            "spark.local.dir": str(folder / "spark"),
            "spark.driver.extraJavaOptions": shlex.join(_java_options(folder)),
        },
        folder=folder,
        on_stage=on_stage,
        on_java=stack.enter_context(held_java(_JAVA_PATIENCE_S)),
        archive_to_make=archive,
    )
    stack.callback(spark.stop)
    # Spark's own handler would only cancel what it computes.
    take_over()
    run = JobRun(job, settings, spark, is_once=True, on_stage=on_stage)
    stack.callback(run.close)
    run.start()
    while run.poll():
        time.sleep(_POLL_S)
    warn(f"{time.monotonic() - began_s:5.1f} s  all read; Java writes its archive")


def _java_options(folder: Path) -> list[str]:
    # It lives for a minute: no second compiler, no threads that collect garbage.
    return ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={folder}"]


def _generate(bootstrap: str) -> None:
    from confluent_kafka.admin import NewTopic

    from ottla.cli.client import Cluster, one_line, wait_for
    from ottla.pipeline.generate.activity import Generator

    cluster = Cluster(bootstrap, {})
    admin = cluster.admin()  # held on to: without its client a request is dropped
    _, failures = wait_for(admin.create_topics([NewTopic(_JOB, _PARTITIONS)]))
    if failures:
        raise Failure(f"could not create {one_line(failures.items())}")
    producer = cluster.producer({})
    now_ms = time.time_ns() // 1_000_000
    for event in islice(Generator(1, _RECORDS / 60, now_ms - 60_000), _RECORDS):
        producer.produce(_JOB, event.value, event.key)
    if left := producer.flush(_FLUSH_S):
        raise Failure(f"{left} of {_RECORDS} records were not written")
