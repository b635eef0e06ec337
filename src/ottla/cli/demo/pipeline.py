"""The demo with Spark: generated activity, the activity pipeline, and its results."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import NewTopic

from ottla import __version__
from ottla.cli.child_broker import ChildBroker
from ottla.cli.child_pipeline import ChildPipeline
from ottla.cli.client import Cluster, one_line, wait_for
from ottla.cli.demo.board import Shown, board, plain_line
from ottla.cli.demo.feed import DemoFeed
from ottla.cli.demo.history import History
from ottla.cli.demo.page import Run, page
from ottla.cli.demo.results import TOPICS, ResultsReader
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.tables import size_text

_TOPIC = "activity"
_PARTITIONS = 4
_REFRESHES_A_SECOND = 4
_LINE_S = 2.0
_ALL_RECORDS = "traffic"
"""The query that shows how far Spark is: it starts first, and the others read the same."""


def run(broker: ChildBroker, seconds: float | None, rate: int, path: Path | None) -> int:
    """Ends by Ctrl-C, too, and leaves the page."""
    cluster = Cluster(broker.bootstrap, {})
    _make_topics(cluster)
    started_s = time.monotonic()
    with ExitStack() as stack:
        pipeline = stack.enter_context(ChildPipeline("activity", broker.bootstrap, {}))
        feed, reader = DemoFeed(cluster, _TOPIC, rate), ResultsReader(cluster)
        demo = _Demo(broker, pipeline, feed, reader, started_s)
        reader.start()
        stack.callback(reader.stop)
        feed.start()
        stack.callback(feed.stop)
        try:
            demo.show(seconds)
        except KeyboardInterrupt:
            pass  # the way to end it
        ended_s = time.monotonic()
    return demo.finish(ended_s - started_s, path)


def _make_topics(cluster: Cluster) -> None:
    compacted = {"cleanup.policy": "compact"}
    topics = [NewTopic(_TOPIC, num_partitions=_PARTITIONS, replication_factor=-1)]
    topics += [NewTopic(name, 1, -1, config=compacted) for name in TOPICS]
    admin = cluster.admin()  # held on to: without its client a request is dropped
    _, failures = wait_for(admin.create_topics(topics))
    if failures:
        raise Failure(f"could not create {one_line(failures.items())}")


class _Demo:
    """Looks at all parts while they run. Owned by `run`."""

    def __init__(
        self,
        broker: ChildBroker,
        pipeline: ChildPipeline,
        feed: DemoFeed,
        reader: ResultsReader,
        started_s: float,
    ) -> None:
        self._broker = broker
        self._pipeline = pipeline
        self._feed = feed
        self._reader = reader
        self._started_s = started_s
        self._history = History()

    def show(self, seconds: float | None) -> None:
        def is_over() -> bool:
            self._check()
            return seconds is not None and self._elapsed_s() >= seconds

        if sys.stdout.isatty():
            self._show_board(is_over)
        else:
            self._show_lines(is_over)

    def finish(self, seconds: float, path: Path | None) -> int:
        results = self._reader.results
        done = Run(__version__, seconds, self._written(), self._read(), self._history.rates())
        if path is None:
            handle, name = tempfile.mkstemp(prefix="ottla-demo-", suffix=".html")
            os.close(handle)
            path = Path(name)
        path.write_text(page(done, results))
        day = results.newest_day()
        counted = "" if day is None else f", {day.page_views:,} page views counted"
        print(f"{done.written:,} records written, {done.read:,} read by Spark{counted}")
        print(f"plots: {path}")
        return ExitCode.OK

    def _look(self) -> Shown:
        self._history.add(self._elapsed_s(), self._written(), self._read())
        return Shown(
            self._written(),
            self._read(),
            self._history.rates(),
            self._history.now(),
            self._reader.results,
            self._pipeline.last.copy(),
        )

    def _show_board(self, is_over: Callable[[], bool]) -> None:
        from rich.console import Console
        from rich.live import Live

        title = f"ottla {__version__} on {self._broker.bootstrap}"
        with Live(console=Console(), auto_refresh=False) as live:
            while not is_over():
                memory_bytes = self._broker.memory_bytes()
                memory = "" if memory_bytes is None else f", broker {size_text(memory_bytes)}"
                subtitle = f"up {self._elapsed_s():.0f} s{memory}; 1 s is 1 min; Ctrl-C ends"
                live.update(board(title, subtitle, self._look()), refresh=True)
                time.sleep(1 / _REFRESHES_A_SECOND)

    def _show_lines(self, is_over: Callable[[], bool]) -> None:
        next_s = _LINE_S
        while not is_over():
            shown = self._look()
            if self._elapsed_s() >= next_s:
                next_s += _LINE_S
                print(plain_line(self._elapsed_s(), shown), flush=True)
            time.sleep(1 / _REFRESHES_A_SECOND)

    def _check(self) -> None:
        if self._broker.exit_code() is not None:
            raise Failure(f"the broker ended: {self._broker.log_text().strip()[-500:]}")
        if self._pipeline.exit_code() is not None:
            raise Failure(f"the pipeline ended: {self._pipeline.reason()}")

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def _written(self) -> int:
        return self._feed.tally.delivered

    def _read(self) -> int:
        return self._pipeline.rows.get(_ALL_RECORDS, 0)
