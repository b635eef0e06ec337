"""`ottla demo`: a broker, visitors of a site, and what Spark makes of them, to watch."""

from __future__ import annotations

from pathlib import Path

import click
from confluent_kafka import KafkaException

from ottla.cli.child_broker import ChildBroker
from ottla.cli.client import Cluster, explain
from ottla.cli.demo.run import Wanted, run
from ottla.cli.errors import Failure, warn
from ottla.cli.interrupts import at_end, stoppable
from ottla.cli.pipeline.options import need_extra

_RATE = 500
"""On two cores Spark reads some 800 a second, all four queries with it: so it keeps up, bursts
included."""


@click.command("demo")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Stop after so many seconds."
)
@click.option(
    "--rate",
    type=click.IntRange(1, 50_000),
    default=_RATE,
    show_default=True,
    help="Records per second.",
)
@click.option(
    "--small", is_flag=True, help="Without Spark: records are only written and read back."
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where to save the page of charts at the end. [default: a new temporary file]",
)
def command(seconds: float | None, rate: int, small: bool, page: Path | None) -> int:
    """Start a broker, write the events of a generated web site to it, and show live what the
    activity pipeline computes from them on Spark.

    The broker takes port 9092 if that is free. While the demo runs, a page of charts is live on
    localhost; at the end it is saved as a file. Ctrl-C stops the demo, and deletes the broker and
    its data.
    """
    missing = None if small else _missing()
    wanted = Wanted(seconds, rate, page, is_small=small or missing is not None)
    broker = ChildBroker()
    with stoppable() as stop, at_end(broker.end), broker:
        try:
            exit_code = run(broker, wanted, stop)
        except KafkaException as error:
            raise Failure(explain(error, Cluster(broker.bootstrap, {}))) from error
    if missing is not None:
        warn(f"there is more to see with the pipeline, but {missing}")
    return exit_code


def _missing() -> str | None:
    """What the pipeline needs and is not here."""
    try:
        need_extra()
    except Failure as failure:
        return str(failure)
    return None
