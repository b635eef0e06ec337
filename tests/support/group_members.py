"""Consumers of several makes behind one face, each a member of a group in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import aiokafka
import aiokafka.coordinator.assignors.range
import aiokafka.coordinator.assignors.roundrobin
import aiokafka.coordinator.assignors.sticky.sticky_assignor as aiokafka_sticky
import confluent_kafka

from tests.support.clients import KAFKA_PYTHON

TIMEOUT_S = 60
Seen = tuple[int, bytes]
Event = tuple[str, list[int]]


class GroupMember(Protocol):
    seen: list[Seen]
    """Partition and value, in the order read."""
    assigned: set[int]
    events: list[Event]
    """What its listener was told: assigned, revoked or lost, and which partitions."""
    failure: BaseException | None
    """What ended it before its time."""

    def stop(self) -> None:
        """It leaves the group, with what it has read committed."""
        ...


class _Threaded:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.assigned: set[int] = set()
        self.events: list[Event] = []
        self.failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error

    def _run(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        if self.failure is not None:
            raise self.failure


class ConfluentMember(_Threaded):
    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        topic: str | Sequence[str],
        strategy: str = "range",
        **settings: Any,
    ) -> None:
        is_consumer_protocol = settings.get("group_protocol") == "consumer"
        classic = {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 300}
        self._topics = [topic] if isinstance(topic, str) else list(topic)
        self.owned: set[tuple[str, int]] = set()
        """Where it reads several topics."""
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                # In the other protocol these are the broker's to say.
                **({} if is_consumer_protocol else classic),
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        super().__init__()

    def _run(self) -> None:
        def note(kind: str) -> Callable[[Any, list[Any]], None]:
            return lambda _, found: self.events.append((kind, sorted(p.partition for p in found)))

        self._consumer.subscribe(
            self._topics,
            on_assign=note("assigned"),
            on_revoke=note("revoked"),
            on_lost=note("lost"),
        )
        try:
            while not self._stopping.is_set():
                message = self._consumer.poll(0.1)
                self.owned = {(one.topic, one.partition) for one in self._consumer.assignment()}
                self.assigned = {partition for _, partition in self.owned}
                if message is not None:
                    assert message.error() is None, message.error()
                    self.seen.append((message.partition() or 0, message.value() or b""))
        finally:
            self._consumer.close()


class KafkaPythonMember(_Threaded):
    def __init__(self, bootstrap: str, group_id: str, topic: str, **settings: Any) -> None:
        self._topic = topic
        self._consumer = KAFKA_PYTHON.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            **settings,
        )
        super().__init__()

    def _run(self) -> None:
        try:
            listener = _KafkaPythonListener(self.events)
            self._consumer.subscribe([self._topic], listener=listener)
            # If it learns of the partitions only after it has led an assignment, kafka-python 3.0
            # joins again, and forgets that it did when the answer comes between two polls.
            self._consumer.topics()
            while not self._stopping.is_set():
                for records in self._consumer.poll(100).values():
                    self.seen += [(record.partition, record.value) for record in records]
                self.assigned = {one.partition for one in self._consumer.assignment()}
        finally:
            self._consumer.close()


class _KafkaPythonListener(KAFKA_PYTHON.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._events.append(("assigned", sorted(one.partition for one in assigned)))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._events.append(("revoked", sorted(one.partition for one in revoked)))


_AIOKAFKA_ASSIGNORS = {
    "range": aiokafka.coordinator.assignors.range.RangePartitionAssignor,
    "roundrobin": aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor,
    "sticky": aiokafka_sticky.StickyPartitionAssignor,
}


class AiokafkaMember(_Threaded):
    def __init__(
        self, bootstrap: str, group_id: str, topic: str, strategy: str = "range", **settings: Any
    ) -> None:
        self._topic = topic
        self._settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group_id,
            "partition_assignment_strategy": [_AIOKAFKA_ASSIGNORS[strategy]],
            **settings,
        }
        super().__init__()

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            auto_offset_reset="earliest", heartbeat_interval_ms=300, **self._settings
        )
        consumer.subscribe([self._topic], listener=_AiokafkaListener(self.events))
        await consumer.start()
        try:
            while not self._stopping.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    self.seen += [(record.partition, record.value or b"") for record in records]
                self.assigned = {one.partition for one in consumer.assignment()}
        finally:
            await consumer.stop()


class _AiokafkaListener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._events.append(("assigned", sorted(one.partition for one in assigned)))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._events.append(("revoked", sorted(one.partition for one in revoked)))


MEMBERS: dict[str, Callable[[str, str, str], GroupMember]] = {
    "confluent-kafka": ConfluentMember,
    "aiokafka": AiokafkaMember,
    "kafka-python": KafkaPythonMember,
}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.02)


def wait_until_shared(partition_count: int, *members: GroupMember) -> None:
    """Each partition has one owner, and each member as many as any other, or one more."""

    def is_shared() -> bool:
        owned = [one for member in members for one in member.assigned]
        sizes = [len(member.assigned) for member in members]
        return sorted(owned) == list(range(partition_count)) and max(sizes) - min(sizes) <= 1

    wait_until(is_shared, f"{partition_count} partitions for {len(members)} members")
