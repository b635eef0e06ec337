"""What `ottla groups reset` would do: which partitions, and to which offsets."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import click

from ottla.cli.offsets import Partition
from ottla.cli.selection import Selection


class Move(NamedTuple):
    """One partition's part of a plan."""

    topic: str
    partition: int
    committed_offset: int | None
    new_offset: int
    earliest_offset: int
    latest_offset: int
    note: str
    """Why it is not the offset that was asked for; empty if it is."""


def planned(
    partition: Partition, committed: int | None, wanted: int, earliest: int, latest: int
) -> Move:
    """A group that begins outside of the log would jump by `auto.offset.reset`, wherever that
    points: so the offset stays within the log, as with Kafka's own tool."""
    topic, number = partition
    note = ""
    if wanted < earliest:
        note = f"{wanted} is before the earliest"
    elif wanted > latest:
        note = f"{wanted} is after the latest"
    new = min(max(wanted, earliest), latest)
    return Move(topic, number, committed, new, earliest, latest, note)


def offsets_in_file(lines: Iterable[str]) -> dict[Partition, int]:
    """A line a partition: topic,partition,offset, which is what Kafka's tool exports."""
    found: dict[Partition, int] = {}
    reader = csv.reader(lines)
    for row in reader:
        fields = [field.strip() for field in row]
        if not any(fields):
            continue
        where = f"line {reader.line_num}"
        if len(fields) != 3 or not all(re.fullmatch(r"\d+", field) for field in fields[1:]):
            raise click.BadParameter(
                f"{where} is not topic,partition,offset: {','.join(row)!r}",
                param_hint="'--from-file'",
            )
        key = (fields[0], int(fields[1]))
        if key in found:
            raise click.BadParameter(
                f"{where} names {key[0]}:{key[1]} again", param_hint="'--from-file'"
            )
        found[key] = int(fields[2])
    if not found:
        raise click.BadParameter("it names no partition", param_hint="'--from-file'")
    return found


def selection_of_all(partitions: Mapping[Partition, int]) -> Selection:
    found: Selection = {}
    for topic, number in sorted(partitions):
        numbers = found.setdefault(topic, [])
        assert numbers is not None, "a file names partitions one by one"
        numbers.append(number)
    return found


def shifted(
    partitions: Sequence[Partition], committed: Mapping[Partition, int], by: int
) -> dict[Partition, int]:
    """Raises a usage error for partitions from which there is nothing to shift."""
    if without := [
        f"{topic}:{number}" for topic, number in partitions if (topic, number) not in committed
    ]:
        raise click.BadParameter(
            f"nothing is committed in {', '.join(without)}", param_hint="'--shift-by'"
        )
    return {key: committed[key] + by for key in partitions}
