"""Results out of topics, with a consumer that has them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from ottla.cli.client import Cluster
from ottla.cli.errors import Failure
from ottla.cli.pipeline.results import read
from ottla.cli.pipeline.results.read import read_results
from tests.unit.cli.groups.fake_admin import FakeAdmin

Record = tuple[bytes, bytes | None]


class FakeMessage:
    def __init__(self, topic: str, record: Record | None) -> None:
        self._topic, self._record = topic, record

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def error(self) -> KafkaError | None:
        return None if self._record else KafkaError(KafkaError._PARTITION_EOF)

    def key(self) -> bytes | None:
        return self._record[0] if self._record else None

    def value(self) -> bytes | None:
        return self._record[1] if self._record else None


class FakeTopics(FakeAdmin):
    """Is both clients: topics of one partition, with these records."""

    def __init__(self, records: dict[str, list[Record]]) -> None:
        super().__init__(latest={(topic, 0): len(found) for topic, found in records.items()})
        self.records = records
        self.assigned: list[TopicPartition] = []
        self.is_silent = False

    def list_topics(self, topic: str | None = None, **_: Any) -> Any:
        return SimpleNamespace(
            topics={name: SimpleNamespace(partitions=[0]) for name in self.records}
        )

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def consume(self, _: int, timeout: float) -> list[FakeMessage]:
        if self.is_silent:
            return []
        return [
            FakeMessage(one.topic, record)
            for one in self.assigned
            for record in [*self.records[one.topic][one.offset :], None]
        ]

    def close(self) -> None:
        pass


def reading(monkeypatch: pytest.MonkeyPatch, fake: FakeTopics, *topics: str) -> read.Read:
    monkeypatch.setattr(Cluster, "admin", lambda _: fake)
    monkeypatch.setattr(Cluster, "consumer", lambda *_: fake)
    return read_results(Cluster("localhost:9092", {}), topics)


def value_of(number: int) -> bytes:
    return json.dumps({"n": number}).encode()


def test_the_last_of_a_key_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Record] = [
        (b"a", value_of(1)),
        (b"b", value_of(2)),
        (b"a", value_of(3)),
        (b"b", None),
        (b"c", b"no JSON"),
        (b"d", b"7"),
    ]
    found = reading(monkeypatch, FakeTopics({"t": records, "empty": []}), "t", "empty", "none")

    assert found.values == {"t": [{"n": 3}], "empty": [], "none": []}
    assert found.missing == ["none"]
    assert found.is_whole


def test_only_the_newest_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "RECORDS_MAX", 2)
    records: list[Record] = [(str(one).encode(), value_of(one)) for one in range(5)]
    found = reading(monkeypatch, FakeTopics({"t": records}), "t")

    assert found.values == {"t": [{"n": 3}, {"n": 4}]}
    assert not found.is_whole


def test_an_end_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "REQUEST_TIMEOUT_S", 0)
    fake = FakeTopics({"t": [(b"a", value_of(1))]})
    fake.is_silent = True

    with pytest.raises(Failure, match="the end of t:0 did not come"):
        reading(monkeypatch, fake, "t")
