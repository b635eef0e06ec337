from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.records.batch import iter_headers
from ottla.replication.partition import Partition
from ottla.server.handlers import fetch as handler
from ottla.storage.segment import ActiveSegment
from ottla.testing.disk import Fault
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tests.support import partition_transactions as transactions
from tests.support.replica_pair import Pair, make_pair
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker

BY_NAME = 12


def request(
    topic: str | TopicId,
    *asked: FetchPartition,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 0x7FFF_FFFF,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation_level: int = 0,
) -> FetchRequest:
    named = FetchTopic(topic=topic) if isinstance(topic, str) else FetchTopic(topic_id=topic)
    named.partitions = list(asked)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        isolation_level=isolation_level,
        topics=[named] if asked else [],
    )


def ask(offset: int = 0, *, partition: int = 0, max_bytes: int = 1 << 20) -> FetchPartition:
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)


def only(response: FetchResponse) -> PartitionData:
    ((data,),) = [topic.partitions for topic in response.responses]
    return data


def base_offsets(data: PartitionData) -> list[int]:
    assert isinstance(data.records, memoryview)
    return [header.base_offset for _, header in iter_headers(data.records, allow_partial=True)]


def test_batches_come_from_the_one_that_holds_the_offset() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        for _ in range(3):
            await broker.produce("t", b"one", b"two")
        data = only(await broker.call(request("t", ask(3)), FetchResponse, BY_NAME))
        assert base_offsets(data) == [2, 4]
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (6, 6, 0)
        assert data.aborted_transactions is None

    with_broker(test)


