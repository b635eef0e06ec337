"""`ottla demo`: a broker, a live stream of events, and what Spark makes of them; without Spark, the
events as they are read back."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from confluent_kafka import KafkaException

from ottla import __version__
from ottla.cli.child_broker import ChildBroker
from ottla.cli.client import Cluster, explain
from ottla.cli.demo.stream import DemoStream
from ottla.cli.demo.view import Rates, plain_line, table
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.latency import milliseconds_text
from ottla.cli.pipeline_options import need_extra
from ottla.cli.tables import size_text

_TOPIC = "page-views"
_REFRESHES_A_SECOND = 8


@click.command("demo")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="End after so long.")
@click.option(
    "--rate",
    type=click.IntRange(1, 50_000),
    default=1000,
    show_default=True,
    help="Events a second.",
)
@click.option("--small", is_flag=True, help="Without Spark: events are only read back.")
@click.option(
    "--page",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where the page of plots goes. [default: a new file for temporary ones]",
)
def command(seconds: float | None, rate: int, small: bool, page: Path | None) -> int:
    """Start a broker on a free port, write a site's activity to it, and show what the activity
    pipeline on Spark makes of it, live.

    At the end there is a page of plots. Ctrl-C ends it; the broker and its data go too.
    """
    missing = None if small else _missing()
    with _terminated_as_interrupted(), ChildBroker() as broker:
        try:
            if small or missing is not None:
                return _run_small(broker, seconds, rate, missing)
            from ottla.cli.demo.pipeline import run

            return run(broker, seconds, rate, page)
        except KafkaException as error:
            raise Failure(explain(error, Cluster(broker.bootstrap, {}))) from error


def _missing() -> str | None:
    """What the pipeline needs and is not here."""
    try:
        need_extra()
    except Failure as failure:
        return str(failure)
    return None


def _run_small(broker: ChildBroker, seconds: float | None, rate: int, hint: str | None) -> int:
    stream = DemoStream(Cluster(broker.bootstrap, {}), _TOPIC, rate, random.Random())
    stream.start()
    try:
        _show(broker, stream, seconds)
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        stream.stop()
    exit_code = _verdict(stream)
    if hint is not None:
        warn(f"there is more to see with the pipeline, but {hint}")
    return exit_code


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Whoever ends the demo with a signal, the broker must not be left behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    kinds = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(kind, interrupt) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


def _show(broker: ChildBroker, stream: DemoStream, seconds: float | None) -> None:
    started_s = time.monotonic()

    def elapsed_s() -> float:
        return time.monotonic() - started_s

    def is_over() -> bool:
        if broker.exit_code() is not None:
            raise Failure(f"the broker ended: {broker.log_text().strip()[-500:]}")
        return seconds is not None and elapsed_s() >= seconds

    if sys.stdout.isatty():
        _show_table(broker, stream, is_over, elapsed_s)
    else:
        _show_lines(stream, is_over, elapsed_s)


def _show_table(
    broker: ChildBroker,
    stream: DemoStream,
    is_over: Callable[[], bool],
    elapsed_s: Callable[[], float],
) -> None:
    from rich.console import Console
    from rich.live import Live

    rates = Rates()
    with Live(console=Console(), auto_refresh=False) as live:
        while not is_over():
            memory_bytes = broker.memory_bytes()
            memory = "" if memory_bytes is None else f", {size_text(memory_bytes)} of memory"
            title = f"ottla {__version__} on {broker.bootstrap}"
            subtitle = (
                f"ready in {broker.start_s:.2f} s, up {elapsed_s():.0f} s{memory}; Ctrl-C ends"
            )
            live.update(table(title, subtitle, stream.counts, rates, _TOPIC), refresh=True)
            time.sleep(1 / _REFRESHES_A_SECOND)


def _show_lines(
    stream: DemoStream, is_over: Callable[[], bool], elapsed_s: Callable[[], float]
) -> None:
    rates = Rates()
    rates.sample(stream.counts)
    next_s = 1.0
    while not is_over():
        if elapsed_s() >= next_s:
            next_s += 1.0
            print(plain_line(elapsed_s(), stream.counts, rates.sample(stream.counts)), flush=True)
        time.sleep(1 / _REFRESHES_A_SECOND)


def _verdict(stream: DemoStream) -> int:
    counts = stream.counts
    if counts.failed is not None:
        raise Failure(counts.failed)
    latency = counts.latency()
    middle = "" if latency is None else f", half of them within {milliseconds_text(latency.p50_ms)}"
    print(f"{counts.acknowledged:,} events written, {counts.read:,} read back{middle}")
    if counts.read != counts.sent:
        raise Failure(f"{counts.sent - counts.read:,} of {counts.sent:,} events did not come back")
    return ExitCode.OK
