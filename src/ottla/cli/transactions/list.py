"""`ottla transactions list`."""

from __future__ import annotations

import sys

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.errors import Failure
from ottla.cli.options import duration_ms, json_option
from ottla.cli.tables import Column, print_json, print_table
from ottla.cli.transactions.read import Json, listed_transactions, run
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


@click.command("list")
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
    "--running-longer-than",
    metavar="DURATION",
    help="Only open for longer than PT15M, 90s, 2h30m, ...",
)
@click.option(
    "--transactional-id-pattern",
    "pattern",
    metavar="REGEX",
    help="Only ids that match the whole expression (RE2; brokers since Kafka 4.1).",
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
                f"{pattern!r} is not a regular expression of RE2, which brokers take "
                f"({error.code.name})"
            ) from error

    transactions = run(cluster, read)
    if as_json:
        print_json(transactions)
    elif transactions:
        columns = [
            Column("TRANSACTIONAL ID"),
            Column("COORDINATOR", is_number=True, rank=2),
            Column("PRODUCER ID", is_number=True, rank=1),
            Column("STATE"),
        ]
        keys = ("transactional_id", "coordinator_id", "producer_id", "state")
        print_table(columns, [[str(one[key]) for key in keys] for one in transactions])
    elif sys.stdout.isatty():
        is_filtered = request != ListTransactionsRequest()
        print(
            "No such transactions."
            if is_filtered
            else "No transactions yet. A producer with a transactional.id begins one."
        )
