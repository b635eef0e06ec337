from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config.broker import BrokerConfig
from ottla.kernel.clock import SystemClock
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode
from ottla.server.context import RequestContext
from ottla.server.handlers.write_txn_markers import handle
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.led_partition import lead_two_replicas, new_partition
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional, read


async def mark(
    broker: SimulatedBroker,
    producer: Transactional,
    *partitions: int,
    version: int = 1,
    is_commit: bool = False,
    coordinator_epoch: int = 0,
    topic: str = "t",
) -> list[ErrorCode]:
    marker = WritableTxnMarker(
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.producer_epoch,
        transaction_result=is_commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
        coordinator_epoch=coordinator_epoch,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    (answer,) = (await broker.call(request, WriteTxnMarkersResponse, version)).markers
    assert answer.producer_id == marker.producer_id
    return [ErrorCode(one.error_code) for one in answer.topics[0].partitions]


@pytest.mark.parametrize("version", WriteTxnMarkersRequest.VERSIONS)
def test_a_hanging_transaction_is_ended(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        producer = Transactional(broker)
        await producer.init()
        await producer.send("t", b"hangs")
        assert (await broker.produce("t", b"behind it")).error_code == 0
        assert await read(broker, "t") == []
        assert await mark(broker, producer, 0, version=version) == [ErrorCode.NONE]
        assert await read(broker, "t") == [b"behind it"]

    with_broker(test)


def test_partitions_that_are_not_there() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await mark(broker, producer, 0, 7) == [ErrorCode.NONE, unknown]
        assert await mark(broker, producer, 0, topic="absent") == [unknown]

    with_broker(test)


def test_an_older_coordinator_is_fenced() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        await producer.send("t", b"v")
        assert await mark(broker, producer, 0, coordinator_epoch=5) == [ErrorCode.NONE]
        fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert await mark(broker, producer, 0, coordinator_epoch=4) == [fenced]

    with_broker(test)


def test_others_are_served_while_thousands_of_markers_are_written() -> None:
    """A request of 8 MB can ask for two million; they were written in one go."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0] * 1000)]
        marker = WritableTxnMarker(
            producer_id=producer.producer.producer_id, producer_epoch=0, topics=topics
        )
        services: Any = SimpleNamespace(
            markers=broker.machine.broker.markers, clock=SystemClock(), config=BrokerConfig({})
        )
        context = RequestContext(1, None, "PLAINTEXT", "localhost")
        marking = begin(handle(services, WriteTxnMarkersRequest(markers=[marker]), context))
        led = broker.machine.broker.replicas.partition("t", 0)
        assert 0 < led.log.log_end_offset < 1000
        assert isinstance(marking, asyncio.Task)
        await marking
        assert led.log.log_end_offset == 1000

    with_broker(test)


def test_a_marker_that_followers_do_not_have_is_not_waited_for_for_ever() -> None:
    """Its coordinator would give up the connection, and with it all other markers on it."""

    async def test(broker: SimulatedBroker) -> None:
        await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        producer = Transactional(broker)
        await producer.init()
        assert await mark(broker, producer, 0) == [ErrorCode.REQUEST_TIMED_OUT]
        assert broker.loop.now_s < 20

    with_broker(test, request_timeout_ms="30000")
