"""`ottla transactions describe`: transactions by their ids, or the producers of a partition."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure
from ottla.cli.name_completion import complete_topic
from ottla.cli.options import iso_of, json_option
from ottla.cli.suggestions import did_you_mean
from ottla.cli.tables import (
    Column,
    duration_text,
    heading,
    or_dash,
    print_facts,
    print_json,
    print_table,
    time_or_dash,
)
from ottla.cli.transactions.read import (
    Json,
    Producer,
    described_transaction,
    listed_transactions,
    located_partitions,
    now_ms,
    producers_in,
    run,
)
from ottla.client.cluster import ClusterClient
from ottla.wire.messages.list_transactions import ListTransactionsRequest


@click.command("describe")
@click.argument("ids", nargs=-1, metavar="[TRANSACTIONAL_ID]...")
@click.option(
    "-t",
    "--topic",
    shell_complete=complete_topic,
    help="With --partition: the producers that its leader remembers.",
)
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="A partition of the topic."
)
@click.option(
    "--broker-id", type=int, metavar="ID", help="With --topic: ask this replica, not the leader."
)
@json_option
@client_options
def describe(
    cluster: Cluster,
    ids: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    as_json: bool,
) -> None:
    """Show transactions: state, producer, time-out, age and partitions; or the producers of one
    partition, with the offset at which the transaction of each began.

    \b
    ottla transactions describe payments-1
    ottla transactions describe --topic clicks --partition 0

    \b
    With --json: [{"transactional_id", "state", "coordinator": {"id", "host", "port"},
      "producer_id", "producer_epoch", "transaction_timeout_ms", "start_time_ms", "duration_ms",
      "partitions": [{"topic", "partition"}]}, ...]
    With --topic too: {"topic", "partition", "broker_id", "producers": [{"producer_id",
      "producer_epoch", "coordinator_epoch", "last_sequence", "last_timestamp_ms",
      "start_offset"}]}; missing values are null.
    """
    if ids and topic is None and partition is None and broker_id is None:
        _describe_transactions(cluster, list(dict.fromkeys(ids)), as_json=as_json)
    elif not ids and topic is not None and partition is not None:
        _describe_producers(cluster, topic, partition, broker_id, as_json=as_json)
    else:
        raise click.UsageError("name transactional ids, or one partition by --topic, --partition")


def _describe_transactions(cluster: Cluster, ids: Sequence[str], *, as_json: bool) -> None:
    now = now_ms()

    async def read(client: ClusterClient) -> list[Json]:
        found = []
        for transactional_id in ids:
            described = await described_transaction(client, transactional_id, now)
            if described is None:
                listed = await listed_transactions(client, ListTransactionsRequest())
                known = [one["transactional_id"] for one in listed]
                see_list = f"see `{command_line('transactions list')}`"
                hint = did_you_mean(transactional_id, known) or see_list
                raise Failure(f"there is no transactional id {transactional_id!r}; {hint}")
            found.append(described)
        return found

    transactions = run(cluster, read)
    if as_json:
        print_json(transactions)
        return
    for index, one in enumerate(transactions):
        if index:
            print()
        _print_transaction(one)


def _print_transaction(one: Json) -> None:
    heading(one["transactional_id"])
    coordinator = one["coordinator"]
    started = "-"
    if one["start_time_ms"] is not None:
        started = f"{iso_of(one['start_time_ms'])}, {duration_text(one['duration_ms'])} ago"
    partitions = [f"{part['topic']}:{part['partition']}" for part in one["partitions"]]
    print_facts(
        [
            ("state", one["state"]),
            ("coordinator", f"{coordinator['id']} at {coordinator['host']}:{coordinator['port']}"),
            ("producer id", str(one["producer_id"])),
            ("producer epoch", str(one["producer_epoch"])),
            ("time-out", duration_text(one["transaction_timeout_ms"])),
            ("started", started),
            ("partitions", " ".join(partitions) or "-"),
        ]
    )


def _describe_producers(
    cluster: Cluster, topic: str, partition: int, broker_id: int | None, *, as_json: bool
) -> None:
    key = (topic, partition)

    async def read(client: ClusterClient) -> tuple[int, list[Producer]]:
        located, failures = await located_partitions(client, topic, partition, broker_id)
        found, more_failures = await producers_in(client, located)
        failures.update(more_failures)
        if failures:
            raise Failure(f"cannot describe the producers of {topic}:{partition}: {failures[key]}")
        return located[key].id, found[key]

    asked_id, producers = run(cluster, read)
    if as_json:
        shown = [producer._asdict() for producer in producers]
        print_json(
            {"topic": topic, "partition": partition, "broker_id": asked_id, "producers": shown}
        )
    elif producers:
        _print_producers(producers)
    elif sys.stdout.isatty():
        print(f"no producer with an id has written to {topic}:{partition} lately")


def _print_producers(producers: Sequence[Producer]) -> None:
    columns = [
        Column("PRODUCER ID", is_number=True),
        Column("EPOCH", is_number=True),
        Column("COORDINATOR EPOCH", is_number=True, rank=3),
        Column("LAST SEQUENCE", is_number=True, rank=2),
        Column("LAST TIMESTAMP", rank=1),
        Column("START OFFSET", is_number=True),
    ]
    rows = [
        [
            str(producer.producer_id),
            str(producer.producer_epoch),
            or_dash(producer.coordinator_epoch),
            or_dash(producer.last_sequence),
            time_or_dash(producer.last_timestamp_ms),
            or_dash(producer.start_offset),
        ]
        for producer in producers
    ]
    print_table(columns, rows)
