"""`ottla transactions abort`: the plan first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure
from ottla.cli.name_completion import complete_topic
from ottla.cli.options import json_option
from ottla.cli.plan_first import execute_option, say_only_planned
from ottla.cli.tables import print_facts, print_json
from ottla.cli.transactions.hanging import (
    OpenTransaction,
    abort_transaction,
    is_hanging,
    open_transactions,
)
from ottla.cli.transactions.read import (
    Json,
    located_partitions,
    now_ms,
    producers_in,
    run,
    transactions_of,
)
from ottla.client.cluster import ClusterClient
from ottla.kernel.errors import ErrorCode, KafkaError


@click.command("abort")
@click.option(
    "-t",
    "--topic",
    required=True,
    shell_complete=complete_topic,
    help="The topic in which it hangs.",
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0),
    required=True,
    metavar="N",
    help="The partition in which it hangs.",
)
@click.option(
    "--start-offset",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Where it began, as find-hanging shows.",
)
@click.option(
    "--producer-id",
    type=click.IntRange(0),
    metavar="ID",
    help="Instead of --start-offset: its producer,",
)
@click.option("--producer-epoch", type=click.IntRange(0), metavar="N", help="the epoch of that,")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(-1),
    metavar="N",
    help="and the epoch of its coordinator.",
)
@click.option(
    "--force", is_flag=True, help="Also a transaction that its coordinator may still end."
)
@execute_option
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
    """Abort a hanging transaction in one partition.

    Readers with isolation.level=read_committed then skip its records there, and continue.

    \b
    ottla transactions abort --topic clicks --partition 0 --start-offset 4711 --execute

    A transaction that its coordinator will still end is refused: it may be committed, and aborting
    a part of it would lose records.

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
    known = await transactions_of(client, [one.producer.producer_id], now_ms())
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
        describe = f"transactions describe --topic {topic} --partition {partition}"
        return (
            f"{topic}:{partition} has seen a newer epoch of the coordinator; look again with "
            f"`{command_line(describe)}` ({error.code.name})"
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
        say_only_planned()
