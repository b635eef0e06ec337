"""Consumers, all of them of what is committed: a member of a group, one that copies what it reads
in transactions, and one that reads everything by itself."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ConfluentPartition

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.events import (
    Assigned,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetsListed,
    Polled,
    PolledRecord,
    SendOffsets,
    Source,
)
from ottla.testing.history.history import History
from tests.support.cluster.recorded_client import (
    TIMEOUT_S,
    Hangs,
    RecordedClient,
    call_with_time_limit,
    partition_of,
)
from tests.support.cluster.recorded_producer import TransactionalClient

_POLL_S = 0.1
_RECORDS_MAX = 50
_COMMIT_SHARE = 0.8
_HANGS_S = 10
_GROUP_SETTINGS: dict[str, Any] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "check.crcs": True,
    "fetch.wait.max.ms": 100,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
}


class GroupConsumer:
    """One member of a group, for the thread of its owner. It asks for its committed offsets itself,
    to have them in the history."""

    def __init__(self, owner: RecordedClient, group: str, topic: str) -> None:
        self._owner = owner
        self._group = group
        self._topic = topic
        self.consumer = Consumer({**owner.settings, **_GROUP_SETTINGS, "group.id": group})
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def poll(self) -> list[Message]:
        found = []
        for message in self.consumer.consume(_RECORDS_MAX, _POLL_S):
            if (error := message.error()) is None:
                found.append(message)
            else:
                self._owner.errors.append(f"poll: {error}")
                assert not error.fatal(), error
        return found

    def record(self, messages: Sequence[Message], transaction: str | None = None) -> None:
        records = tuple(map(polled_record, messages))
        self._owner.history.add(Polled(self._owner.name, records, transaction=transaction))

    def rewind(self) -> None:
        """To what is committed: of what was read since, nothing counts."""
        assigned = self.consumer.assignment()
        positions = self._committed(assigned)
        self._owner.history.add(Assigned(self._owner.name, positions))
        for partition, offset in positions.items():
            self.consumer.seek(ConfluentPartition(*partition, offset))

    def close(self) -> None:
        self.consumer.close()

    def _committed(self, partitions: list[ConfluentPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        history = self._owner.history
        since = history.now
        found = self._owner.persist(lambda wait_s: _checked(self.consumer, partitions, wait_s))
        offsets = {partition_of(one): max(one.offset, -1) for one in found}
        history.add(OffsetsFetched(self._owner.name, self._group, offsets, since))
        return {partition: max(offset, 0) for partition, offset in offsets.items()}

    def _on_assign(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        positions = self._committed(partitions)
        self._owner.history.add(Assigned(self._owner.name, positions))
        consumer.assign(
            [ConfluentPartition(*partition, offset) for partition, offset in positions.items()]
        )

    def _on_revoke(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        self._owner.history.add(Assigned(self._owner.name, {}))


def _checked(
    consumer: Consumer, partitions: list[ConfluentPartition], wait_s: float
) -> list[ConfluentPartition]:
    found = consumer.committed(partitions, wait_s)
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
    return found


def polled_record(message: Message) -> PolledRecord:
    partition = TopicPartition(message.topic() or "", message.partition() or 0)
    return PolledRecord(partition, message.offset() or 0, (message.value() or b"").decode())


def next_offsets(messages: Sequence[Message]) -> dict[TopicPartition, int]:
    return {record.partition: record.offset + 1 for record in map(polled_record, messages)}


class GroupReader(RecordedClient):
    """Reads as a member of a group, and commits how far it came."""

    def __init__(self, name: str, bootstrap: str, history: History, group: str, topic: str) -> None:
        super().__init__(name, bootstrap, history)
        self._group = group
        self._topic = topic

    def run(self) -> None:
        member = GroupConsumer(self, self._group, self._topic)
        try:
            while not self.is_stopping:
                messages = member.poll()
                if messages:
                    member.record(messages)
                    self._commit(member, next_offsets(messages))
        finally:
            member.close()

    def _commit(self, member: GroupConsumer, offsets: dict[TopicPartition, int]) -> None:
        wanted = [ConfluentPartition(*partition, offset) for partition, offset in offsets.items()]
        is_known = False
        try:
            done = member.consumer.commit(offsets=wanted, asynchronous=False) or []
            is_known = all(one.error is None for one in done)
            self.progress += 1
        except KafkaException as error:
            self.errors.append(f"commit: {error}")
        self.history.add(OffsetsCommitted(self.name, self._group, offsets, is_known))


class Copier(TransactionalClient):
    """Copies what it reads, exactly once: copies and offsets in one transaction. Aborts some."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        seed: int,
        *,
        group: str,
        source: str,
        targets: Sequence[TopicPartition],
    ) -> None:
        super().__init__(name, bootstrap, history, seed)
        self._group = group
        self._source = source
        self._targets = targets

    def run(self) -> None:
        self.init_producer()
        member = GroupConsumer(self, self._group, self._source)
        try:
            while not self.is_stopping:
                messages = member.poll()
                if messages and not self._copy(member, messages):
                    member.rewind()
        finally:
            member.close()

    def _copy(self, member: GroupConsumer, messages: list[Message]) -> bool:
        """Whether they were committed."""
        assert self.producer is not None
        try:
            name = self.begin()
            member.record(messages, name)
            for number, record in enumerate(map(polled_record, messages)):
                source = Source(self._group, record.partition, record.offset)
                self.send(random_of(self.random, self._targets), f"{name}.{number}", source)
            offsets = next_offsets(messages)
            self.history.add(SendOffsets(self.name, name, self._group, offsets))
            wanted = [ConfluentPartition(*one, offset) for one, offset in offsets.items()]
            metadata = member.consumer.consumer_group_metadata()
            producer = self.producer
            call_with_time_limit(
                lambda: self.persist(
                    lambda wait_s: producer.send_offsets_to_transaction(wanted, metadata, wait_s)
                ),
                _HANGS_S,
            )
            return self.end(is_commit=self.random.random() < _COMMIT_SHARE)
        except KafkaException as error:
            self.recover(error)
        except Hangs as error:
            self.errors.append(str(error))
            self.replace_producer()
        return False