def test_topics_are_found_by_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        await broker.produce("t", b"one")
        response = await broker.call(request(topic_id, ask()), FetchResponse)
        assert response.responses[0].topic_id == topic_id
        assert base_offsets(only(response)) == [0]
        unknown = await broker.call(request(TopicId(b"x" * 16), ask()), FetchResponse)
        assert only(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID

    with_broker(test)


def test_errors_are_told_by_partition() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"one")
        for asked, code in (
            (ask(2), ErrorCode.OFFSET_OUT_OF_RANGE),
            (ask(-1), ErrorCode.OFFSET_OUT_OF_RANGE),
            (ask(partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            response = await broker.call(
                request("t", asked, max_wait_ms=60_000), FetchResponse, BY_NAME
            )
            assert only(response).error_code == code
        newer = ask()
        newer.current_leader_epoch = 9
        response = await broker.call(request("t", newer), FetchResponse, BY_NAME)
        assert only(response).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    with_broker(test)


def test_a_fetch_waits_for_records() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        consumer = await broker.connect()
        started_s = broker.loop.now_s
        asked = request("t", ask(), max_wait_ms=60_000)
        fetch = asyncio.create_task(consumer.call(asked, FetchResponse, BY_NAME))
        await asyncio.sleep(1)
        assert not fetch.done()
        await broker.produce("t", b"one")
        assert base_offsets(only(await fetch)) == [0]
        assert broker.loop.now_s - started_s < 2

    with_broker(test)


def test_a_fetch_waits_for_enough_bytes() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        consumer = await broker.connect()
        asked = request("t", ask(), max_wait_ms=60_000, min_bytes=150)
        fetch = asyncio.create_task(consumer.call(asked, FetchResponse, BY_NAME))
        await broker.produce("t", b"one")
        await asyncio.sleep(1)
        assert not fetch.done()
        await broker.produce("t", b"x" * 100)
        assert base_offsets(only(await fetch)) == [0, 1]

    with_broker(test)


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_fetch_does_not_wait_at_the_end_of_a_segment(session_epoch: int) -> None:
    """There is more in the next one, which comes with the next fetch."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", segment_bytes="1048576")
        for _ in range(3):
            await broker.produce("t", b"x" * 700_000)
        asked = request(
            "t",
            ask(1, max_bytes=10_000_000),
            max_wait_ms=60_000,
            min_bytes=1_000_000,
            session_epoch=session_epoch,
        )
        data = only(await asyncio.wait_for(broker.call(asked, FetchResponse, BY_NAME), 1))
        assert base_offsets(data) == [1]

    with_broker(test)


def test_a_fetch_waits_no_longer_than_it_was_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        started_s = broker.loop.now_s
        asked = request("t", ask(), max_wait_ms=500)
        data = only(await broker.call(asked, FetchResponse, BY_NAME))
        assert base_offsets(data) == []
        assert 0.5 <= broker.loop.now_s - started_s < 0.6

    with_broker(test)


def test_a_waiting_fetch_hears_that_the_topic_is_gone() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        consumer = await broker.connect()
        asked = request("t", ask(), max_wait_ms=60_000)
        fetch = asyncio.create_task(consumer.call(asked, FetchResponse, BY_NAME))
        await asyncio.sleep(0.1)
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        await broker.call(delete, DeleteTopicsResponse)
        assert only(await fetch).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test)


def test_sizes_are_kept_but_the_first_batch_always_comes_whole() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        for partition in (0, 1):
            for _ in range(3):
                await broker.produce("t", b"x" * 1000, partition=partition)
        small = [ask(partition=0, max_bytes=10), ask(partition=1, max_bytes=10)]
        response = await broker.call(request("t", *small), FetchResponse, BY_NAME)
        first, second = response.responses[0].partitions
        assert base_offsets(first) == [0]
        assert second.records is not None
        assert len(second.records) <= 10
        response = await broker.call(
            request("t", ask(), ask(partition=1), max_bytes=2500), FetchResponse, BY_NAME
        )
        first, second = response.responses[0].partitions
        assert len(base_offsets(first)) == 2
        assert base_offsets(second) == []

    with_broker(test)


def test_a_session_tells_only_what_changed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 100)
        full = request(topic_id, *(ask(partition=number) for number in range(100)), session_epoch=0)
        response = await broker.call(full, FetchResponse)
        session_id = response.session_id
        assert session_id > 0
        assert len(response.responses[0].partitions) == 100

        await broker.produce("t", b"one", partition=42)
        again = request(topic_id, session_id=session_id, session_epoch=1)
        data = only(await broker.call(again, FetchResponse))
        assert (data.partition_index, base_offsets(data)) == (42, [0])

        moved = request(topic_id, ask(1, partition=42), session_id=session_id, session_epoch=2)
        response = await broker.call(moved, FetchResponse)
        assert response.responses == []

    with_broker(test)


def test_a_session_that_is_not_there_must_begin_anew() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        asked = request(topic_id, ask(), session_id=99, session_epoch=1, max_wait_ms=60_000)
        response = await broker.call(asked, FetchResponse)
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert (response.session_id, response.responses) == (0, [])

    with_broker(test)


def test_a_session_gives_again_what_a_client_did_not_move_past() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        await broker.produce("t", b"one")
        response = await broker.call(request(topic_id, ask(), session_epoch=0), FetchResponse)
        for epoch in (1, 2):
            again = request(topic_id, session_id=response.session_id, session_epoch=epoch)
            assert base_offsets(only(await broker.call(again, FetchResponse))) == [0]

    with_broker(test)


def test_a_session_that_waits_is_woken_by_any_of_its_partitions() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 10)
        consumer = await broker.connect()
        full = request(topic_id, *(ask(partition=n) for n in range(10)), session_epoch=0)
        session_id = (await consumer.call(full, FetchResponse, 17)).session_id
        waiting = request(topic_id, session_id=session_id, session_epoch=1, max_wait_ms=60_000)
        fetch = asyncio.create_task(consumer.call(waiting, FetchResponse, 17))
        await asyncio.sleep(1)
        await broker.produce("t", b"one", partition=7)
        assert only(await fetch).partition_index == 7

    with_broker(test)


def test_no_partition_of_a_session_starves() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 3)
        for partition in range(3):
            await broker.produce("t", b"x" * 1000, partition=partition)
        full = request(
            topic_id, *(ask(partition=n) for n in range(3)), session_epoch=0, max_bytes=10
        )
        response = await broker.call(full, FetchResponse)
        seen = {data.partition_index for data in response.responses[0].partitions if data.records}
        for epoch in (1, 2, 3):
            again = request(
                topic_id, session_id=response.session_id, session_epoch=epoch, max_bytes=10
            )
            for topic in (await broker.call(again, FetchResponse)).responses:
                seen |= {data.partition_index for data in topic.partitions if data.records}
        assert seen == {0, 1, 2}

    with_broker(test)


def with_records(response: FetchResponse) -> list[int]:
    return [
        data.partition_index
        for topic in response.responses
        for data in topic.partitions
        if data.records
    ]


def test_the_first_batch_goes_to_the_partition_that_the_session_named_first() -> None:
    """Also where it was read to its end before, and is asked for again from its start."""

    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 2)
        for partition in range(2):
            await broker.produce("t", b"one", partition=partition)
        full = request(
            topic_id, ask(1), ask(partition=1, max_bytes=1), session_epoch=0, max_bytes=1
        )
        response = await broker.call(full, FetchResponse)
        assert with_records(response) == [1]
        again = request(topic_id, ask(max_bytes=1), session_id=response.session_id, session_epoch=1)
        assert with_records(await broker.call(again, FetchResponse)) == [0]

    with_broker(test)


def test_a_partition_loses_its_place_with_the_answer_and_not_before() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 2)
        for partition in range(2):
            await broker.produce("t", b"one", partition=partition)
        full = request(topic_id, ask(1), ask(1, partition=1), session_epoch=0)
        session_id = (await broker.call(full, FetchResponse)).session_id
        for epoch, served in ((1, [0]), (2, [1]), (3, [0])):
            waits = request(
                topic_id,
                ask(partition=0),
                ask(partition=1),
                session_id=session_id,
                session_epoch=epoch,
                max_bytes=1,
                min_bytes=1 << 20,
                max_wait_ms=1000,
            )
            assert with_records(await broker.call(waits, FetchResponse)) == served

    with_broker(test)


def look_at_each_for_a_slice(
    monkeypatch: pytest.MonkeyPatch, broker: SimulatedBroker, meanwhile: Callable[[Partition], Any]
) -> None:
    """After a look at the first, that happens to it."""
    read = Partition.read

    def read_slowly(partition: Partition, *args: Any, **kwargs: Any) -> Any:
        if partition.topic_partition.partition == 0:
            broker.loop.call_soon(meanwhile, partition)
            monkeypatch.setattr(Partition, "read", read)
        broker.loop.pass_time(0.001)
        return read(partition, *args, **kwargs)

    monkeypatch.setattr(handler, "AT_ONCE_MAX", 0)
    monkeypatch.setattr(Partition, "read", read_slowly)


def test_what_came_while_others_were_looked_at_is_not_overlooked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def append(partition: Partition) -> None:
        partition.leader.append(memoryview(make_batch(b"a")), acks=1, produce_version=12)

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        look_at_each_for_a_slice(monkeypatch, broker, append)
        started_s = broker.loop.now_s
        asked = request("t", ask(), ask(partition=1), max_wait_ms=60_000)
        response = await broker.call(asked, FetchResponse, BY_NAME)
        assert base_offsets(response.responses[0].partitions[0]) == [0]
        assert broker.loop.now_s - started_s < 2

    with_broker(test)


def test_a_partition_that_is_gone_while_others_are_looked_at_is_told_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 2)
        full = request(topic_id, ask(), ask(partition=1), session_epoch=0)
        session_id = (await broker.call(full, FetchResponse)).session_id
        look_at_each_for_a_slice(monkeypatch, broker, lambda partition: begin(partition.end_role()))
        moved = request(topic_id, ask(), ask(partition=1), session_id=session_id, session_epoch=1)
        assert (await broker.call(moved, FetchResponse)).responses == []
        again = request(topic_id, session_id=session_id, session_epoch=2)
        data = only(await broker.call(again, FetchResponse))
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(test)


def test_epochs_below_zero_are_no_epochs() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"one")
        asked = ask()
        asked.current_leader_epoch = asked.last_fetched_epoch = -2
        assert base_offsets(only(await broker.call(request("t", asked), FetchResponse, BY_NAME)))

    with_broker(test)


def test_a_reader_whose_log_diverged_is_told_where() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"one")

        async def fetch(offset: int, last_fetched_epoch: int) -> PartitionData:
            asked = ask(offset)
            asked.last_fetched_epoch = last_fetched_epoch
            return only(await broker.call(request("t", asked), FetchResponse, BY_NAME))

        diverged = await fetch(2, 0)
        assert (diverged.diverging_epoch.end_offset, diverged.aborted_transactions) == (1, None)
        assert (await fetch(1, 0)).diverging_epoch.end_offset == -1
        assert (await fetch(1, 5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_broker(test)


def test_cold_records_are_warmed_before_they_are_sent() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"one")
        await broker.machine.stop()
        await broker.machine.start()
        broker.machine.disk.evict("/data/t-0/00000000000000000000.log")
        consumer = await broker.connect()
        data = only(await consumer.call(request("t", ask()), FetchResponse, BY_NAME))
        assert base_offsets(data) == [0]

    with_broker(test)


def test_a_cold_read_that_fails_is_an_error_of_the_storage() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"one")
        path = "/data/t-0/00000000000000000000.log"
        broker.machine.disk.evict(path)
        broker.machine.disk.fail(Fault("read_at", path))
        # Long ago, so that the position is not remembered.
        active = broker.machine.broker.replicas.partition("t", 0).log.segments[0]
        assert isinstance(active, ActiveSegment)
        active._recent.clear()
        data = only(await broker.call(request("t", ask()), FetchResponse, BY_NAME))
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    with_broker(test)


# Transactions

UNCOMMITTED, COMMITTED = 0, 1


async def with_transactions(broker: SimulatedBroker) -> Partition:
    """0 aborted by 7, 1 open by 8, 2 plain, 3 the marker of 7."""
    await broker.create_topic("t")
    partition = broker.machine.broker.replicas.partition("t", 0)
    await transactions.write(partition, 7, b"aborted")
    await transactions.write(partition, 8, b"open")
    await broker.produce("t", b"plain")
    await transactions.end(partition, 7, is_commit=False)
    return partition


def test_readers_of_committed_records_see_up_to_the_last_stable_offset() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await with_transactions(broker)

        async def fetch(isolation_level: int, offset: int = 0) -> PartitionData:
            asked = request("t", ask(offset), isolation_level=isolation_level)
            return only(await broker.call(asked, FetchResponse, BY_NAME))

        data = await fetch(COMMITTED)
        assert (data.high_watermark, data.last_stable_offset) == (4, 1)
        assert base_offsets(data) == [0]
        assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]
        data = await fetch(UNCOMMITTED)
        assert (data.high_watermark, data.last_stable_offset) == (4, 1)
        assert base_offsets(data) == [0, 1, 2, 3]
        assert data.aborted_transactions is None
        data = await fetch(COMMITTED, offset=1)
        assert (base_offsets(data), data.aborted_transactions) == ([], [])
        await transactions.end(partition, 8, is_commit=True)
        data = await fetch(COMMITTED, offset=1)
        assert base_offsets(data) == [1, 2, 3, 4]
        assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]
        data = await fetch(COMMITTED, offset=4)
        assert (base_offsets(data), data.aborted_transactions) == ([4], [])
        data = await fetch(COMMITTED, offset=99)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert data.aborted_transactions is None

    with_broker(test)


def test_a_reader_of_committed_records_wakes_up_with_the_marker() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await with_transactions(broker)
        asked = request("t", ask(1), isolation_level=COMMITTED, max_wait_ms=10_000)
        other = await broker.connect()
        began = broker.loop.time()
        fetching = asyncio.ensure_future(other.call(asked, FetchResponse, BY_NAME))
        await asyncio.sleep(1)
        await transactions.write(partition, 8, b"hidden" * 100, sequence=1)
        await asyncio.sleep(1)
        assert not fetching.done()
        await transactions.end(partition, 8, is_commit=True)
        assert base_offsets(only(await fetching)) == [1, 2, 3, 4, 5]
        assert broker.loop.time() - began < 3

    with_broker(test)


def test_it_sleeps_on_until_there_is_enough() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await with_transactions(broker)
        asked = request("t", ask(1), isolation_level=COMMITTED, max_wait_ms=60_000, min_bytes=1000)
        other = await broker.connect()
        fetching = asyncio.ensure_future(other.call(asked, FetchResponse, BY_NAME))
        await asyncio.sleep(1)
        await transactions.end(partition, 8, is_commit=True)
        await asyncio.sleep(1)
        assert not fetching.done()
        await broker.produce("t", b"x" * 1000)
        assert base_offsets(only(await fetching)) == [1, 2, 3, 4, 5]

    with_broker(test)


def test_a_session_may_change_what_it_wants_to_see() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        partition = broker.machine.broker.replicas.partition("t", 0)
        await transactions.write(partition, 8, b"open")
        first = await broker.call(
            request(topic_id, ask(), session_epoch=0, isolation_level=COMMITTED), FetchResponse
        )
        assert base_offsets(only(first)) == []
        second = await broker.call(
            request(topic_id, session_id=first.session_id, session_epoch=1), FetchResponse
        )
        assert base_offsets(only(second)) == [0]

    with_broker(test)


def test_a_cold_transaction_index_is_read_off_the_loop() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await with_transactions(broker)
        await transactions.end(partition, 8, is_commit=True)
        partition.log.roll()
        await asyncio.sleep(1)
        broker.machine.disk.evict(f"{partition.log.path}/00000000000000000000.txnindex")
        asked = request("t", ask(), isolation_level=COMMITTED, max_wait_ms=1000)
        data = only(await broker.call(asked, FetchResponse, BY_NAME))
        assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]

    with_broker(test)


def test_a_transaction_index_that_cannot_be_read_is_an_error_of_the_storage() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await with_transactions(broker)
        await transactions.end(partition, 8, is_commit=True)
        partition.log.roll()
        await asyncio.sleep(1)
        path = f"{partition.log.path}/00000000000000000000.txnindex"
        broker.machine.disk.fail(Fault("read_at", path))
        asked = request("t", ask(), isolation_level=COMMITTED, max_wait_ms=1000)
        data = only(await broker.call(asked, FetchResponse, BY_NAME))
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    with_broker(test)


# From a follower (KIP-392)

SINCE_RACKS = 11


async def following(broker: SimulatedBroker) -> Pair:
    """`follows` is followed here, in epoch 3."""
    pair = await make_pair(broker)
    await pair.follow(3)
    return pair


async def fetch_followed(
    broker: SimulatedBroker,
    offset: int = 0,
    *,
    version: int = BY_NAME,
    leader_epoch: int = -1,
    **options: int,
) -> PartitionData:
    asked = ask(offset)
    asked.current_leader_epoch = leader_epoch
    return only(
        await broker.call(request("follows", asked, **options), FetchResponse, version),
    )


def test_a_follower_serves_consumers_up_to_the_high_watermark_that_it_knows() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await following(broker)
        for _ in range(3):
            await broker.produce("leads", b"one", b"two")
        await pair.fetch(high_watermark=2)
        data = await fetch_followed(broker)
        assert (base_offsets(data), data.high_watermark) == ([0], 2)
        assert (data.last_stable_offset, data.log_start_offset) == (2, 0)
        # Written here, and not known to be committed: as in Kafka there is nothing to read yet.
        for offset in (2, 4, 6):
            data = await fetch_followed(broker, offset)
            assert (data.error_code, data.records, data.high_watermark) == (0, b"", 2)
        data = await fetch_followed(broker, 7)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        await pair.fetch()
        assert base_offsets(await fetch_followed(broker, 2)) == [2, 4]

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "leader_epoch", "code"),
    [
        (SINCE_RACKS - 1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (SINCE_RACKS - 1, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (SINCE_RACKS - 1, 2, ErrorCode.FENCED_LEADER_EPOCH),
        (SINCE_RACKS, -1, ErrorCode.NONE),
        (SINCE_RACKS, 3, ErrorCode.NONE),
        (SINCE_RACKS, 2, ErrorCode.FENCED_LEADER_EPOCH),
        (SINCE_RACKS, 4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_follower_serves_consumers_that_know_of_it(
    version: int, leader_epoch: int, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await following(broker)
        data = await fetch_followed(broker, version=version, leader_epoch=leader_epoch)
        assert data.error_code == code

    with_broker(test)


def test_a_follower_serves_no_other_follower() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await following(broker)
        asked = request("follows", ask())
        asked.replica_id = 3
        data = only(await broker.call(asked, FetchResponse, BY_NAME))
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not pair.follows.is_led

    with_broker(test)


def test_a_consumer_of_a_follower_waits_for_the_high_watermark() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await following(broker)
        size_bytes = len(make_batch(b"one"))
        consumer = await broker.connect()
        asked = request("follows", ask(), max_wait_ms=60_000, min_bytes=2 * size_bytes)
        fetch = asyncio.create_task(consumer.call(asked, FetchResponse, BY_NAME))
        for _ in range(2):
            await broker.produce("leads", b"one")
        await pair.fetch(high_watermark=0)
        await asyncio.sleep(1)
        assert not fetch.done()
        await pair.fetch(high_watermark=1)
        await asyncio.sleep(1)
        assert not fetch.done(), "so many bytes are not readable yet"
        await pair.fetch()
        assert base_offsets(only(await fetch)) == [0, 1]
        assert broker.loop.now_s < 60

    with_broker(test)


def test_a_session_at_a_follower_hears_of_what_is_new() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await following(broker)
        topic_id = pair.follows.topic_id
        first = await broker.call(request(topic_id, ask(), session_epoch=0), FetchResponse)
        assert only(first).records == b""

        async def fetch(epoch: int) -> FetchResponse:
            asked = request(topic_id, session_id=first.session_id, session_epoch=epoch)
            return await broker.call(asked, FetchResponse)

        assert (await fetch(1)).responses == []
        await broker.produce("leads", b"one")
        await pair.fetch()
        assert base_offsets(only(await fetch(2))) == [0]
        # It leads now, in another epoch: the session goes on with that.
        await pair.lead(pair.follows, 4)
        await broker.produce("follows", b"two")
        assert base_offsets(only(await fetch(3))) == [0, 1]

    with_broker(test)


def test_a_consumer_that_waits_at_a_follower_hears_that_it_is_none_any_more() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await following(broker)
        consumer = await broker.connect()
        asked = request("follows", ask(), max_wait_ms=60_000)
        fetch = asyncio.create_task(consumer.call(asked, FetchResponse, BY_NAME))
        await asyncio.sleep(1)
        await broker.machine.broker.replicas.stop(pair.follows.topic_partition)
        assert only(await fetch).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.loop.now_s < 60

    with_broker(test)


def test_a_session_hears_that_what_it_has_read_was_cut_off() -> None:
    """By an unclean election: else it would go on behind what others have read there."""

    async def test(broker: SimulatedBroker) -> None:
        pair = await following(broker)
        await broker.produce("leads", b"one", b"two")
        await pair.fetch()
        topic_id = pair.follows.topic_id
        first = await broker.call(request(topic_id, ask(2), session_epoch=0), FetchResponse)
        assert only(first).error_code == ErrorCode.NONE
        await pair.follower.start_over(0, 0)
        again = request(topic_id, session_id=first.session_id, session_epoch=1)
        data = only(await broker.call(again, FetchResponse))
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_broker(test)


def test_readers_of_committed_records_see_the_same_at_a_follower() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await following(broker)
        leads = pair.leads
        await transactions.write(leads, 7, b"aborted")
        await transactions.write(leads, 8, b"open")
        await broker.produce("leads", b"plain")
        await transactions.end(leads, 7, is_commit=False)
        await pair.fetch()
        data = await fetch_followed(broker, isolation_level=COMMITTED)
        assert (data.high_watermark, data.last_stable_offset) == (4, 1)
        assert base_offsets(data) == [0]
        assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]
        consumer = await broker.connect()
        asked = request("follows", ask(1), max_wait_ms=60_000, isolation_level=COMMITTED)
        fetch = asyncio.create_task(consumer.call(asked, FetchResponse, BY_NAME))
        await transactions.end(leads, 8, is_commit=True)
        # A marker that is here and not known to be committed decides nothing yet.
        await pair.fetch(high_watermark=4)
        await asyncio.sleep(1)
        assert not fetch.done()
        assert (await fetch_followed(broker)).last_stable_offset == 1
        await pair.fetch()
        data = only(await fetch)
        assert (base_offsets(data), data.last_stable_offset) == ([1, 2, 3, 4], 5)
        assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]

    with_broker(test)
