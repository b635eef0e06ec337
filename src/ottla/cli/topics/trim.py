"""`ottla topics trim`: deletes the beginning of partitions, the plan first."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, client_options, one_line, wait_for
from ottla.cli.configs import described_configs
from ottla.cli.errors import Failure
from ottla.cli.name_completion import complete_topic
from ottla.cli.offsets import Bounds, Partition, bounds_of, offsets_since
from ottla.cli.options import duration_ms, json_option, timestamp_ms
from ottla.cli.plan_first import execute_option, say_only_planned
from ottla.cli.selection import existing_partitions, selection_of
from ottla.cli.tables import Column, print_json, print_table
from ottla.kernel.internal_topics import is_internal

_COLUMNS = [
    Column("TOPIC"),
    Column("PARTITION", is_number=True),
    Column("EARLIEST", is_number=True, rank=2),
    Column("NEW", is_number=True),
    Column("LATEST", is_number=True, rank=3),
    Column("DELETED", is_number=True),
    Column("NOTE", rank=1),
]


class Cut(NamedTuple):
    """One partition's part of a plan. Records before `new_earliest_offset` go."""

    topic: str
    partition: int
    earliest_offset: int
    new_earliest_offset: int
    latest_offset: int
    note: str
    """Why it is not the offset that was asked for; empty if it is."""

    @property
    def deleted(self) -> int:
        return self.new_earliest_offset - self.earliest_offset


@click.command("trim")
@click.argument(
    "names", nargs=-1, required=True, metavar="TOPIC[:P,P]...", shell_complete=complete_topic
)
@click.option(
    "--before-offset", type=click.IntRange(0), metavar="OFFSET", help="Records before this offset."
)
@click.option("--before-time", metavar="TIME", help="Records before this time; ISO 8601 or ms.")
@click.option("--older-than", metavar="DURATION", help="Records older than this: P7D, 2h30m.")
@click.option(
    "--keep", type=click.IntRange(0), metavar="N", help="All but the last N of each partition."
)
@execute_option
@json_option
@client_options
def trim(
    cluster: Cluster, names: tuple[str, ...], execute: bool, as_json: bool, **limits: Any
) -> None:
    """Delete the oldest records of topics or partitions.

    \b
    ottla topics trim clicks --older-than 7d
    ottla topics trim clicks:0,1 --before-offset 4711 --execute
    ottla topics trim clicks views --keep 1000 --execute

    Deleted records cannot be restored. Groups that have not read them continue where their
    auto.offset.reset says. Disk space is freed when whole segments are empty. N and DELETED count
    offsets: in topics that are compacted or written in transactions some have no record.

    \b
    With --json: {"executed", "partitions": [{"topic", "partition", "earliest_offset",
      "new_earliest_offset", "latest_offset", "note", "deleted"}]}.
    """
    limit, value = _the_one_limit(limits)
    selection = selection_of(names, "TOPIC")
    admin = cluster.admin()
    partitions = existing_partitions(admin, selection)
    _refuse_compacted(admin, list(selection))
    bounds = bounds_of(admin, partitions)
    plan = _plan(admin, bounds, limit, value)
    if not as_json:
        _print_plan(plan)
    if execute:
        _execute(admin, plan)
    if as_json:
        cuts = [cut._asdict() | {"deleted": cut.deleted} for cut in plan]
        print_json({"executed": execute, "partitions": cuts})
    elif execute:
        print(f"trimmed {', '.join(selection)}")
    else:
        say_only_planned()


def _the_one_limit(limits: Mapping[str, Any]) -> tuple[str, Any]:
    given = [(name, value) for name, value in limits.items() if value is not None]
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in limits)
        raise click.UsageError(f"say what to delete, by one of {options}")
    name, value = given[0]
    if name == "before_time":
        return name, timestamp_ms(value, "--before-time")
    if name == "older_than":
        since_ms = int(time.time() * 1000) - duration_ms(value, "--older-than")
        return "before_time", max(0, since_ms)
    return name, value


def _refuse_compacted(admin: AdminClient, topics: Sequence[str]) -> None:
    """Brokers would refuse too, but with a code for each partition and no reason."""
    for topic in topics:
        if is_internal(topic):
            raise Failure(f"{topic!r} is kept by the brokers themselves, and cannot be trimmed")
    for topic, configs in described_configs(admin, "topic", topics).items():
        policy = configs["cleanup.policy"]["value"]
        if "delete" not in policy.split(","):
            raise Failure(
                f"{topic!r} has cleanup.policy={policy}, and brokers trim only topics with delete "
                "in it (which would also delete by retention.ms, after 7 days by default)"
            )


def _plan(
    admin: AdminClient, bounds: Mapping[Partition, Bounds], limit: str, value: int
) -> list[Cut]:
    if limit == "before_time":
        wanted = offsets_since(admin, bounds, value)
    elif limit == "keep":
        wanted = {key: latest - value for key, (_, latest) in bounds.items()}
    else:
        wanted = dict.fromkeys(bounds, value)
    return [cut_of(key, wanted[key], bounds[key]) for key in sorted(bounds)]


def cut_of(partition: Partition, wanted: int, bounds: Bounds) -> Cut:
    """Within the log: a leader refuses what is behind its high watermark, and below the earliest
    there is nothing left to delete."""
    note = ""
    if wanted > bounds.latest:
        note = f"{wanted} is after the latest"
    elif wanted <= bounds.earliest:
        note = "nothing to delete"
    new = min(max(wanted, bounds.earliest), bounds.latest)
    return Cut(*partition, bounds.earliest, new, bounds.latest, note)


def _print_plan(plan: Sequence[Cut]) -> None:
    rows = [
        [
            cut.topic,
            str(cut.partition),
            str(cut.earliest_offset),
            str(cut.new_earliest_offset),
            str(cut.latest_offset),
            str(cut.deleted),
            cut.note,
        ]
        for cut in plan
    ]
    print_table(_COLUMNS, rows)


def _execute(admin: AdminClient, plan: Sequence[Cut]) -> None:
    cuts = [
        TopicPartition(cut.topic, cut.partition, cut.new_earliest_offset)
        for cut in plan
        if cut.deleted
    ]
    if not cuts:
        return
    _, failures = wait_for(admin.delete_records(cuts, request_timeout=REQUEST_TIMEOUT_S))
    if failures:
        reasons = ((f"{cut.topic}:{cut.partition}", why) for cut, why in failures.items())
        raise Failure(f"could not trim {one_line(reasons)}")
