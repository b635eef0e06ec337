"""How fast replicas may be copied: Kafka's replication throttle. Settings of brokers and topics
make it, and are removed when nothing moves any more.

A rate counts for those replicas that a topic's settings name: the old ones as they send, the new
ones as they fetch. Replicas that merely catch up are not held back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, AlterConfigOpType

from ottla.cli.configs import Change, Entry, alter_entity, readable_configs
from ottla.cli.reassign.moves import Move

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_OF = {"broker": (LEADER_RATE, FOLLOWER_RATE), "topic": (LEADER_REPLICAS, FOLLOWER_REPLICAS)}
_IS_SET_THERE = {"broker": "dynamic broker", "topic": "topic"}


class Throttle(NamedTuple):
    """What is set of one broker or topic."""

    entity_type: str
    name: str
    settings: dict[str, str]

    def __str__(self) -> str:
        return f"{self.entity_type} {self.name}"


def set_throttle(admin: AdminClient, moves: Iterable[Move], rate_bytes_s: int) -> None:
    """Before the first is moved. What moves already stays throttled too."""
    for (entity_type, name), values in _wanted(moves, rate_bytes_s).items():
        changes: list[Change] = [
            (
                AlterConfigOpType.SET if entity_type == "broker" else AlterConfigOpType.APPEND,
                key,
                value,
            )
            for key, value in values.items()
            if value
        ]
        alter_entity(admin, entity_type, name, changes)


def _wanted(moves: Iterable[Move], rate_bytes_s: int) -> dict[tuple[str, str], dict[str, str]]:
    """Settings by type and name of what they are set of. Topics come first: a rate without
    replicas does nothing, replicas without a rate neither."""
    sending: dict[str, list[str]] = {}
    fetching: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for move in moves:
        if not move.added:
            continue
        old, new = sending.setdefault(move.topic, []), fetching.setdefault(move.topic, [])
        old += [f"{move.partition}:{broker}" for broker in move.replicas]
        new += [f"{move.partition}:{broker}" for broker in move.added]
        brokers.update(move.replicas, move.target)
    found: dict[tuple[str, str], dict[str, str]] = {}
    for topic in sending:
        found["topic", topic] = {
            LEADER_REPLICAS: ",".join(sending[topic]),
            FOLLOWER_REPLICAS: ",".join(fetching[topic]),
        }
    for broker in sorted(brokers):
        rate = str(rate_bytes_s)
        found["broker", str(broker)] = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
    return found


def throttles(
    admin: AdminClient, brokers: Collection[int], topics: Sequence[str]
) -> list[Throttle]:
    """Those that are set. What cannot be read is left out: it could not be cleared either."""
    found: list[Throttle] = []
    for broker in sorted(brokers):  # librdkafka takes one a call
        found += _set_ones("broker", readable_configs(admin, "broker", [str(broker)]))
    if topics:
        found += _set_ones("topic", readable_configs(admin, "topic", topics))
    return found


def _set_ones(entity_type: str, configs: Mapping[str, Mapping[str, Entry]]) -> list[Throttle]:
    found = []
    for name, entries in configs.items():
        settings = {
            key: entries[key]["value"]
            for key in _OF[entity_type]
            if key in entries
            and entries[key]["source"] == _IS_SET_THERE[entity_type]
            and entries[key]["value"]
        }
        if settings:
            found.append(Throttle(entity_type, name, settings))
    return found


def clear_throttles(admin: AdminClient, found: Iterable[Throttle]) -> None:
    for one in found:
        changes: list[Change] = [(AlterConfigOpType.DELETE, key, None) for key in one.settings]
        alter_entity(admin, one.entity_type, one.name, changes)


def rate_of(found: Iterable[Throttle]) -> int | None:
    """The lowest of all brokers, in bytes a second."""
    rates = [
        int(value)
        for one in found
        if one.entity_type == "broker"
        for value in one.settings.values()
    ]
    return min(rates, default=None)
