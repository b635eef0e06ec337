from __future__ import annotations

import asyncio
import gc

import pytest

from ottla.coordinators.transactions.markers import TransactionMarkers
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, ProducerId, TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.replication.leader import Marker
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from ottla.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.schema import Response
from tests.support.led_partition import fetched, lead_two_replicas, new_partition
from tests.support.other_broker import OTHER, add_other_broker, lead_by
from tests.support.raw_transaction import txn_commit_request
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import committed, find_coordinator
from tests.support.simulated_transaction import Transactional, read
from tests.unit.server.test_remote_markers import answer as marker_answer


def writer_of(broker: SimulatedBroker) -> TransactionMarkerWriter:
    writer = broker.machine.broker.markers
    assert writer is not None
    return writer


def abort(producer: Transactional, *at: TopicPartition, epoch: int = 0) -> TransactionMarkers:
    return TransactionMarkers(
        transactional_id=producer.transactional_id,
        producer_id=ProducerId(producer.producer.producer_id),
        producer_epoch=producer.producer.producer_epoch,
        coordinator_epoch=epoch,
        is_commit=False,
        transaction_version=0,
        partitions=frozenset(at),
    )


async def open_transaction(broker: SimulatedBroker) -> Transactional:
    await broker.create_topic("t", 2)
    producer = Transactional(broker)
    await producer.init()
    for partition in (0, 1):
        await producer.send("t", b"x", partition=partition)
        await broker.produce("t", b"behind", partition=partition)
    return producer


def test_every_partition_gets_its_marker_and_those_that_are_gone_none() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        at = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)]
        await writer_of(broker).write(abort(producer, *at))
        for partition in (0, 1):
            assert await read(broker, "t", partition=partition) == [b"behind"]

    with_broker(test)


def test_a_partition_that_is_not_led_now_is_tried_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        led = broker.machine.broker.replicas.partition("t", 0)
        in_sync = led.leader.in_sync
        isr, in_sync.committed = in_sync.committed, frozenset()
        at = [TopicPartition("t", 0), TopicPartition("t", 1)]
        writing = asyncio.ensure_future(writer_of(broker).write(abort(producer, *at)))
        await asyncio.sleep(5)
        assert not writing.done()
        assert await read(broker, "t", partition=1) == [b"behind"], "the others need not wait"
        in_sync.committed = isr
        await writing
        assert await read(broker, "t") == [b"behind"]

    with_broker(test)


def test_a_coordinator_that_was_replaced_is_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        at = TopicPartition("t", 0)
        await writer_of(broker).write(abort(producer, at, epoch=9))
        with pytest.raises(KafkaError) as raised:
            await writer_of(broker).write(abort(producer, at, epoch=8))
        assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED

    with_broker(test)


