"""`ottla consume`: records of topics on standard output."""

from __future__ import annotations

import sys

import click
from confluent_kafka import Consumer

from ottla.cli.client import Cluster, client_options
from ottla.cli.command_line import command_line
from ottla.cli.consume.assignment import Assignment, GroupAssignment, ManualAssignment
from ottla.cli.consume.chosen_topics import ChosenTopics
from ottla.cli.consume.key_filter import key_filter
from ottla.cli.consume.output_options import Output, output_options
from ottla.cli.consume.positions import Start, checked_offset
from ottla.cli.consume.reading import Ending, Reading
from ottla.cli.errors import warn
from ottla.cli.interrupts import stoppable
from ottla.cli.name_completion import complete_group, complete_topic
from ottla.cli.options import timestamp_ms


@click.command("consume")
@click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topic
)
@click.option("-b", "--from-beginning", is_flag=True, help="Begin with the oldest record.")
@click.option("-o", "--offset", metavar="N|end-N", help="Begin at offset N, or N before the end.")
@click.option("--from-timestamp", metavar="TIME", help="Begin at a time: ISO 8601 or ms.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition. May be repeated.",
)
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_group,
    help="Join this group: share the partitions, commit what was shown.",
)
@click.option(
    "-n",
    "--max",
    "max_count",
    type=click.IntRange(1),
    metavar="N",
    help="Stop after N records.",
)
@click.option("-e", "--until-end", is_flag=True, help="Stop at the end that the topics have now.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Only records with this key. May be repeated.",
)
@click.option("--key-regex", metavar="REGEX", help="Only records whose key has a match.")
@output_options
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_uncommitted",
    show_default=True,
)
@client_options
def command(
    cluster: Cluster,
    topics: tuple[str, ...],
    from_beginning: bool,
    offset: str | None,
    from_timestamp: str | None,
    partitions: tuple[int, ...],
    group: str | None,
    max_count: int | None,
    until_end: bool,
    keys: tuple[str, ...],
    key_regex: str | None,
    output: Output,
    isolation: str,
) -> int:
    """Read records from topics: new ones, unless an option says where to begin.

    \b
    ottla consume clicks --from-beginning
    ottla consume clicks --offset end-10 --until-end --keys
    ottla consume clicks --from-timestamp 2026-01-31T12:00:00Z --max 100 --json
    ottla consume clicks views '^logs-.*' --key user-7
    ottla consume clicks --group billing --format '%p:%o %k=%s\\n'

    A TOPIC that begins with ^ is a regular expression. Topics that match it later are read too.

    With --group the members of the group share the partitions, and continue where the group left
    off. A group without committed offsets begins with new records, or with --from-beginning with
    the oldest. Offsets of shown records are committed every second, when a partition moves to
    another member, and at the end.

    --format takes kcat's letters: %t topic, %p partition, %o offset, %k key, %s value, %K and %S
    their lengths (-1: null), %R the value's length as 4 bytes, %T timestamp (ms), %h headers;
    \\n \\r \\t \\xHH. Nothing is added: end it with \\n.

    \b
    With --json: {"topic", "partition", "offset", "timestamp" (ms), "timestamp_type", "key",
    "value", "headers": [{"key", "value"}, ...]}; bytes that are not UTF-8 are base64 in
    key_base64 and value_base64.
    """
    if sum((from_beginning, offset is not None, from_timestamp is not None)) > 1:
        raise click.UsageError("give one of --from-beginning, --offset and --from-timestamp")
    if group is not None and (offset is not None or from_timestamp is not None or partitions):
        raise click.UsageError(
            "a group knows its offsets and partitions: leave out --offset, --from-timestamp and "
            f"--partition, or move the group first with `{command_line('groups reset')}`"
        )
    chosen = ChosenTopics(topics, partitions)
    formatter = output.formatter(has_topic=not chosen.is_single)
    is_wanted = key_filter(keys, key_regex)
    start = Start(
        "earliest" if from_beginning else checked_offset(offset),
        None if from_timestamp is None else timestamp_ms(from_timestamp),
    )
    ending = Ending(max_count, until_end)
    consumer = _consumer(cluster, chosen, isolation, group, from_beginning=from_beginning)
    try:
        assignment: Assignment
        if group is None:
            assignment = ManualAssignment(consumer, chosen, start, is_endless=ending.is_endless)
        else:
            assignment = GroupAssignment(consumer, group, chosen, is_endless=ending.is_endless)
        assignment.begin()
        if sys.stdout.isatty() and not until_end:
            _say_what_comes(chosen, start, group)
        reading = Reading(consumer, assignment, formatter, ending, str(chosen), is_wanted)
        with stoppable() as stop:
            return reading.run(stop)
    finally:
        consumer.close()


def _consumer(
    cluster: Cluster,
    chosen: ChosenTopics,
    isolation: str,
    group: str | None,
    *,
    from_beginning: bool,
) -> Consumer:
    settings: dict[str, object] = {
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "fetch.wait.max.ms": 100,
        "auto.offset.reset": "error",
    }
    if group is not None:
        settings |= {
            "group.id": group,
            "auto.offset.reset": "earliest" if from_beginning else "latest",
        }
        if chosen.has_patterns:
            settings |= {
                "topic.blacklist": chosen.ignored_by_patterns,
                "topic.metadata.refresh.interval.ms": 3000,
            }
    return cluster.consumer(settings)


def _say_what_comes(chosen: ChosenTopics, start: Start, group: str | None) -> None:
    if group is not None:
        warn(f"joining group {group!r}; Ctrl-C ends")
    elif start == Start():
        warn(f"waiting for new records of {chosen} (-b: old ones too); Ctrl-C ends")
