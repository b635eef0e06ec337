"""`ottla transactions find-hanging`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ottla.cli.client import Cluster, client_options, one_line
from ottla.cli.command_line import command_line
from ottla.cli.errors import ExitCode, warn
from ottla.cli.name_completion import complete_topic
from ottla.cli.options import json_option
from ottla.cli.tables import Column, duration_text, or_dash, print_json, print_table, time_or_dash
from ottla.cli.transactions.hanging import Search, hanging_transactions
from ottla.cli.transactions.read import Json, now_ms, run
from ottla.client.cluster import ClusterClient

_MINUTE_MS = 60_000


@click.command("find-hanging")
@click.option("-t", "--topic", shell_complete=complete_topic, help="Only in this topic.")
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="A partition of the topic."
)
@click.option("--broker-id", type=int, metavar="ID", help="Only in the replicas of this broker.")
@click.option(
    "--max-transaction-timeout",
    "timeout_minutes",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="The brokers' transaction.max.timeout.ms. Younger transactions are not reported.",
)
@json_option
@client_options
def find_hanging(
    cluster: Cluster,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    timeout_minutes: int,
    as_json: bool,
) -> int:
    """Find transactions that are open in a partition although no coordinator will end them.

    They block every reader with isolation.level=read_committed. Checks all partitions by default.
    Exit code 1 if some could not be checked.

    \b
    With --json: [{"topic", "partition", "transactional_id", "producer_id", "producer_epoch",
      "coordinator_epoch", "last_sequence", "last_timestamp_ms", "start_offset",
      "duration_ms"}, ...]; unknown values are null.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition is of which --topic?")
    now = now_ms()

    async def search(client: ClusterClient) -> Search:
        return await hanging_transactions(
            client,
            topic,
            partition,
            broker_id,
            open_longer_than_ms=timeout_minutes * _MINUTE_MS,
            now_ms=now,
        )

    hanging, failures = run(cluster, search)
    if as_json:
        print_json(hanging)
    elif hanging:
        _print_hanging(hanging)
    elif sys.stdout.isatty() and not failures:
        print("no transaction hangs")
    if not failures:
        return ExitCode.OK
    warn(
        "could not look at "
        + one_line((f"{name}:{number}", reason) for (name, number), reason in failures.items())
    )
    return ExitCode.FAILED


def _print_hanging(hanging: Sequence[Json]) -> None:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", is_number=True),
        Column("START OFFSET", is_number=True),
        Column("PRODUCER ID", is_number=True, rank=3),
        Column("EPOCH", is_number=True, rank=4),
        Column("COORDINATOR EPOCH", is_number=True, rank=5),
        Column("LAST TIMESTAMP", rank=6),
        Column("OPEN FOR", rank=1),
        Column("TRANSACTIONAL ID", rank=2),
    ]
    keys = ("partition", "start_offset", "producer_id", "producer_epoch", "coordinator_epoch")
    rows = [
        [
            one["topic"],
            *(or_dash(one[key]) for key in keys),
            time_or_dash(one["last_timestamp_ms"]),
            duration_text(one["duration_ms"]),
            or_dash(one["transactional_id"]),
        ]
        for one in hanging
    ]
    print_table(columns, rows)
    if sys.stdout.isatty():
        first = hanging[0]
        abort = (
            f"transactions abort --topic {first['topic']} "
            f"--partition {first['partition']} --start-offset {first['start_offset']}"
        )
        print(f"\n{command_line(abort)}")
