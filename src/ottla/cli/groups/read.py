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


def summarized_groups(admin: AdminClient) -> list[Json]:
    """All groups with the number of members and the lag. Of one that cannot be described, such as
    another kind than consumers make, these are null."""
    groups = listed_groups(admin)
    if not groups:
        return []
    names = [group["group"] for group in groups]
    described, _ = wait_for(
        admin.describe_consumer_groups(names, request_timeout=REQUEST_TIMEOUT_S)
    )
    committed, _ = _asked_offsets(admin, described)
    wanted = {key for offsets in committed.values() for key in offsets}
    latest = offsets_of(admin, wanted, LATEST)
    for group in groups:
        name = group["group"]
        group["members"] = group["lag"] = None
        if name in described:
            group["state"] = state_text(described[name].state, described[name].type)
            group["members"] = len(described[name].members)
        group["lag"] = _total(
            _lag(offset, latest.get(key)) for key, offset in committed.get(name, {}).items()
        )
    return groups


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
    answers, failures = _asked_offsets(admin, names)
    if failures:
        raise Failure(f"could not read the offsets of {one_line(failures.items())}")
    return answers


def _asked_offsets(
    admin: AdminClient, names: Iterable[str]
) -> tuple[dict[str, dict[Partition, int]], dict[str, str]]:
    # The client takes one group a call: all are under way before the first is waited for.
    futures = {
        name: future
        for name in names
        for future in admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=REQUEST_TIMEOUT_S
        ).values()
    }
    answers, failures = wait_for(futures)
    committed = {
        name: {
            (found.topic, found.partition): found.offset
            for found in answer.topic_partitions
            if found.error is None and found.offset >= 0
        }
        for name, answer in answers.items()
    }
    return committed, failures


def _owners(members: Sequence[Any]) -> dict[Partition, str]:
    return {
        (owned.topic, owned.partition): member.member_id
        for member in members
        for owned in member.assignment.topic_partitions
    }


def _group(description: Any, partitions: list[Json]) -> Json:
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
        "lag": _total(part["lag"] for part in partitions),
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
    return {
        "topic": key[0],
        "partition": key[1],
        "committed_offset": committed,
        "latest_offset": latest,
        "lag": _lag(committed, latest),
        "member_id": member_id,
    }


def _lag(committed: int | None, latest: int | None) -> int | None:
    if committed is None or latest is None:
        return None
    # A commit may be ahead of the log, after an unclean election or by hand.
    return max(0, latest - committed)


def _total(lags: Iterable[int | None]) -> int | None:
    """Of those that are known; None where none is."""
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None
