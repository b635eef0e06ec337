"""`ottla transactions`: list and describe transactions, find those that hang and abort them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ottla.cli.client import Cluster, client_options, one_line
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.options import duration_ms, iso_of, json_option
from ottla.cli.suggestions import CommandGroup
from ottla.cli.tables import Column, heading, print_facts, print_json, print_table
from ottla.cli.transactions_hanging import (
    OpenTransaction,
    Search,
    abort_transaction,
    hanging_transactions,
    is_hanging,
    open_transactions,
)
from ottla.cli.transactions_read import (
    Json,
    Producer,
    described_transaction,
    listed_transactions,
    located_partitions,
    producers_in,
    run,
    transactions_of,
)
from ottla.client.cluster import ClusterClient
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_transactions import ListTransactionsRequest

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
_MINUTE_MS = 60_000

partition_option = click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="Which one of the topic."
)


@click.group("transactions", cls=CommandGroup)
def command() -> None:
    """List and describe transactions, find those that hang, and abort them."""


@command.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only in this state. May be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(0),
    multiple=True,
    metavar="ID",
    help="Only of this producer. May be repeated.",
)
@click.option(
    "--running-longer-than", metavar="DURATION", help="Only open so long: PT15M, 90s, 2h30m."
)
@click.option(
    "--transactional-id-pattern",
    "pattern",
    metavar="REGEX",
    help="Only ids that match it as a whole (RE2; brokers since Kafka 4.1).",
)
@json_option
@client_options
def list_transactions(
    cluster: Cluster,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    running_longer_than: str | None,
    pattern: str | None,
    as_json: bool,
) -> None:
    """List transactional ids and the state of their last transaction.

    With --json: [{"transactional_id", "coordinator_id", "producer_id", "state"}, ...].
    """
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        transactional_id_pattern=pattern,
    )
    if running_longer_than is not None:
        request.duration_filter = duration_ms(running_longer_than, "--running-longer-than")

    async def read(client: ClusterClient) -> list[Json]:
        try:
            return await listed_transactions(client, request)
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_REGULAR_EXPRESSION:
                raise
            raise Failure(
                f"{pattern!r} is no regular expression of RE2, which brokers take "
                f"({error.code.name})"
            ) from error

    transactions = run(cluster, read)
    if as_json:
        print_json(transactions)
    elif transactions:
        columns = [
            Column("TRANSACTIONAL ID"),
            Column("COORDINATOR", is_number=True),
            Column("PRODUCER ID", is_number=True),
            Column("STATE"),
        ]
        keys = ("transactional_id", "coordinator_id", "producer_id", "state")
        print_table(columns, [[str(one[key]) for key in keys] for one in transactions])
    elif sys.stdout.isatty():
        print("no such transactions; a producer with a transactional.id begins them")


# --- describe ----------------------------------------------------------------------------------


@command.command("describe")
@click.argument("ids", nargs=-1, metavar="[TRANSACTIONAL_ID]...")
@click.option("-t", "--topic", help="With --partition: the producers that its leader remembers.")
@partition_option
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
      "start_offset"}]}; what is not there is null.
    """
    if ids and topic is None and partition is None and broker_id is None:
        _describe_transactions(cluster, list(dict.fromkeys(ids)), as_json=as_json)
    elif not ids and topic is not None and partition is not None:
        _describe_producers(cluster, topic, partition, broker_id, as_json=as_json)
    else:
        raise click.UsageError("name transactional ids, or one partition by --topic, --partition")


def _describe_transactions(cluster: Cluster, ids: Sequence[str], *, as_json: bool) -> None:
    now_ms = _now_ms()

    async def read(client: ClusterClient) -> list[Json]:
        found = []
        for transactional_id in ids:
            described = await described_transaction(client, transactional_id, now_ms)
            if described is None:
                raise Failure(
                    f"there is no transactional id {transactional_id!r}; "
                    "see `ottla transactions list`"
                )
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
        Column("COORDINATOR EPOCH", is_number=True),
        Column("LAST SEQUENCE", is_number=True),
        Column("LAST TIMESTAMP"),
        Column("START OFFSET", is_number=True),
    ]
    rows = [
        [
            str(producer.producer_id),
            str(producer.producer_epoch),
            _text(producer.coordinator_epoch),
            _text(producer.last_sequence),
            _time_text(producer.last_timestamp_ms),
            _text(producer.start_offset),
        ]
        for producer in producers
    ]
    print_table(columns, rows)


