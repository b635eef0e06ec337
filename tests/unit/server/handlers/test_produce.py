from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.records.batch import CRC_AT
from ottla.records.compression import Compression
from ottla.server import dispatch
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.led_partition import fetched, lead_two_replicas, new_partition
from tests.support.simulated_broker import (
    SimulatedBroker,
    make_batch,
    produce_request,
    with_broker,
)
from tests.support.simulated_group import find_coordinator


async def end_offset(broker: SimulatedBroker, topic: str) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    response = await broker.call(request, ListOffsetsResponse)
    return response.topics[0].partitions[0].offset


def test_offsets_are_given_in_order() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        assert (await broker.produce("t", b"a", b"b")).base_offset == 0
        answer = await broker.produce("t", b"c")
        assert (answer.base_offset, answer.log_start_offset) == (2, 0)
        assert answer.log_append_time_ms == -1

    with_broker(test)


def test_topics_are_found_by_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        for asked, code in (
            (topic_id, ErrorCode.NONE),
            (TopicId(b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        ):
            data = PartitionProduceData(index=0, records=memoryview(make_batch(b"v")))
            request = ProduceRequest(
                acks=1,
                timeout_ms=100,
                topic_data=[TopicProduceData(topic_id=asked, partition_data=[data])],
            )
            response = await broker.call(request, ProduceResponse, 13)
            assert response.responses[0].topic_id == asked
            assert response.responses[0].partition_responses[0].error_code == code

    with_broker(test)


def test_log_append_time_is_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", message_timestamp_type="LogAppendTime")
        answer = await broker.produce("t", b"a")
        assert answer.log_append_time_ms > 1_704_067_200_000

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "partition", "acks", "code"),
    [
        ("missing", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, 2, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_what_cannot_be_written_is_refused(
    topic: str, partition: int, acks: int, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        answer = await broker.produce_batch(topic, make_batch(b"v"), partition=partition, acks=acks)
        assert (answer.error_code, answer.base_offset) == (code, -1)

    with_broker(test)


def test_a_topic_asks_for_no_more_replicas_than_it_has() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", min_insync_replicas="2")
        answer = await broker.produce_batch("t", make_batch(b"v"), acks=-1)
        assert (answer.error_code, answer.base_offset) == (0, 0)

    with_broker(test)


def test_a_wrong_crc_is_refused_and_nothing_is_kept() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        batch = make_batch(b"v")
        batch[CRC_AT] ^= 1
        answer = await broker.produce_batch("t", batch)
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
        assert answer.error_message
        assert await end_offset(broker, "t") == 0

    with_broker(test)


def test_records_that_a_compacted_topic_cannot_take_are_named() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", cleanup_policy="compact")
        answer = await broker.produce("t", b"without key", b"nor this")
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in answer.record_errors] == [0, 1]

    with_broker(test)


def test_a_duplicate_is_answered_like_the_first_and_a_gap_is_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = {"producer_id": 7, "producer_epoch": 0}
        for sequence, code, offset in (
            (0, ErrorCode.NONE, 0),
            (1, ErrorCode.NONE, 1),
            (0, ErrorCode.NONE, 0),
            (3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
            (2, ErrorCode.NONE, 2),
        ):
            answer = await broker.produce_batch(
                "t", make_batch(b"v", base_sequence=sequence, **producer)
            )
            assert (answer.error_code, answer.base_offset) == (code, offset)
        assert await end_offset(broker, "t") == 3

    with_broker(test)


def test_another_compression_is_made_where_the_topic_asks_for_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", compression_type="gzip")
        for number in range(5):
            answer = await broker.produce("t", b"%d" % number * 100)
            assert answer.base_offset == number
        log = broker.machine.broker.replicas.partition("t", 0).log
        stored = broker.machine.disk.read_file(f"{log.path}/00000000000000000000.log")
        assert stored[22] & 7 == Compression.GZIP

    with_broker(test)


@pytest.mark.parametrize("compression", ["producer", "gzip"])
def test_acks_0_is_not_answered(compression: str) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", compression_type=compression)
        connection = await broker.connect()
        connection.send_unanswered(produce_request("t", make_batch(b"v"), acks=0), 9)
        await asyncio.sleep(1)
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
        )
        response = await connection.call(request, ListOffsetsResponse, 7)
        assert response.topics[0].partitions[0].offset == 1

    with_broker(test)


def test_a_client_that_waits_for_no_answer_may_go_while_its_request_is_worked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 200)
        monkeypatch.setattr(dispatch, "let_others_run", lambda: asyncio.sleep(0.01))
        batches = [
            PartitionProduceData(index=number, records=memoryview(make_batch(b"v")))
            for number in range(200)
        ]
        topic = TopicProduceData(name="t", partition_data=batches)
        connection = await broker.connect()
        connection.send_unanswered(ProduceRequest(acks=0, topic_data=[topic]), 9)
        connection.close()
        await asyncio.sleep(1)
        partitions = [broker.machine.broker.replicas.partition("t", n) for n in range(200)]
        assert {partition.log.log_end_offset for partition in partitions} == {1}

    with_broker(test)


def test_an_error_with_acks_0_closes_the_connection() -> None:
    async def test(broker: SimulatedBroker) -> None:
        connection = await broker.connect()
        connection.send_unanswered(produce_request("missing", make_batch(b"v"), acks=0), 9)
        request = ListOffsetsRequest(replica_id=-1)
        with pytest.raises(ConnectionError):
            await connection.call(request, ListOffsetsResponse, 7)

    with_broker(test)


def test_no_records_for_a_partition_is_an_error_of_that_partition() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        answer = await broker.produce_batch("t", b"")
        assert answer.error_code == ErrorCode.INVALID_RECORD

    with_broker(test)


def test_only_brokers_write_to_their_own_topics() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await find_coordinator(broker, "g")
        refused = await broker.produce("__consumer_offsets", b"v")
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert refused.error_message == "only brokers write to __consumer_offsets"
        assert await end_offset(broker, "__consumer_offsets") == 0

    with_broker(test)


@pytest.mark.parametrize(("at", "value"), [(16, 3), (11, 10)], ids=["magic", "length"])
def test_bytes_that_are_no_batch_have_the_whole_request_refused(at: int, value: int) -> None:
    """As in Kafka, which looks at all batches before it looks for their partitions."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        broken = make_batch(b"v")
        broken[at] = value
        data = [
            PartitionProduceData(index=index, records=memoryview(records))
            for index, records in ((0, make_batch(b"v")), (7, broken))
        ]
        topic = TopicProduceData(name="t", partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
        answer = (await broker.call(request, ProduceResponse, 12)).responses[0]
        codes = [one.error_code for one in answer.partition_responses]
        assert codes == [ErrorCode.CORRUPT_MESSAGE] * 2
        assert await end_offset(broker, "t") == 0

    with_broker(test)


def test_acks_all_is_answered_when_the_followers_have_it_or_the_time_is_over() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        began_s = broker.loop.now_s
        batch = make_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
        for _ in range(2):  # A repeat waits as well.
            answer = await broker.produce_batch("t", batch)
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert answer.error_message == (
                "not all in-sync replicas of t-0 had the records after 1000 ms"
            )
        assert broker.loop.now_s - began_s >= 2
        assert partition.leader._uncommitted.parked_count == 0
        again = asyncio.create_task(broker.produce_batch("t", batch))
        await asyncio.sleep(0.5)
        assert not again.done()
        fetched(partition, 1)
        assert ((await again).error_code, (await again).base_offset) == (ErrorCode.NONE, 0)
        assert partition.log.log_end_offset == 1

    with_broker(test)


def test_the_partitions_of_a_client_that_is_gone_are_waited_for_no_more() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        data = [PartitionProduceData(index=0, records=memoryview(make_batch(b"v")))]
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1_000_000,
            topic_data=[TopicProduceData(name="t", partition_data=data) for _ in range(3)],
        )
        client = await broker.connect()
        produce = asyncio.create_task(client.call(request, ProduceResponse, 12))
        await asyncio.sleep(1)
        assert partition.leader._uncommitted.parked_count == 3
        client.close()
        await asyncio.gather(produce, return_exceptions=True)
        await asyncio.sleep(1)
        assert partition.leader._uncommitted.parked_count == 0

    with_broker(test)
