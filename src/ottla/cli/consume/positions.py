"""Where reading begins, when no group says it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import click
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition

_TIMEOUT_S = 30.0


class Start(NamedTuple):
    """At an offset, or at a time, or else at the end."""

    offset: str | None = None
    timestamp: int | None = None


def checked_offset(text: str | None) -> str | None:
    if text is None or re.fullmatch(r"\d+|end-\d+|earliest|latest", text):
        return text
    raise click.BadParameter(
        f"{text!r} is neither a number nor end-NUMBER", param_hint="'--offset'"
    )


def positions(
    consumer: Consumer, partitions: Iterable[Partition], start: Start
) -> list[TopicPartition]:
    if start.timestamp is not None:
        wanted = [TopicPartition(*partition, start.timestamp) for partition in partitions]
        return consumer.offsets_for_times(wanted, timeout=_TIMEOUT_S) if wanted else []
    return [
        TopicPartition(*partition, _offset_of(consumer, partition, start.offset))
        for partition in partitions
    ]


def _offset_of(consumer: Consumer, partition: Partition, offset: str | None) -> int:
    if offset is None or offset == "latest":
        return OFFSET_END
    if offset == "earliest":
        return OFFSET_BEGINNING
    low, high = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_TIMEOUT_S)
    if offset.startswith("end-"):
        return max(low, high - int(offset.removeprefix("end-")))
    if not low <= int(offset) <= high:
        where = f"{partition[0]}-{partition[1]}"
        raise Failure(f"offset {offset} is out of range: {where} has offsets {low} to {high}")
    return int(offset)
