"""confluent-kafka (librdkafka) with `group.protocol=consumer`: the broker assigns (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import MakeBroker
from tests.support.ottla_process import OttlaProcess

TIMEOUT_S = 60
PARTITIONS = 6
GROUP = "group"

QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
"""A rebalance takes some heartbeats, by default 5 s apart."""


class Crowd:
    """The consumers of a test, all polled in turn, as each would do by itself."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumers: list[Consumer] = []
        self.read: list[bytes] = []

    def join(self, *topics: str, protocol: str = "consumer", **settings: Any) -> Consumer:
        if protocol == "classic":
            settings.setdefault("partition_assignment_strategy", "cooperative-sticky")
            settings.setdefault("heartbeat_interval_ms", 200)
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": GROUP,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        consumer.subscribe(list(topics))
        self._consumers.append(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)
        consumer.close()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline_s, [len(each.assignment()) for each in self]
            for consumer in self._consumers:
                message = consumer.poll(0.02)
                if message is not None and not message.error():
                    value = message.value()
                    assert value is not None
                    self.read.append(value)

    def share(self, *sizes: int) -> None:
        """Until they have as many partitions, in the order in which they came."""
        self.until(lambda: [len(consumer.assignment()) for consumer in self] == list(sizes))
        owned = [(one.topic, one.partition) for each in self for one in each.assignment()]
        assert len(owned) == len(set(owned))

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers)

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


@pytest.fixture
def broker(make_broker: MakeBroker) -> OttlaProcess:
    process = make_broker(settings=QUICK)
    create(process, t=PARTITIONS)
    return process


@pytest.fixture
def crowd(broker: OttlaProcess) -> Iterator[Crowd]:
    crowd = Crowd(broker.bootstrap)
    yield crowd
    crowd.close()


def create(broker: OttlaProcess, **partition_counts: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    wanted = [NewTopic(name, number, 1) for name, number in partition_counts.items()]
    for future in admin.create_topics(wanted).values():
        future.result(TIMEOUT_S)


def send(broker: OttlaProcess, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce("t", value, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def test_members_share_what_there_is(broker: OttlaProcess, crowd: Crowd) -> None:
    crowd.join("t")
    crowd.share(6)
    second = crowd.join("t")
    crowd.share(3, 3)
    crowd.join("t")
    crowd.share(2, 2, 2)
    crowd.leave(second)
    crowd.share(3, 3)
    values = [str(number).encode() for number in range(60)]
    send(broker, *values)
    crowd.until(lambda: len(crowd.read) >= len(values))
    assert sorted(crowd.read) == sorted(values)


def test_a_group_goes_on_where_it_committed_after_the_broker_was_killed(
    broker: OttlaProcess, crowd: Crowd
) -> None:
    consumer = crowd.join("t", enable_auto_commit=False)
    crowd.join("t", enable_auto_commit=False)
    crowd.share(3, 3)
    send(broker, *[b"before"] * 12)
    crowd.until(lambda: len(crowd.read) == 12)
    for member in crowd:
        member.commit(asynchronous=False)
    broker.kill()
    broker.start()
    send(broker, *[b"after"] * 12)
    crowd.until(lambda: len(crowd.read) >= 24)
    assert sorted(crowd.read) == [b"after"] * 12 + [b"before"] * 12
    crowd.share(3, 3)
    assert len(consumer.assignment()) == 3


def test_an_expression_finds_topics_that_come_later(broker: OttlaProcess, crowd: Crowd) -> None:
    crowd.join("^t.*")
    crowd.share(6)
    create(broker, t2=2, other=1)
    crowd.share(8)


def test_static_members_get_back_what_they_had(broker: OttlaProcess, crowd: Crowd) -> None:
    static = crowd.join("t", group_instance_id="one")
    other = crowd.join("t")
    crowd.share(3, 3)
    had = {(one.topic, one.partition) for one in other.assignment()}
    crowd.leave(static)
    back = crowd.join("t", group_instance_id="one")
    crowd.until(lambda: len(back.assignment()) == 3)
    assert {(one.topic, one.partition) for one in other.assignment()} == had


def test_a_group_is_upgraded_and_downgraded_while_it_reads(
    broker: OttlaProcess, crowd: Crowd
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def kind() -> tuple[Any, Any]:
        described = admin.describe_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S)
        return described.type, described.state

    crowd.join("t", protocol="classic")
    crowd.share(6)
    assert kind() == (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE)
    newer = crowd.join("t")
    crowd.share(3, 3)
    crowd.until(lambda: kind() == (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE))
    send(broker, *[b"mixed"] * 12)
    crowd.until(lambda: len(crowd.read) >= 12)
    crowd.leave(newer)
    crowd.share(6)
    assert kind() == (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE)
    crowd.join("t", protocol="classic")
    crowd.share(3, 3)