def test_offsets_are_visible_though_whoever_wanted_the_marker_has_gone() -> None:
    """The marker is written all the same, and the group coordinator was not told: the offsets
    waited for it until the next start."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        await find_coordinator(broker, "g")
        request = txn_commit_request(
            "g",
            {"t": {0: 7}},
            transactional_id=producer.transactional_id,
            **producer.producer._asdict(),
        )
        await broker.call(request, TxnOffsetCommitResponse)
        groups = broker.machine.broker.groups
        assert groups is not None
        number = groups.partition_of("g")
        led = broker.machine.broker.replicas.partition(CONSUMER_OFFSETS, number)
        end = led.log.log_end_offset
        led.log.folder.wrote(1.0)
        marker = Marker(*producer.producer, True, 0, 0)
        begun = writer_of(broker).begin(TopicPartition(CONSUMER_OFFSETS, number), marker)
        assert isinstance(begun, asyncio.Future)
        begun.cancel()
        await asyncio.sleep(5)
        assert led.log.log_end_offset == end + 1
        assert await committed(broker, "g", {"t": [0]}) == {("t", 0): 7}

    with_broker(test)


def answering(
    cluster: ScriptedCluster, codes: list[ErrorCode]
) -> list[tuple[str, tuple[int, ...]]]:
    """Broker 2 answers so, one code after another, then NONE. Returns what it is asked for."""
    asked: list[tuple[str, tuple[int, ...]]] = []

    def answer(node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        ((marker,),) = (request.markers,)
        asked.extend((topic.name, tuple(topic.partition_indexes)) for topic in marker.topics)
        code = codes.pop(0) if codes else ErrorCode.NONE
        return marker_answer(request, dict.fromkeys(range(9), code))

    cluster.answers[WriteTxnMarkersRequest] = answer
    return asked


def test_partitions_of_other_brokers_get_theirs_from_those() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        await broker.create_topic("far", 3)
        cluster = add_other_broker(broker)
        asked = answering(cluster, [])
        lead_by(broker, OTHER, "far", 0, 2)
        at = [TopicPartition("far", number) for number in range(3)] + [TopicPartition("t", 0)]
        await writer_of(broker).write(abort(producer, *at))
        assert asked == [("far", (0, 2))]
        assert await read(broker, "t") == [b"behind"]

    with_broker(test)


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_a_leader_that_has_moved_is_asked_where_it_is_now(code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        cluster = add_other_broker(broker)
        asked = answering(cluster, [code] * 3)
        lead_by(broker, OTHER, "t", 0)
        writing = asyncio.ensure_future(
            writer_of(broker).write(abort(producer, TopicPartition("t", 0)))
        )
        await asyncio.sleep(0.1)
        assert len(asked) >= 2
        assert not writing.done()
        lead_by(broker, 1, "t", 0)
        count = len(asked)
        await writing
        assert len(asked) == count
        assert await read(broker, "t") == [b"behind"]

    with_broker(test)


def test_no_broker_waits_for_one_that_does_not_answer() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        cluster = add_other_broker(broker)
        held: list[asyncio.Future[Response]] = []

        def hold(node_id: int, request: WriteTxnMarkersRequest) -> asyncio.Future[Response]:
            held.append(broker.loop.create_future())
            return held[-1]

        cluster.answers[WriteTxnMarkersRequest] = hold
        lead_by(broker, OTHER, "t", 1)
        led = broker.machine.broker.replicas.partition("t", 0)
        in_sync = led.leader.in_sync
        isr, in_sync.committed = in_sync.committed, frozenset()
        at = [TopicPartition("t", 0), TopicPartition("t", 1)]
        writing = asyncio.ensure_future(writer_of(broker).write(abort(producer, *at)))
        await asyncio.sleep(1)
        in_sync.committed = isr
        await asyncio.sleep(2)
        assert await read(broker, "t") == [b"behind"]
        assert not writing.done()
        # After 30 s the first question is given up, and asked again.
        await asyncio.sleep(30)
        answering(cluster, [])
        assert len(held) == 2
        await asyncio.sleep(30)
        assert writing.done()

    with_broker(test)


@pytest.mark.parametrize("leader", [-1, 7])
def test_a_partition_without_a_leader_keeps_the_transaction_waiting(leader: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        lead_by(broker, leader, "t", 0)
        writing = asyncio.ensure_future(
            writer_of(broker).write(abort(producer, TopicPartition("t", 0)))
        )
        await asyncio.sleep(20)
        assert not writing.done()
        lead_by(broker, 1, "t", 0)
        await writing
        assert await read(broker, "t") == [b"behind"]

    with_broker(test)


def test_a_coordinator_that_another_broker_knows_to_be_replaced_gives_up_at_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        cluster = add_other_broker(broker)
        answering(cluster, [ErrorCode.TRANSACTION_COORDINATOR_FENCED])
        lead_by(broker, OTHER, "t", 1)
        led = broker.machine.broker.replicas.partition("t", 0)
        led.leader.in_sync.committed = frozenset()  # Nobody waits for this one any more.
        at = [TopicPartition("t", 0), TopicPartition("t", 1)]
        with pytest.raises(KafkaError) as raised:
            await writer_of(broker).write(abort(producer, *at))
        assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        led.leader.in_sync.committed = frozenset({BrokerId(1)})
        await asyncio.sleep(5)
        assert await read(broker, "t") == []

        answering(cluster, [ErrorCode.INVALID_PRODUCER_EPOCH])
        await writer_of(broker).write(abort(producer, at[1]))

    with_broker(test)


def test_a_marker_that_takes_too_long_to_commit_is_told_of() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        writer = writer_of(broker)
        begun = writer.begin(partition.topic_partition, Marker(1, 0, True, 0, 0))
        codes = await writer.settle([ErrorCode.NONE, begun], timeout_s=5)
        assert codes == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
        begun = writer.begin(partition.topic_partition, Marker(1, 0, True, 0, 0))
        fetched(partition, 2)
        assert await writer.settle([begun], timeout_s=5) == [ErrorCode.NONE]
        begun = writer.begin(partition.topic_partition, Marker(1, 0, True, 0, 0))
        await partition.end_role()
        assert await writer.settle([begun]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    with_broker(test)


def test_a_marker_that_fails_when_whoever_asked_has_hung_up_is_nobodys_error() -> None:
    async def test(broker: SimulatedBroker) -> None:
        unhandled: list[str] = []
        broker.loop.set_exception_handler(lambda _, context: unhandled.append(context["message"]))
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        writer = writer_of(broker)

        async def handle() -> None:
            await writer.settle([writer.begin(partition.topic_partition, Marker(1, 0, True, 0, 0))])

        handling = asyncio.create_task(handle())
        await asyncio.sleep(1)
        handling.cancel()
        await asyncio.wait([handling])
        del handling  # Its traceback knows the marker.
        await partition.end_role()
        await asyncio.sleep(1)
        gc.collect()
        assert unhandled == []

    with_broker(test)
