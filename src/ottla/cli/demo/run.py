"""The demo's parts, from their start to the last line: a broker, visitors of a site, a client that
reads them back, the activity pipeline on Spark, a screen and a page."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import NamedTuple

from ottla import __version__
from ottla.cli.child_broker import ChildBroker
from ottla.cli.child_pipeline import ChildPipeline
from ottla.cli.client import DEFAULT_BOOTSTRAP, Cluster
from ottla.cli.command_line import command_line
from ottla.cli.demo.board import board, closing_line, plain_line
from ottla.cli.demo.feed import Feed
from ottla.cli.demo.history import History, Totals
from ottla.cli.demo.lake_keeper import LakeKeeper
from ottla.cli.demo.page import page
from ottla.cli.demo.read_back import ReadBack
from ottla.cli.demo.results_reader import ResultsReader
from ottla.cli.demo.site_clock import SiteClock
from ottla.cli.demo.snapshot import Snapshot, SparkSnapshot
from ottla.cli.demo.topics import ACTIVITY, PARTITIONS, make_topics
from ottla.cli.demo.web import PageServer
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.interrupts import GRACE_S, at_end
from ottla.cli.latency import summary_of
from ottla.cli.pipeline.results.activity_results import TOPICS
from ottla.pipeline.run.stages import STAGES

_REFRESH_S = 0.25
_LINE_S = 2.0
_CATCH_UP_S = 5.0
_CATCH_UP_TOLD_S = GRACE_S / 4
"""After Ctrl-C, twice. The page and the last line come after it, and before the grace is over:
whatever the broker is at, they are not lost."""
_ALL_RECORDS = "traffic"
"""The query that shows how far Spark is: it starts first, and the others read the same."""

PIPELINE_SETTINGS = {
    # On a laptop that slept, records are gone before Spark has read them: it goes on without.
    "source.failOnDataLoss": "false",
    # Spark removes files of a shuffle when Java has collected what stood for it, by itself
    # every 30 minutes: by then they are many thousands.
    "spark.cleaner.periodicGC.interval": "1min",
    # Of a hundred batches, if nobody says otherwise: a demo goes back to none of them.
    "spark.sql.streaming.minBatchesToRetain": "10",
}
"""Files of a demo stay few, and Java's memory small, however long it runs."""


class Wanted(NamedTuple):
    """What the user asked for."""

    seconds: float | None
    rate: int
    path: Path | None
    """Of the page."""
    is_small: bool


