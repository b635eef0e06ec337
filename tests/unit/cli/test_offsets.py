"""Offsets of partitions."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ottla.cli.offsets import LATEST, offsets_of


class FakeAdmin:
    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        futures = {}
        for partition in wanted:
            future: Future[Any] = Future()
            if partition.partition == 1:
                future.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
            else:
                future.set_result(SimpleNamespace(offset=10 + partition.partition))
            futures[partition] = future
        return futures


def test_a_partition_that_can_not_be_asked_is_left_out() -> None:
    admin: Any = FakeAdmin()

    assert offsets_of(admin, [("t", 0), ("t", 1), ("t", 2)], LATEST) == {("t", 0): 10, ("t", 2): 12}


def test_without_partitions_nobody_is_asked() -> None:
    admin: Any = None

    assert offsets_of(admin, [], LATEST) == {}
