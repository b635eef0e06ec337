"""`ottla pipeline run` and `replay`: a job on Spark, and how it is doing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.command_line import command_line
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.interrupts import is_stopping, stoppable, take_over
from ottla.cli.options import iso_of, json_option, timestamp_ms
from ottla.cli.pipeline.driver_log import log_accumulators, log_to
from ottla.cli.pipeline.held_java import JavaDied, held_java
from ottla.cli.pipeline.options import (
    Given,
    checked_queries,
    job_argument,
    known_job,
    settings_options,
)
from ottla.cli.pipeline.view import (
    batch_json,
    batch_line,
    drawn,
    input_text,
    output_names,
    stage_json,
    stage_line,
    summary_text,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from rich.live import Live

    from ottla.pipeline.jobs.job import Job, Settings
    from ottla.pipeline.run.java_process import JavaProcess
    from ottla.pipeline.run.progress import BatchProgress
    from ottla.pipeline.run.runner import JobRun
    from ottla.pipeline.run.stages import Stage

_POLL_S = 0.25


@click.command("run", short_help="Run a pipeline until Ctrl-C, or once.")
@job_argument
@click.option("--once", is_flag=True, help="Process all records that are there now, then stop.")
@click.option(
    "--starting",
    metavar="WHERE",
    help="Where a pipeline begins that has never run: earliest, latest or a time. "
    "[default: earliest]",
)
@settings_options
@json_option
def run(given: Given, name: str, once: bool, starting: str | None, as_json: bool) -> int:
    """Run a pipeline until Ctrl-C. `ottla pipeline list` has the names.

    \b
    ottla pipeline run activity
    ottla pipeline run logs --once --topics app-logs,web-logs --lake /data/lake
    ottla pipeline run metrics --config metrics.toml --set trigger_s=5
    ottla pipeline run mirror --set target=other:9092 --topics orders

    It continues where the last run ended. However it is stopped or killed, no result is lost and
    none is written twice. Missing output topics are created.

    With --json: a line for each batch, {"event": "batch", "job", "query", "batch_id", "time",
    "rows", "rows_per_s", "batch_ms", "watermark", "lag"}, and one for each stage of the start,
    {"event": "stage", "job", "stage", "seconds"}: Java, Spark session, first query, first result,
    all queries.
    """
    from ottla.pipeline.run.run_lock import RunLock

    job = known_job(name)
    if starting is not None:
        given.flags["starting"] = starting
    settings = given.settings(job)
    with _locked(RunLock(settings.folder)):
        return _run(job, settings, is_once=once, as_json=as_json)


@click.command("replay")
@job_argument
@click.option(
    "--from",
    "start",
    metavar="TIME",
    required=True,
    help="Records since this time; ISO 8601 or ms.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@settings_options
@json_option
def replay(given: Given, name: str, start: str, yes: bool, as_json: bool) -> int:
    """Rebuild the outputs of a pipeline from records since a given time.

    \b
    ottla pipeline replay activity --from 2026-01-31T00:00:00Z

    Deletes the checkpoints of the pipeline, reads all records with this timestamp or a later one,
    and stops at the end; `run` continues from there.

    Each table of the lake keeps its old rows until the first batch is rebuilt; from then on it has
    only rebuilt rows. Rows from before --from are gone (Delta's history has them until a vacuum).
    Output topics get the results again, after the old ones: the last one of a key counts. `run`
    continues a replay that was interrupted.
    """
    from ottla.pipeline.run.replay import Replay, begin_replay
    from ottla.pipeline.run.run_lock import RunLock

    job = known_job(name)
    if not job.is_replayable:
        raise Failure(f"{name} cannot be replayed: where it goes on is in what it writes")
    settings = given.settings(job)
    from_ms = timestamp_ms(start, "--from")
    queries = _queries(job, settings)
    topics, tables = output_names(settings, queries)
    with _locked(RunLock(settings.folder)):
        if not yes:
            click.echo(f"from {iso_of(from_ms)} on, out of {input_text(settings)}:", err=True)
            replaced = f"{', '.join(tables) or '-'}; their rows of before that time go"
            click.echo(f"  replaced in {settings.lake}: {replaced}", err=True)
            click.echo(f"  written to again: {', '.join(topics) or '-'}", err=True)
            if not _is_confirmed():
                text = "nothing was changed; --yes replays without asking"
                raise Failure(text, ExitCode.INTERRUPTED)
        _check_broker(settings)
        begin_replay(settings.folder, Replay(from_ms))
        return _run(job, settings, is_once=True, as_json=as_json)


def _is_confirmed() -> bool:
    try:
        return click.confirm("replay?", err=True)
    except click.Abort:  # Ctrl-C, or nobody there to answer
        click.echo(err=True)
        return False


def _queries(job: Job, settings: Settings) -> list[Any]:
    try:
        return checked_queries(job, settings)
    except ValueError as error:
        describe = command_line(f"pipeline describe {job.name}")
        raise Failure(f"{error} (see `{describe}`)", ExitCode.USAGE) from error


def _check_broker(settings: Settings) -> None:
    from ottla.cli.client import Cluster

    Cluster(settings.bootstrap, {}).check_reachable()


@contextmanager
def _locked(lock: Any) -> Iterator[None]:
    from ottla.pipeline.run.run_lock import AlreadyRunning

    try:
        with lock:
            yield
    except AlreadyRunning as error:
        raise Failure(str(error)) from error


def _run(job: Job, settings: Settings, *, is_once: bool, as_json: bool) -> int:
    from ottla.pipeline.run.driver_garbage import freeze_imports
    from ottla.pipeline.run.runner import JobFailed, JobRun

    # Before Spark is started, which takes some seconds.
    queries = _queries(job, settings)
    _check_broker(settings)

    log_to(_log_path(settings))
    shown = _Shown(job.name, settings, is_once=is_once, as_json=as_json)
    with _held_java(job, settings) as hold, ExitStack() as stack:
        spark = _new_session(job.name, settings, shown, hold)
        log_accumulators(spark)
        stack.callback(spark.stop)
        # Spark's own handler would only cancel what it computes.
        take_over()
        freeze_imports()
        job_run = JobRun(
            *(job, settings, spark),
            is_once=is_once,
            on_batch=shown.on_batch,
            on_stage=shown.on_stage,
        )
        try:
            is_stopped = _run_queries(job_run, shown, is_once=is_once)
        except JobFailed as failed:
            path = settings.folder / "error.txt"
            path.write_text(failed.details)
            raise Failure(f"{failed}; all that Spark said of it is in {path}") from failed
        if not as_json:
            warn(summary_text(settings, queries, job_run.progress))
    return ExitCode.INTERRUPTED if is_stopped else ExitCode.OK


@contextmanager
def _held_java(job: Job, settings: Settings) -> Iterator[Callable[[JavaProcess], None]]:
    """Where it dies, the message says how to go on."""
    try:
        with held_java() as hold:
            yield hold
    except JavaDied as died:
        again = f"`{command_line(f'pipeline run {job.name}')}` continues from the last whole batch"
        if is_stopping():  # the two were told together, as a service manager does
            raise Failure(f"stopped; {again}", ExitCode.INTERRUPTED) from died
        raise Failure(f"{died}; {again}; see {_log_path(settings)}") from died


def _log_path(settings: Settings) -> Path:
    return settings.folder / "spark.log"


def _run_queries(job_run: JobRun, shown: _Shown, *, is_once: bool) -> bool:
    """Whether it was told to stop."""
    with shown.around(job_run):
        try:
            # Not yet stoppable: there is no batch in hand that should end.
            job_run.start()
            with stoppable(None) as stop:
                while job_run.poll() and not stop.wait(_POLL_S):
                    shown.refresh()
                if stop.is_set():
                    shown.stopping()
                while stop.is_set() and job_run.stop_after_batch():
                    time.sleep(_POLL_S)
                    shown.refresh()
            shown.end(is_whole=is_once and not stop.is_set())
        finally:
            job_run.close()
            shown.refresh()
    return stop.is_set()


def _new_session(
    job_name: str, settings: Settings, shown: _Shown, on_java: Callable[[JavaProcess], None]
) -> SparkSession:
    from ottla.pipeline.run.causes import cause_of
    from ottla.pipeline.run.java import NoJava
    from ottla.pipeline.run.session import is_prepared, new_session

    log = _log_path(settings)
    shown.note(f"starting Spark on {settings.master}; its log is {log}")
    try:
        if not is_prepared(settings.master):
            prepare = command_line("pipeline prepare")
            shown.note(f"it starts in half the time after `{prepare}`, once")
        return new_session(
            f"ottla-{job_name}",
            master=settings.master,
            settings=settings.spark,
            folder=settings.folder,
            on_stage=shown.on_stage,
            on_java=on_java,
        )
    except NoJava as error:
        raise Failure(str(error)) from error
    except Exception as error:
        raise Failure(
            f"Spark did not start on {settings.master}: {cause_of(error)}; see {log}"
        ) from error


class _Shown:
    """Shows the stages and batches of one run, as the terminal or the pipe wants them."""

    def __init__(self, job: str, settings: Settings, *, is_once: bool, as_json: bool) -> None:
        self._job = job
        self._end = "ends when all is read" if is_once else "Ctrl-C ends"
        self._title = f"{job}: {input_text(settings)} at {settings.bootstrap} on {settings.master}"
        status = command_line(f"pipeline status {job}")
        self._note = f"{self._end}; `{status}` shows it elsewhere"
        self._as_json = as_json
        self._began_s = time.monotonic()
        self._is_running = True
        self._live: Live | None = None
        self._run: JobRun | None = None

    def on_batch(self, batch: BatchProgress) -> None:
        if self._as_json:
            print(json.dumps(batch_json(self._job, batch)), flush=True)
        elif self._live is None:
            print(batch_line(batch), flush=True)

    def on_stage(self, stage: Stage) -> None:
        seconds = time.monotonic() - self._began_s
        if self._as_json:
            print(json.dumps(stage_json(self._job, stage, seconds)), flush=True)
        else:
            warn(stage_line(stage, seconds))

    def note(self, text: str) -> None:
        if not self._as_json:
            warn(text)

    @contextmanager
    def around(self, run: JobRun) -> Iterator[None]:
        if run.replay is not None:
            self.note(f"a replay has begun its outputs anew, from {iso_of(run.replay.from_ms)} on")
        if self._as_json:
            yield
            return
        if not sys.stdout.isatty():
            warn(f"{self._title}; a line for each batch, the first may take a while")
            yield
            return
        from rich.console import Console
        from rich.live import Live

        self._run = run
        with Live(console=Console(), auto_refresh=False) as self._live:
            self.refresh()
            yield

    def stopping(self) -> None:
        text = "stopping after the batch in hand; Ctrl-C again does not wait for it"
        self._is_running = False
        self._note = text
        if self._live is None:
            self.note(text)
        self.refresh()

    def end(self, *, is_whole: bool) -> None:
        """Whole where all was read that was there."""
        self._is_running = False
        done = "all was read" if is_whole else "stopped"
        again = command_line(f"pipeline run {self._job}")
        self._note = f"{done}; `{again}` continues from here"

    def refresh(self) -> None:
        if self._live is not None and self._run is not None:
            width, note = self._live.console.width, self._note
            if self._is_running and not any(one.batch_ms for one in self._run.progress):
                waited_s = time.monotonic() - self._began_s
                note = f"no batch yet after {waited_s:.0f} s, the first takes longest; {self._end}"
            progress = self._run.progress
            table = drawn(self._title, note, progress, width, is_running=self._is_running)
            self._live.update(table, refresh=True)
