"""Whose transactional batches are let in; `handlers/test_end_txn.py` has what follows."""

from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.internal_topics import TRANSACTION_STATE
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.produce import ProduceResponse
from tests.support.other_broker import OTHER, add_other_broker, lead_by
from tests.support.simulated_broker import (
    SimulatedBroker,
    make_batch,
    produce_request,
    with_broker,
)
from tests.support.simulated_transaction import Transactional, read
from tests.unit.server.test_remote_verification import answer as verified


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (12, ErrorCode.NONE),
        (13, ErrorCode.NONE),
    ],
)
def test_from_version_12_on_a_write_adds_its_partition(version: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        batch = make_batch(
            b"v",
            producer_id=producer.producer.producer_id,
            producer_epoch=producer.producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        request = produce_request("t", batch)
        request.topic_data[0].topic_id = topic_id
        request.transactional_id = producer.transactional_id
        answer = await broker.call(request, ProduceResponse, version)
        assert answer.responses[0].partition_responses[0].error_code == code
        assert await read(broker, "t", is_committed=False) == ([] if code else [b"v"])

    with_broker(test)


def test_a_setting_turns_the_question_off() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker, is_version_2=False)
        await producer.init()
        assert await producer.send("t", b"v") is ErrorCode.NONE

    with_broker(test, transaction_partition_verification_enable="false")


def test_a_transactional_batch_needs_a_transactional_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        batch = make_batch(
            b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        answer = await broker.produce_batch("t", batch)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await read(broker, "t", is_committed=False) == []

    with_broker(test)


def test_one_request_has_batches_of_one_producer() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        request = produce_request("t", b"")
        request.transactional_id = "mine"
        data = request.topic_data[0].partition_data
        for partition, producer_id in enumerate((7, 8)):
            batch = make_batch(
                b"v",
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            data += produce_request("t", batch, partition=partition).topic_data[0].partition_data
        del data[0]
        answer = await broker.call(request, ProduceResponse, 12)
        codes = [one.error_code for one in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    with_broker(test)


def test_a_request_does_not_overtake_one_that_waits_for_the_transaction_before() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        producer = Transactional(broker)
        await producer.init()
        await producer.send("t", b"before", partition=1)
        led = broker.machine.broker.replicas.partition("t", 1)
        in_sync = led.leader.in_sync
        isr, in_sync.committed = in_sync.committed, frozenset()
        await producer.commit()  # Its marker is tried again in 20 ms.
        in_sync.committed = isr
        await asyncio.sleep(0.010)
        first = asyncio.ensure_future(producer.send_numbered("t", b"a", sequence=0))
        await asyncio.sleep(0.015)
        second = asyncio.ensure_future(producer.send_numbered("t", b"b", sequence=1))
        assert [await first, await second] == [ErrorCode.NONE] * 2
        await producer.commit()
        assert await read(broker, "t") == [b"a", b"b"]
        assert await read(broker, "t", partition=1) == [b"before"]

    with_broker(test)


def test_requests_on_their_way_stay_in_order_while_the_coordinator_writes() -> None:
    """Every write waits for an fsync, the one that adds the partition too."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        values = [b"a", b"b", b"c", b"d"]
        sent = await asyncio.gather(
            *(
                producer.send_numbered("t", value, sequence=sequence)
                for sequence, value in enumerate(values)
            )
        )
        assert sent == [ErrorCode.NONE] * 4
        await producer.commit()
        assert await read(broker, "t") == values

    with_broker(test, log_flush_interval_messages="1")


@pytest.mark.parametrize("version", [11, 12])
def test_a_coordinator_on_another_broker_is_asked_once_a_transaction(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        cluster = add_other_broker(broker)
        codes = [ErrorCode.CONCURRENT_TRANSACTIONS] if version >= 12 else []
        cluster.answers[AddPartitionsToTxnRequest] = lambda _, request: verified(
            request, codes.pop() if codes else ErrorCode.NONE
        )
        lead_by(broker, OTHER, TRANSACTION_STATE, *range(50))
        for value in (b"a", b"b"):
            assert await producer.send("t", value, version=version) is ErrorCode.NONE
        assert await read(broker, "t", is_committed=False) == [b"a", b"b"]
        requests = [request for _, request, _ in cluster.asked]
        assert len(requests) == (2 if version >= 12 else 1)
        for request in requests:
            assert isinstance(request, AddPartitionsToTxnRequest)
            assert request.transactions[0].verify_only == (version < 12)

    with_broker(test)


def test_a_producer_tries_again_when_the_coordinators_broker_cannot_be_reached() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        lead_by(broker, OTHER, TRANSACTION_STATE, *range(50))
        for version in (11, 12):
            code = await producer.send("t", b"a", version=version)
            assert code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await read(broker, "t", is_committed=False) == []

    with_broker(test)