def run(broker: ChildBroker, wanted: Wanted, stop: Event) -> int:
    """Until the time is over, or `stop` is set."""
    cluster = Cluster(broker.bootstrap, {})
    make_topics(cluster, [ACTIVITY] if wanted.is_small else [ACTIVITY, *TOPICS])
    with ExitStack() as stack:
        # The slowest first.
        spark = None if wanted.is_small else _spark(stack, cluster)
        read_back = ReadBack(cluster, ACTIVITY, PARTITIONS)
        site = SiteClock(time.time_ns() // 1_000_000)
        feed = Feed(cluster, ACTIVITY, wanted.rate, site, read_back.is_reading)
        demo = Demo(broker, feed, read_back, spark)
        server = stack.enter_context(PageServer(lambda: demo.shown))
        demo.page_url = server.url
        read_back.start()
        stack.callback(read_back.stop)
        demo.begin()
        stack.callback(feed.stop, 0)
        demo.show(wanted.seconds, stop)
        settle(feed, read_back, stop)
        demo.refresh()
        # Before the parts are ended, which takes longest: nobody waits for it.
        return demo.finish(wanted.path)


def settle(feed: Feed, read_back: ReadBack, stop: Event) -> None:
    """Until all that was written is read back, for some time."""
    timeout_s = _CATCH_UP_TOLD_S if stop.is_set() else _CATCH_UP_S
    feed.stop(timeout_s)
    read_back.catch_up(feed.delivered, timeout_s)


class Spark(NamedTuple):
    pipeline: ChildPipeline
    reader: ResultsReader


def _spark(stack: ExitStack, cluster: Cluster) -> Spark:
    pipeline = ChildPipeline("activity", cluster.bootstrap, PIPELINE_SETTINGS)
    stack.enter_context(at_end(pipeline.end))
    stack.enter_context(pipeline)
    reader, keeper = ResultsReader(cluster), LakeKeeper(pipeline.lake)
    for part in (reader, keeper):
        part.start()
        stack.callback(part.stop)
    return Spark(pipeline, reader)


class Demo:
    """Looks at all parts while they run. Owned by `run`; the page's threads read `shown`."""

    def __init__(
        self, broker: ChildBroker, feed: Feed, read_back: ReadBack, spark: Spark | None
    ) -> None:
        self.page_url = ""
        self._broker = broker
        self._feed = feed
        self._read_back = read_back
        self._spark = spark
        self._history = History()
        self._started_s = time.monotonic()
        self.shown = self._snapshot()

    def begin(self) -> None:
        self._started_s = time.monotonic()
        self._feed.start()

    def show(self, seconds: float | None, stop: Event) -> None:
        def goes_on() -> bool:
            """After the next refresh."""
            self._check()
            self.refresh()
            left_s = _REFRESH_S if seconds is None else seconds - self._elapsed_s()
            return left_s > 0 and not stop.wait(min(_REFRESH_S, left_s))

        if sys.stdout.isatty():
            self._show_board(goes_on)
        else:
            self._show_lines(goes_on)

    def refresh(self) -> None:
        at_s, history = self._elapsed_s(), self._history
        history.count(at_s, Totals(self._feed.delivered, self._read()))
        if history.is_due(at_s):
            latency = summary_of(self._read_back.take_latencies())
            history.add(latency, self._broker.memory_bytes())
        self.shown = self._snapshot()

    def finish(self, path: Path | None) -> int:
        """Leaves the page, and says what became of the records."""
        snapshot = self.shown
        if path is None:
            handle, name = tempfile.mkstemp(prefix="ottla-demo-", suffix=".html")
            os.close(handle)
            path = Path(name)
        path.write_text(page(snapshot, is_live=False), encoding="utf-8")
        print(f"{closing_line(snapshot)}; page: {path}")
        reason = self._feed.failed or self._read_back.failed
        if reason is not None:
            raise Failure(f"the demo's clients failed: {reason}")
        if snapshot.read_back < snapshot.written:
            missing = snapshot.written - snapshot.read_back
            raise Failure(f"{missing:,} of {snapshot.written:,} records did not come back")
        return ExitCode.OK

    def _show_board(self, goes_on: Callable[[], bool]) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console()
        with Live(console=console, auto_refresh=False) as live:
            while goes_on():
                live.update(board(self.shown, *console.size), refresh=True)

    def _show_lines(self, goes_on: Callable[[], bool]) -> None:
        snapshot = self.shown
        print(
            f"ottla {snapshot.version} on {snapshot.bootstrap}, ready in {snapshot.ready_s:.2f} s"
        )
        print(f"charts, live: {self.page_url}")
        print(f"in another terminal: {', '.join(snapshot.commands)}", flush=True)
        next_s = _LINE_S
        while goes_on():
            if self.shown.elapsed_s >= next_s:
                next_s += _LINE_S
                print(plain_line(self.shown), flush=True)

    def _check(self) -> None:
        if self._broker.exit_code() is not None:
            raise Failure(f"the broker ended: {self._broker.log_text().strip()[-500:]}")
        if self._spark is not None and self._spark.pipeline.exit_code() is not None:
            raise Failure(f"the pipeline ended: {self._spark.pipeline.reason()}")

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            version=__version__,
            bootstrap=self._broker.bootstrap,
            ready_s=self._broker.start_s,
            elapsed_s=self._elapsed_s(),
            written=self._feed.delivered,
            read_back=self._read_back.count,
            rates=self._history.rates(),
            samples=self._history.samples(),
            recent=list(self._history.recent),
            records=list(self._read_back.last_records.copy()),
            spark=self._spark_snapshot(),
            page_url=self.page_url,
            commands=commands_to_try(self._broker.bootstrap),
        )

    def _spark_snapshot(self) -> SparkSnapshot | None:
        if self._spark is None:
            return None
        pipeline, reader = self._spark
        passed: dict[str, float] = dict(pipeline.stages)
        return SparkSnapshot(
            stages=[(stage, passed.get(stage)) for stage in STAGES],
            elapsed_s=pipeline.elapsed_s(),
            read=self._read(),
            queries=pipeline.last.copy(),
            results=reader.results,
        )

    def _read(self) -> int:
        return 0 if self._spark is None else self._spark.pipeline.rows.get(_ALL_RECORDS, 0)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_s


def commands_to_try(bootstrap: str) -> Sequence[str]:
    """As they are typed in another terminal, which knows the usual address by itself."""
    is_usual = bootstrap.rpartition(":")[2] == DEFAULT_BOOTSTRAP.rpartition(":")[2]
    where = "" if is_usual and "OTTLA_BOOTSTRAP" not in os.environ else f" --bootstrap {bootstrap}"
    return [command_line(f"consume {ACTIVITY}{where}"), command_line(f"topics list{where}")]