def random_of(rng: random.Random, partitions: Sequence[TopicPartition]) -> TopicPartition:
    return partitions[rng.randrange(len(partitions))]


class WholeReader(RecordedClient):
    """Reads all partitions from the beginning, belongs to no group, and asks now and then where
    they end."""

    def __init__(
        self, name: str, bootstrap: str, history: History, partitions: Sequence[TopicPartition]
    ) -> None:
        super().__init__(name, bootstrap, history)
        self._partitions = partitions
        self._read_count: Counter[TopicPartition] = Counter()
        """Progress is that of the slowest partition."""
        self._ends_seen: dict[TopicPartition, int] = {}
        self._is_to_finish = threading.Event()
        self._consumer = Consumer(
            {
                **self.settings,
                **_GROUP_SETTINGS,
                "group.id": f"unused-{name}",
                "enable.partition.eof": True,
            }
        )

    def finish(self) -> None:
        """To the end, when nobody writes any more."""
        self._is_to_finish.set()

    def run(self) -> None:
        positions = dict.fromkeys(self._partitions, 0)
        self.history.add(Assigned(self.name, positions))
        self._consumer.assign([ConfluentPartition(*one, 0) for one in self._partitions])
        listed_s = time.monotonic()
        try:
            while not self.is_stopping and not self._is_to_finish.is_set():
                self._read()
                if time.monotonic() - listed_s > 0.5:
                    listed_s = time.monotonic()
                    self._list_offsets(1)
            if not self.is_stopping:
                self._read_to_the_end()
        finally:
            self._consumer.close()

    def _read(self) -> None:
        records = []
        for message in self._consumer.consume(_RECORDS_MAX, _POLL_S):
            error = message.error()
            if error is None:
                records.append(polled_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                partition = TopicPartition(message.topic() or "", message.partition() or 0)
                self._ends_seen[partition] = message.offset() or 0
            else:
                self.errors.append(f"poll: {error}")
                assert not error.fatal(), error
        if records:
            self._read_count.update(record.partition for record in records)
            self.progress = min(self._read_count[one] for one in self._partitions)
            self.history.add(Polled(self.name, tuple(records)))

    def _read_to_the_end(self) -> None:
        ends = self.persist(self._list_offsets_of_all)
        deadline_s = time.monotonic() + TIMEOUT_S
        while any(self._ends_seen.get(one, -1) < end for one, end in ends.items()):
            assert time.monotonic() < deadline_s, (
                f"the end was not reached: {self._ends_seen} of {ends}; {self.errors[-3:]}"
            )
            self._read()

    def _list_offsets(self, timeout_s: float) -> None:
        partition = self._partitions[self._read_count.total() % len(self._partitions)]
        try:
            self._list(partition, timeout_s)
        except KafkaException as error:
            self.errors.append(f"ListOffsets: {error}")

    def _list_offsets_of_all(self, timeout_s: float) -> dict[TopicPartition, int]:
        return {one: self._list(one, timeout_s) for one in self._partitions}

    def _list(self, partition: TopicPartition, timeout_s: float) -> int:
        wanted = ConfluentPartition(*partition)
        _, end = self._consumer.get_watermark_offsets(wanted, timeout_s)
        listed = OffsetsListed(self.name, {partition: end}, is_read_committed=True)
        self.history.add(listed)
        return int(end)
