"""The demo's topics, and that they stay small."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.cli.demo.topics import ACTIVITY, CONFIG, make_topics
from ottla.cli.errors import Failure
from ottla.cli.pipeline.results.activity_results import TOPICS
from ottla.kernel.errors import ErrorCode
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.testing.loop import VirtualClock
from tests.support.simulated_broker import SimulatedBroker, with_broker

MINUTES = 180
VALUE = bytes(1000)


class FakeAdmin:
    def __init__(self, error: int | None = None) -> None:
        self._error = error
        self.made: list[Any] = []

    def create_topics(self, topics: list[Any]) -> dict[str, Future[None]]:
        self.made = topics
        futures: dict[str, Future[None]] = {topic.topic: Future() for topic in topics}
        for future in futures.values():
            if self._error is None:
                future.set_result(None)
            else:
                future.set_exception(KafkaException(KafkaError(self._error)))
        return futures


def cluster_of(admin: FakeAdmin) -> Any:
    return type("FakeCluster", (), {"admin": lambda self: admin})()


def test_they_are_made() -> None:
    admin = FakeAdmin()
    make_topics(cluster_of(admin), [ACTIVITY, *TOPICS])

    assert {topic.topic: topic.num_partitions for topic in admin.made} == {
        "activity": 4,
        "activity-traffic": 1,
        "activity-sessions": 1,
        "activity-top": 1,
    }


def test_a_topic_that_can_not_be_made_is_a_failure() -> None:
    with pytest.raises(Failure, match=r"could not create activity: .*POLICY_VIOLATION"):
        make_topics(cluster_of(FakeAdmin(KafkaError.POLICY_VIOLATION)), [ACTIVITY])


def test_in_hours_they_keep_no_more_than_the_last_minutes() -> None:
    """Of a broker in virtual time, which runs all its retention."""
    sizes: list[int] = []

    async def test(broker: SimulatedBroker) -> None:
        clock = VirtualClock(broker.loop)
        settings = {key.replace(".", "_"): value for key, value in CONFIG.items()}
        await broker.create_topic(ACTIVITY, 1, **settings)
        for minute in range(MINUTES):
            record = Record(0, clock.now_ms(), b"%d" % minute, VALUE)
            response = await broker.produce_batch(ACTIVITY, build_batch([record]))
            assert response.error_code == ErrorCode.NONE
            await asyncio.sleep(60)
            sizes.append(log_bytes(broker, ACTIVITY))

    with_broker(test)

    # Ten minutes, and what comes until the broker looks again.
    assert 10 * len(VALUE) < sizes[-1]
    assert max(sizes) < 20 * len(VALUE)


def log_bytes(broker: SimulatedBroker, name: str) -> int:
    disk, folder = broker.machine.disk, f"/data/{name}-0"
    files = (f"{folder}/{file}" for file in disk.list_folder(folder))
    return sum(disk.size(path) for path in files if path.endswith(".log"))
