"""What confluent-kafka's AdminClient answers about groups, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from ottla.cli.offsets import EARLIEST, LATEST

Offsets = dict[tuple[str, int], int]


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


def kafka_exception(code: int, text: str) -> KafkaException:
    return KafkaException(KafkaError(code, text))


def member(id: str, *owned: tuple[str, int], instance_id: str | None = None) -> Any:
    return SimpleNamespace(
        member_id=id,
        client_id=f"client of {id}",
        host="/127.0.0.1",
        group_instance_id=instance_id,
        assignment=SimpleNamespace(topic_partitions=[TopicPartition(*key) for key in owned]),
    )


class FakeAdmin:
    """Groups with members and offsets, over partitions that begin at 0 unless told otherwise."""

    def __init__(
        self,
        *,
        members: dict[str, Sequence[Any]] | None = None,
        committed: dict[str, Offsets] | None = None,
        latest: Offsets | None = None,
        state: ConsumerGroupState | None = None,
        type: ConsumerGroupType = ConsumerGroupType.CLASSIC,
    ) -> None:
        self.members = members or {}
        self.committed = committed or {}
        self.latest = latest or {}
        self.earliest: Offsets = {}
        self.by_time: Offsets = {}
        """What is found for any time; nothing is as young as that elsewhere."""
        self.state = state
        self.type = type
        self.altered: list[tuple[str, Offsets]] = []
        self.deleted: list[str] = []
        self.alter_error: KafkaError | None = None

    def _state(self, group: str) -> ConsumerGroupState:
        if self.state is not None:
            return self.state
        if self.members.get(group):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.EMPTY if group in self._names() else ConsumerGroupState.DEAD

    def _names(self) -> set[str]:
        return {*self.members, *self.committed}

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        valid = [
            SimpleNamespace(group_id=name, state=self._state(name), type=self.type)
            for name in self._names()
        ]
        return done(SimpleNamespace(valid=valid, errors=[]))

    def describe_consumer_groups(self, names: Sequence[str], **_: Any) -> dict[str, Future[Any]]:
        return {
            name: done(
                SimpleNamespace(
                    group_id=name,
                    members=self.members.get(name, []),
                    partition_assignor="range" if self.members.get(name) else "",
                    state=self._state(name),
                    type=self.type,
                    coordinator=SimpleNamespace(id=1, host="localhost", port=9092),
                )
            )
            for name in names
        }

    def list_consumer_group_offsets(self, asked: Sequence[Any], **_: Any) -> dict[str, Future[Any]]:
        (one,) = asked
        found = self.committed.get(one.group_id, {})
        partitions = [TopicPartition(*key, offset) for key, offset in found.items()]
        return {one.group_id: done(SimpleNamespace(topic_partitions=partitions))}

    def list_offsets(self, asked: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        answers = {}
        for partition, spec in asked.items():
            key = (partition.topic, partition.partition)
            if key not in self.latest:
                answers[partition] = done(kafka_exception(KafkaError.LEADER_NOT_AVAILABLE, "none"))
            elif spec is EARLIEST:
                answers[partition] = done(SimpleNamespace(offset=self.earliest.get(key, 0)))
            elif spec is LATEST:
                answers[partition] = done(SimpleNamespace(offset=self.latest[key]))
            else:
                answers[partition] = done(SimpleNamespace(offset=self.by_time.get(key, -1)))
        return answers

    def list_topics(self, topic: str | None = None, **_: Any) -> Any:
        if topic is None:
            return SimpleNamespace(topics=dict.fromkeys(name for name, _ in self.latest))
        numbers = [number for name, number in self.latest if name == topic]
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        metadata = SimpleNamespace(
            error=None if numbers else unknown, partitions=dict.fromkeys(numbers)
        )
        return SimpleNamespace(topics={topic: metadata})

    def alter_consumer_group_offsets(self, asked: Sequence[Any], **_: Any) -> dict[Any, Any]:
        (one,) = asked
        offsets = {(tp.topic, tp.partition): tp.offset for tp in one.topic_partitions}
        self.altered.append((one.group_id, offsets))
        answered = [
            SimpleNamespace(topic=tp.topic, partition=tp.partition, error=self.alter_error)
            for tp in one.topic_partitions
        ]
        return {one.group_id: done(SimpleNamespace(topic_partitions=answered))}

    def delete_consumer_groups(self, names: Sequence[str], **_: Any) -> dict[str, Future[Any]]:
        self.deleted += names
        missing = kafka_exception(KafkaError.GROUP_ID_NOT_FOUND, "The group id does not exist")
        return {name: done(None if name in self._names() else missing) for name in names}
