"""`ottla elect-leaders`: leaders back to the preferred replicas, or any replica that is alive."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.cli.client import (
    METADATA_TIMEOUT_S,
    Cluster,
    client_options,
    message_of,
)
from ottla.cli.errors import ExitCode
from ottla.cli.offsets import Partition
from ottla.cli.options import json_option
from ottla.cli.plan_first import say_only_planned
from ottla.cli.selection import Selection, existing_partitions, selection_of, topic_option
from ottla.cli.tables import Column, or_dash, print_json, print_table
from ottla.kernel.errors import ErrorCode

_COLUMNS = [
    Column("TOPIC"),
    Column("PARTITION", is_number=True),
    Column("LEADER", is_number=True, rank=1),
    Column("NEW", is_number=True),
    Column("RESULT"),
]
_METADATA_LAG_S = 5.0
_PAUSE_S = 0.1


class Candidate(NamedTuple):
    """A partition that has another leader than it could have."""

    topic: str
    partition: int
    leader: int | None
    replicas: list[int]

    @property
    def key(self) -> Partition:
        return self.topic, self.partition


@click.command("elect-leaders")
@click.option(
    "--preferred",
    "election",
    flag_value="preferred",
    default="preferred",
    help="Let the first replica of each partition lead it, if it is in sync. [default]",
)
@click.option(
    "--unclean",
    "election",
    flag_value="unclean",
    help="Where no replica in sync is alive: let any that is alive lead. Loses records.",
)
@topic_option
@click.option(
    "--execute", is_flag=True, help="With --unclean: do it. Without this, only the plan is shown."
)
@json_option
@client_options
def command(
    cluster: Cluster, election: str, topics: tuple[str, ...], execute: bool, as_json: bool
) -> int:
    """Elect the preferred leaders of partitions, or any that is alive.

    \b
    ottla elect-leaders                                    after a broker was restarted
    ottla elect-leaders --topic clicks --topic views:0,1
    ottla elect-leaders --unclean --topic clicks --execute

    An unclean election loses what only the missing replicas have. It is for partitions that have no
    leader, and whose in-sync replicas will not come back.

    \b
    With --json: {"executed", "election", "partitions": [{"topic", "partition", "old_leader",
      "leader", "error"}]}; only partitions that need an election are in it.
    """
    selection = selection_of(topics)
    admin = cluster.admin()
    is_unclean = election == "unclean"
    candidates = _candidates(admin, selection, is_unclean=is_unclean)
    is_executed = execute or not is_unclean
    errors = _elect(admin, election, candidates) if is_executed and candidates else {}
    leaders = _leaders(admin, candidates, errors, is_unclean=is_unclean) if is_executed else {}
    if as_json:
        print_json(
            {
                "executed": is_executed,
                "election": election,
                "partitions": [
                    {
                        "topic": one.topic,
                        "partition": one.partition,
                        "old_leader": one.leader,
                        "leader": leaders.get(one.key),
                        "error": errors.get(one.key),
                    }
                    for one in candidates
                ],
            }
        )
    elif not candidates:
        print(
            "every partition has a leader"
            if is_unclean
            else "every partition is led by its preferred replica"
        )
    else:
        _print(candidates, leaders, errors, is_executed=is_executed)
        if not is_executed:
            say_only_planned()
    return ExitCode.FAILED if errors else ExitCode.OK


def _candidates(admin: AdminClient, selection: Selection, *, is_unclean: bool) -> list[Candidate]:
    chosen = set(existing_partitions(admin, selection)) if selection else None
    found = []
    for name, topic in admin.list_topics(timeout=METADATA_TIMEOUT_S).topics.items():
        for number, part in topic.partitions.items():
            leader = part.leader if part.leader >= 0 else None
            is_needed = leader is None if is_unclean else leader != part.replicas[0]
            if is_needed and (chosen is None or (name, number) in chosen):
                found.append(Candidate(name, number, leader, list(part.replicas)))
    return sorted(found)


def _elect(
    admin: AdminClient, election: str, candidates: Sequence[Candidate]
) -> dict[Partition, str]:
    """Why some have no new leader."""
    kind = ElectionType.UNCLEAN if election == "unclean" else ElectionType.PREFERRED
    wanted = [TopicPartition(one.topic, one.partition) for one in candidates]
    # With a time-out of its own, confluent-kafka 2.16 raises SystemError: it counts one too few.
    results = admin.elect_leaders(kind, wanted).result()
    errors: dict[Partition, str] = {}
    for each, error in results.items():
        if error is None or error.code() == ErrorCode.ELECTION_NOT_NEEDED:
            continue  # it has one by now
        errors[each.topic, each.partition] = message_of(KafkaException(error))
    return errors


def _leaders(
    admin: AdminClient,
    candidates: Sequence[Candidate],
    errors: Mapping[Partition, str],
    *,
    is_unclean: bool,
) -> dict[Partition, int]:
    """Those that were elected. Brokers hear of them a moment later than the controller says so."""
    elected = [one for one in candidates if one.key not in errors]
    if not is_unclean:
        return {one.key: one.replicas[0] for one in elected}
    deadline_s = time.monotonic() + _METADATA_LAG_S
    while True:
        topics = admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
        found = {
            one.key: leader
            for one in elected
            if (leader := topics[one.topic].partitions[one.partition].leader) >= 0
        }
        if len(found) == len(elected) or time.monotonic() > deadline_s:
            return found
        time.sleep(_PAUSE_S)


def _print(
    candidates: Sequence[Candidate],
    leaders: Mapping[Partition, int],
    errors: Mapping[Partition, str],
    *,
    is_executed: bool,
) -> None:
    rows: list[list[Any]] = []
    for one in candidates:
        result = errors.get(one.key, "elected" if is_executed else "to be elected")
        leader = "none" if one.leader is None else str(one.leader)
        rows.append([one.topic, str(one.partition), leader, or_dash(leaders.get(one.key)), result])
    print_table(_COLUMNS, rows)
