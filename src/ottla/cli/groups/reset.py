"""`ottla groups reset`: the plan first, then the steps, each asked of the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, client_options, one_line, wait_for
from ottla.cli.errors import Failure, warn
from ottla.cli.groups.plan import Move, offsets_in_file, planned, selection_of_all, shifted
from ottla.cli.groups.read import INACTIVE_STATES, committed_offsets, group_not_found, state_text
from ottla.cli.name_completion import complete_group
from ottla.cli.offsets import Partition, bounds_of, offsets_since
from ottla.cli.options import duration_ms, json_option, timestamp_ms
from ottla.cli.plan_first import execute_option, say_only_planned
from ottla.cli.selection import existing_partitions, selection_of, topic_option
from ottla.cli.tables import Column, or_dash, print_json, print_table


@click.command("reset")
@click.argument("group", shell_complete=complete_group)
@click.option("--to-earliest", is_flag=True, help="To the earliest offset.")
@click.option("--to-latest", is_flag=True, help="To the latest offset: skip everything.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="To this offset.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record at or after this time; ISO 8601 or ms.",
)
@click.option(
    "--by-duration", metavar="DURATION", help="To the first record of the last P7D, 2h30m, ..."
)
@click.option("--shift-by", type=int, metavar="N", help="N offsets forward, or back if negative.")
@click.option(
    "--from-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Lines of topic,partition,offset; - for standard input.",
)
@topic_option
@click.option("--all-topics", is_flag=True, help="All topics in which the group has committed.")
@execute_option
@json_option
@client_options
def reset(
    cluster: Cluster,
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    as_json: bool,
    **targets: Any,
) -> None:
    """Change the committed offsets of a group without members.

    \b
    ottla groups reset billing --topic clicks --to-earliest
    ottla groups reset billing --topic clicks:0,1 --shift-by -100 --execute
    ottla groups reset billing --all-topics --by-duration 2h30m --execute

    An offset outside the log becomes the nearest one in it.

    \b
    With --json: {"group", "executed", "partitions": [{"topic", "partition", "committed_offset",
      "new_offset", "earliest_offset", "latest_offset", "note"}]}.
    """
    target, value = _the_one_target(targets)
    selection = selection_of(topics)
    if target == "from_file":
        value = offsets_in_file(value)
        if selection or all_topics:
            raise click.UsageError("--from-file says itself which partitions")
    elif bool(selection) == all_topics:
        raise click.UsageError("say which partitions: either --topic or --all-topics")
    admin = cluster.admin()
    is_there = is_there_and_idle(admin, group)
    if all_topics and not is_there:
        raise group_not_found(admin, group)
    committed = committed_offsets(admin, [group])[group]
    if target == "from_file":
        selection = selection_of_all(value)
    partitions = sorted(committed) if all_topics else existing_partitions(admin, selection)
    if not partitions:
        raise Failure(f"{group!r} has committed nothing yet; name partitions by --topic")
    plan = make_plan(admin, partitions, committed, target, value)
    if not is_there:
        # No error: this is how one says where a new group begins.
        warn(f"{group_not_found(admin, group)} (a reset makes it)")
    if not as_json:
        _print_plan(plan)
    if execute:
        commit(admin, group, plan)
    if as_json:
        moves = [move._asdict() for move in plan]
        print_json({"group": group, "executed": execute, "partitions": moves})
    elif execute:
        print(f"reset {group}")
    else:
        say_only_planned()


def _the_one_target(targets: Mapping[str, Any]) -> tuple[str, Any]:
    given = [
        (name, value) for name, value in targets.items() if value is not None and value is not False
    ]
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in targets)
        raise click.UsageError(f"say where to, by one of {options}")
    name, value = given[0]
    if name == "to_datetime":
        return "to_time", timestamp_ms(value, "--to-datetime")
    if name == "by_duration":
        since_ms = int(time.time() * 1000) - duration_ms(value, "--by-duration")
        return "to_time", max(0, since_ms)
    return name, value


def _print_plan(plan: Sequence[Move]) -> None:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", is_number=True),
        Column("COMMITTED", is_number=True, rank=2),
        Column("NEW", is_number=True),
        Column("LAG", is_number=True, rank=1),
        Column("NOTE"),
    ]
    rows = [
        [
            move.topic,
            str(move.partition),
            or_dash(move.committed_offset),
            str(move.new_offset),
            str(move.latest_offset - move.new_offset),
            move.note,
        ]
        for move in plan
    ]
    print_table(columns, rows)


def is_there_and_idle(admin: AdminClient, group: str) -> bool:
    """False if there is no such group. Raises Failure if it has members: the coordinator would
    refuse too, but with a code that says nothing of them."""
    futures = admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)
    described, failures = wait_for(futures)
    if failures:
        raise Failure(f"could not describe {one_line(failures.items())}")
    found = described[group]
    state = state_text(found.state, found.type)
    if state not in INACTIVE_STATES:
        raise Failure(
            f"{group!r} is active ({state}, members: {len(found.members)}); "
            "stop its consumers first, since they would commit over it"
        )
    return bool(found.state != ConsumerGroupState.DEAD)


def make_plan(
    admin: AdminClient,
    partitions: Sequence[Partition],
    committed: Mapping[Partition, int],
    target: str,
    value: Any,
) -> list[Move]:
    bounds = bounds_of(admin, partitions)
    wanted: Mapping[Partition, int]
    if target == "to_earliest":
        wanted = {key: earliest for key, (earliest, _) in bounds.items()}
    elif target == "to_latest":
        wanted = {key: latest for key, (_, latest) in bounds.items()}
    elif target == "to_offset":
        wanted = dict.fromkeys(partitions, value)
    elif target == "shift_by":
        wanted = shifted(partitions, committed, value)
    elif target == "from_file":
        wanted = value
    else:
        wanted = offsets_since(admin, bounds, value)
    return [planned(key, committed.get(key), wanted[key], *bounds[key]) for key in partitions]


def commit(admin: AdminClient, group: str, plan: Sequence[Move]) -> None:
    offsets = [TopicPartition(move.topic, move.partition, move.new_offset) for move in plan]
    futures = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, offsets)], request_timeout=REQUEST_TIMEOUT_S
    )
    answers, failures = wait_for(futures)
    if failures:
        raise Failure(f"could not reset {one_line(failures.items())}")
    refused = [
        (f"{found.topic}:{found.partition}", found.error.str())
        for answer in answers.values()
        for found in answer.topic_partitions
        if found.error is not None
    ]
    if refused:
        raise Failure(f"could not reset {one_line(refused)}")