# --- find-hanging ------------------------------------------------------------------------------


@command.command("find-hanging")
@click.option("-t", "--topic", help="Only in this topic.")
@partition_option
@click.option("--broker-id", type=int, metavar="ID", help="Only in the replicas of this broker.")
@click.option(
    "--max-transaction-timeout",
    "timeout_minutes",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="The brokers' transaction.max.timeout.ms. What is younger is not suspect.",
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
    """Find transactions that are open in a partition though no coordinator will end them.

    They hold up every reader with isolation.level=read_committed. Looks at all partitions unless
    told otherwise. Ends with 1 if some could not be looked at.

    \b
    With --json: [{"topic", "partition", "transactional_id", "producer_id", "producer_epoch",
      "coordinator_epoch", "last_sequence", "last_timestamp_ms", "start_offset",
      "duration_ms"}, ...]; what is not known is null.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition is of which --topic?")
    now_ms = _now_ms()

    async def search(client: ClusterClient) -> Search:
        return await hanging_transactions(
            client,
            topic,
            partition,
            broker_id,
            open_longer_than_ms=timeout_minutes * _MINUTE_MS,
            now_ms=now_ms,
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
        Column("PRODUCER ID", is_number=True),
        Column("EPOCH", is_number=True),
        Column("COORDINATOR EPOCH", is_number=True),
        Column("LAST TIMESTAMP"),
        Column("OPEN FOR"),
        Column("TRANSACTIONAL ID"),
    ]
    keys = ("partition", "start_offset", "producer_id", "producer_epoch", "coordinator_epoch")
    rows = [
        [
            one["topic"],
            *(_text(one[key]) for key in keys),
            _time_text(one["last_timestamp_ms"]),
            duration_text(one["duration_ms"]),
            _text(one["transactional_id"]),
        ]
        for one in hanging
    ]
    print_table(columns, rows)
    if sys.stdout.isatty():
        first = hanging[0]
        print(
            f"\nottla transactions abort --topic {first['topic']} "
            f"--partition {first['partition']} --start-offset {first['start_offset']}"
        )


# --- abort -------------------------------------------------------------------------------------


@command.command("abort")
@click.option("-t", "--topic", required=True, help="Where the transaction hangs.")
@click.option(
    "-p", "--partition", type=click.IntRange(0), required=True, metavar="N", help="Which one."
)
@click.option(
    "--start-offset",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Where it began, as find-hanging tells.",
)
@click.option("--producer-id", type=click.IntRange(0), metavar="ID", help="Or who began it,")
@click.option("--producer-epoch", type=click.IntRange(0), metavar="N", help="in which epoch,")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(-1),
    metavar="N",
    help="and of which epoch the coordinator was.",
)
@click.option("--force", is_flag=True, help="Also one that its coordinator still holds.")
@click.option("--execute", is_flag=True, help="Do it. Without this the plan is only shown.")
@json_option
@client_options
def abort(
    cluster: Cluster,
    topic: str,
    partition: int,
    force: bool,
    execute: bool,
    as_json: bool,
    **wanted: int | None,
) -> None:
    """Abort a hanging transaction in one partition: its records there are dropped for readers with
    isolation.level=read_committed, which go on behind them.

    \b
    ottla transactions abort --topic clicks --partition 0 --start-offset 4711 --execute

    A transaction that its coordinator will end itself is refused: to drop a part of what may
    still be committed is to lose it.

    \b
    With --json: {"executed", "topic", "partition", "start_offset", "producer_id",
      "producer_epoch", "coordinator_epoch", "transactional_id", "state"}.
    """
    _check_identity(wanted)
    plan = run(
        cluster,
        lambda client: _abort(client, topic, partition, wanted, force=force, execute=execute),
    )
    _report_abort(plan, as_json=as_json)


async def _abort(
    client: ClusterClient,
    topic: str,
    partition: int,
    wanted: Mapping[str, int | None],
    *,
    force: bool,
    execute: bool,
) -> Json:
    located, failures = await located_partitions(client, topic, partition)
    found, more_failures = await producers_in(client, located)
    failures.update(more_failures)
    if failures:
        raise Failure(f"cannot look at {topic}:{partition}: {failures[topic, partition]}")
    one = _chosen(open_transactions(found), topic, partition, wanted)
    known = await transactions_of(client, [one.producer.producer_id], _now_ms())
    transaction = known.get(one.producer.producer_id, {})
    if not is_hanging(one, known) and not force:
        raise Failure(
            f"this transaction of {transaction['transactional_id']!r} does not hang: its "
            f"coordinator has it as {transaction['state']} and will end it; --force aborts it here "
            "all the same"
        )
    coordinator_epoch = wanted["coordinator_epoch"]
    if coordinator_epoch is None:
        coordinator_epoch = one.producer.coordinator_epoch
    # There is none if the first transaction of a producer hangs. 0 is above none that was there.
    plan: Json = {
        "executed": execute,
        "topic": topic,
        "partition": partition,
        "start_offset": one.producer.start_offset,
        "producer_id": one.producer.producer_id,
        "producer_epoch": one.producer.producer_epoch,
        "coordinator_epoch": max(0, coordinator_epoch or 0),
        "transactional_id": transaction.get("transactional_id"),
        "state": transaction.get("state"),
    }
    if execute:
        try:
            await abort_transaction(client, one, plan["coordinator_epoch"], located[one.key])
        except KafkaError as error:
            raise Failure(_refusal(error, topic, partition)) from error
    return plan


def _check_identity(wanted: Mapping[str, int | None]) -> None:
    by_producer = ("producer_id", "producer_epoch", "coordinator_epoch")
    given = [name for name in by_producer if wanted[name] is not None]
    if wanted["start_offset"] is not None and not given:
        return
    if wanted["start_offset"] is None and len(given) == len(by_producer):
        return
    raise click.UsageError(
        "say which transaction: by --start-offset, or by --producer-id, --producer-epoch and "
        "--coordinator-epoch together"
    )


def _chosen(
    candidates: Sequence[OpenTransaction],
    topic: str,
    partition: int,
    wanted: Mapping[str, int | None],
) -> OpenTransaction:
    for one in candidates:
        if wanted["start_offset"] is not None:
            if one.producer.start_offset == wanted["start_offset"]:
                return one
        elif (one.producer.producer_id, one.producer.producer_epoch) == (
            wanted["producer_id"],
            wanted["producer_epoch"],
        ):
            return one
    offsets = ", ".join(str(one.producer.start_offset) for one in candidates)
    raise Failure(
        f"no such transaction is open in {topic}:{partition}; "
        + (f"open are those from {offsets}" if offsets else "none is")
    )


def _refusal(error: KafkaError, topic: str, partition: int) -> str:
    if error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
        return (
            f"{topic}:{partition} has a newer epoch of this producer: the transaction has ended "
            f"meanwhile ({error.code.name})"
        )
    if error.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        return (
            f"{topic}:{partition} has seen a newer epoch of the coordinator; look again with "
            f"`ottla transactions describe --topic {topic} --partition {partition}` "
            f"({error.code.name})"
        )
    return f"could not abort in {topic}:{partition}: {error.code.name}"


def _report_abort(plan: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    transactional_id = plan["transactional_id"]
    if transactional_id is None:
        coordinator = "knows nothing of this producer"
    else:
        coordinator = f"has {transactional_id!r} as {plan['state']}"
    print_facts(
        [
            ("partition", f"{plan['topic']}:{plan['partition']}"),
            ("start offset", str(plan["start_offset"])),
            ("producer id", str(plan["producer_id"])),
            ("producer epoch", str(plan["producer_epoch"])),
            ("coordinator epoch", str(plan["coordinator_epoch"])),
            ("coordinator", coordinator),
        ]
    )
    if plan["executed"]:
        print(f"aborted from offset {plan['start_offset']}")
    else:
        warn("this is the plan, nothing was changed; --execute does it")


# --- words -------------------------------------------------------------------------------------


def duration_text(milliseconds: int) -> str:
    """
    >>> duration_text(1500), duration_text(90_000), duration_text(7_500_000)
    ('1.5 s', '1 min 30 s', '2 h 5 min')
    """
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left_s = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left_s} s" if left_s else f"{minutes} min"
    hours, left_minutes = divmod(minutes, 60)
    return f"{hours} h {left_minutes} min" if left_minutes else f"{hours} h"


def _time_text(timestamp_ms: int | None) -> str:
    return "-" if timestamp_ms is None else iso_of(timestamp_ms)


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def _now_ms() -> int:
    return int(time.time() * 1000)
