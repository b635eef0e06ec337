"""The steps of `ottla groups reset`, each asked of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.client import REQUEST_TIMEOUT_S, find_topic, one_line, wait_for
from ottla.cli.errors import Failure
from ottla.cli.groups_plan import Move, Selection, planned, shifted
from ottla.cli.groups_read import INACTIVE_STATES, state_text
from ottla.cli.offsets import EARLIEST, LATEST, Partition, offsets_of


def refuse_active(admin: AdminClient, group: str) -> None:
    """The coordinator would refuse too, but with a code that says nothing of members."""
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


def existing(admin: AdminClient, selection: Selection) -> list[Partition]:
    """Raises Failure for topics and partitions that are not there."""
    found: list[Partition] = []
    for topic, numbers in selection.items():
        there = find_topic(admin, topic).partitions
        if missing := [number for number in numbers or () if number not in there]:
            raise Failure(
                f"{topic!r} has {len(there)} partitions, "
                f"and no {', '.join(map(str, missing))} among them"
            )
        found += [(topic, number) for number in numbers or sorted(there)]
    return sorted(found)


def make_plan(
    admin: AdminClient,
    partitions: Sequence[Partition],
    committed: Mapping[Partition, int],
    target: str,
    value: Any,
) -> list[Move]:
    earliest = offsets_of(admin, partitions, EARLIEST)
    latest = offsets_of(admin, partitions, LATEST)
    for topic, number in partitions:
        if (topic, number) not in earliest or (topic, number) not in latest:
            raise Failure(f"{topic}:{number} has no leader that could be asked for its offsets")
    wanted: Mapping[Partition, int]
    if target == "to_earliest":
        wanted = earliest
    elif target == "to_latest":
        wanted = latest
    elif target == "to_offset":
        wanted = dict.fromkeys(partitions, value)
    elif target == "shift_by":
        wanted = shifted(partitions, committed, value)
    elif target == "from_file":
        wanted = value
    else:
        found = offsets_of(admin, partitions, OffsetSpec.for_timestamp(value))
        # Nothing is as young as that: the next record will be.
        wanted = {key: found[key] if found.get(key, -1) >= 0 else latest[key] for key in partitions}
    return [
        planned(key, committed.get(key), wanted[key], earliest[key], latest[key])
        for key in partitions
    ]


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
