"""Offsets of partitions."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ottla.cli.errors import Failure
from ottla.cli.offsets import LATEST, Bounds, bounds_of, offsets_of, offsets_since
from tests.unit.cli.groups import fake_admin


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


def test_bounds_of_logs_and_what_is_since_a_time() -> None:
    fake: Any = fake_admin.FakeAdmin(latest={("t", 0): 10, ("t", 1): 20})
    fake.earliest["t", 0] = 3
    fake.by_time["t", 0] = 5

    bounds = bounds_of(fake, [("t", 0), ("t", 1)])
    assert bounds == {("t", 0): Bounds(3, 10), ("t", 1): Bounds(0, 20)}
    assert offsets_since(fake, bounds, 1_700_000_000_000) == {("t", 0): 5, ("t", 1): 20}
    with pytest.raises(Failure, match="t:2 has no leader"):
        bounds_of(fake, [("t", 2)])


def test_a_partition_that_can_not_be_asked_for_a_time_is_a_failure() -> None:
    """A trim would delete all of it, and a reset of a group would skip all of it."""
    admin: Any = FakeAdmin()

    with pytest.raises(Failure, match="t:1 has no leader that could be asked"):
        offsets_since(admin, {("t", 0): Bounds(0, 20), ("t", 1): Bounds(0, 20)}, 1_700_000_000_000)
