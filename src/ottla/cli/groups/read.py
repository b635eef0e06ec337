"""Consumer groups as they are now: what the cluster says of them, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from ottla.cli.client import REQUEST_TIMEOUT_S, message_of, one_line, wait_for
from ottla.cli.errors import Failure
from ottla.cli.offsets import LATEST, Partition, offsets_of
from ottla.cli.suggestions import no_such_group

Json = dict[str, Any]

_STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}
INACTIVE_STATES = ("Empty", "Dead")


def state_text(state: ConsumerGroupState, type: ConsumerGroupType) -> str:
    """As Kafka spells it. Of the newer protocol's states librdkafka does not know Assigning and
    Reconciling, so that both are one here."""
    if state == ConsumerGroupState.UNKNOWN and type == ConsumerGroupType.CONSUMER:
        return "Rebalancing"
    return _STATES.get(state, "Unknown")


def listed_groups(admin: AdminClient) -> list[Json]:
    """Groups by name. Raises Failure when a broker could not be asked."""
    answer = admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    if answer.errors:
        reasons = sorted({message_of(error) for error in answer.errors})
        raise Failure(f"could not list all groups: {'; '.join(reasons)}")
    return sorted(
        (
            {
                "group": group.group_id,
                "state": state_text(group.state, group.type),
                "type": group.type.name.lower(),
            }
            for group in answer.valid
        ),
        key=lambda group: str(group["group"]),
    )


def described_groups(
    admin: AdminClient, names: Sequence[str], *, must_exist: bool = True
) -> list[Json]:
    """Members, offsets and lag of each. One that is not there is left out, or raises Failure if
    it must exist."""
    unique = list(dict.fromkeys(names))
    if not unique:
        return []
    futures = admin.describe_consumer_groups(unique, request_timeout=REQUEST_TIMEOUT_S)
    described, failures = wait_for(futures)
    if failures:
        raise Failure(f"could not describe {one_line(failures.items())}")
    committed = committed_offsets(admin, unique)
    # Dead is what Kafka answers for any name that it never heard of.
    missing = [n for n in unique if described[n].state == ConsumerGroupState.DEAD]
    if missing and must_exist:
        raise group_not_found(admin, missing[0])
    there = [name for name in unique if name not in missing]
    owners = {name: _owners(described[name].members) for name in there}
    partitions = {name: sorted({*committed[name], *owners[name]}) for name in there}
    latest = offsets_of(admin, {key for keys in partitions.values() for key in keys}, LATEST)
    return [
        _group(
            described[name],
            [
                _partition(key, committed[name].get(key), latest.get(key), owners[name].get(key))
                for key in partitions[name]
            ],
        )
        for name in there
    ]


def group_not_found(admin: AdminClient, name: str) -> Failure:
    return no_such_group(name, [group["group"] for group in listed_groups(admin)])


def committed_offsets(admin: AdminClient, names: Iterable[str]) -> dict[str, dict[Partition, int]]:
    """By group. One that is not there has none."""
    # The client takes one group a call: all are under way before the first is waited for.
    futures = {
        name: future
        for name in names
        for future in admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=REQUEST_TIMEOUT_S
        ).values()
    }
    answers, failures = wait_for(futures)
    if failures:
        raise Failure(f"could not read the offsets of {one_line(failures.items())}")
    return {
        name: {
            (found.topic, found.partition): found.offset
            for found in answer.topic_partitions
            if found.error is None and found.offset >= 0
        }
        for name, answer in answers.items()
    }


def _owners(members: Sequence[Any]) -> dict[Partition, str]:
    return {
        (owned.topic, owned.partition): member.member_id
        for member in members
        for owned in member.assignment.topic_partitions
    }


def _group(description: Any, partitions: list[Json]) -> Json:
    lags = [part["lag"] for part in partitions if part["lag"] is not None]
    coordinator = description.coordinator
    return {
        "group": description.group_id,
        "state": state_text(description.state, description.type),
        "type": description.type.name.lower(),
        "assignor": description.partition_assignor or None,
        "coordinator": {
            "id": coordinator.id,
            "host": coordinator.host,
            "port": coordinator.port,
        },
        "lag": sum(lags) if lags else None,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.group_instance_id,
                "partitions": [
                    {"topic": topic, "partition": partition}
                    for topic, partition in sorted(_owners([member]))
                ],
            }
            for member in sorted(description.members, key=lambda member: str(member.member_id))
        ],
        "partitions": partitions,
    }


def _partition(
    key: Partition, committed: int | None, latest: int | None, member_id: str | None
) -> Json:
    lag = None
    if committed is not None and latest is not None:
        # A commit may be ahead of the log, after an unclean election or by hand.
        lag = max(0, latest - committed)
    return {
        "topic": key[0],
        "partition": key[1],
        "committed_offset": committed,
        "latest_offset": latest,
        "lag": lag,
        "member_id": member_id,
    }
