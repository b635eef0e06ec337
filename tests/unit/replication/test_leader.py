from __future__ import annotations

import asyncio
import struct

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.records.batch import (
    CRC_AT,
    HEADER_BYTES,
    BatchHeader,
    compute_crc,
    is_crc_valid,
    parse_header,
)
from ottla.records.builder import ControlType, build_batch
from ottla.records.compression import Compression
from ottla.records.control import parse_end_txn_marker
from ottla.records.record import Record
from ottla.records.validation import ProducePolicy, validate_produced
from ottla.replication.append_memory import AppendMemory
from ottla.storage.pending_write import Appended
from ottla.storage.verification import VerificationGuard
from ottla.testing.disk import Fault
from tests.support import partition_transactions as transactions
from tests.support.held_writes import HeldWrites
from tests.support.led_partition import (
    Watching,
    append,
    append_later,
    become_slow,
    committed,
    fetched,
    lead_two_replicas,
    new_partition,
)
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker


def test_an_append_is_committed_at_once_and_watchers_hear_of_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        watching = Watching()
        partition.watchers[watching] = None
        appended = append(partition, b"a", b"b")
        assert isinstance(appended, Appended)
        assert (appended.first_offset, appended.last_offset) == (0, 1)
        assert partition.high_watermark == partition.last_stable_offset == 2
        assert watching.byte_counts == [len(make_batch(b"a", b"b"))]

    with_broker(test)


def test_a_duplicate_is_answered_and_nobody_is_woken() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        watching = Watching()
        partition.watchers[watching] = None
        for _ in range(2):
            batch = make_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
            appended = partition.leader.append(memoryview(batch), acks=-1, produce_version=12)
            assert isinstance(appended, Appended)
            assert appended.first_offset == 0
        assert (partition.high_watermark, len(watching.byte_counts)) == (1, 1)

    with_broker(test)


@pytest.mark.parametrize("is_slow", [True, False])
def test_appends_off_the_loop_keep_their_order(is_slow: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        compression_type = "producer" if is_slow else "gzip"
        partition = await new_partition(broker, compression_type=compression_type)
        watching = Watching()
        partition.watchers[watching] = None
        if is_slow:
            become_slow(partition)
        futures = [append_later(partition, b"x") for _ in range(20)]
        assert partition.high_watermark == 0
        assert [(await future).first_offset for future in futures] == list(range(20))
        assert (partition.high_watermark, len(watching.byte_counts)) == (20, 20)

    with_broker(test)


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_batch_that_makes_flush_messages_due_is_acknowledged_after_the_fsync(
    is_slow: bool,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, flush_messages="3")
        seen = []
        watching = Watching()
        watching.on_added = lambda: seen.append(
            (partition.high_watermark, partition.log.recovery_point)
        )
        partition.watchers[watching] = None
        if is_slow:
            become_slow(partition)
        futures = [append_later(partition, b"x") for _ in range(7)]
        assert [(await future).first_offset for future in futures] == list(range(7))
        assert seen == [(1, 0), (2, 0), (3, 3), (4, 3), (5, 3), (6, 6), (7, 6)]

    with_broker(test)


def test_nothing_is_committed_whose_fsync_failed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, flush_messages="1")
        broker.machine.disk.fail(Fault("sync", "0.log"))
        answer = await broker.produce("t", b"v")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.high_watermark == 0
        broker.machine.disk.faults.clear()
        broker.machine.kill()
        await broker.machine.start()

    with_broker(test)


def test_a_repeat_of_a_batch_that_a_kill_left_unsynced_waits_for_the_fsync() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await new_partition(broker)
        batch = make_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
        await broker.produce_batch("t", batch)
        await broker.restart(broker.machine.kill)
        partition = broker.machine.broker.replicas.partition("t", 0)
        partition.log.set_config(TopicConfig(flush_messages=1))
        partition.config_changed()
        assert partition.log.recovery_point == 0
        assert (await broker.produce_batch("t", batch)).base_offset == 0
        assert partition.log.recovery_point == 1

    with_broker(test)


def test_a_buffer_may_be_reused_while_its_records_wait() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        become_slow(partition)
        batch = make_batch(b"v")
        future = partition.leader.append(memoryview(batch), acks=-1, produce_version=12)
        batch[:] = bytes(len(batch))
        assert isinstance(future, asyncio.Future)
        assert (await future).first_offset == 0

    with_broker(test)


def test_what_waits_is_bounded_though_its_clients_may_be_gone() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        size_bytes = len(make_batch(b"x"))
        partition.leader._appends._memory = AppendMemory(3 * size_bytes)
        become_slow(partition)
        for _ in range(3):
            append_later(partition, b"x").cancel()
        with pytest.raises(KafkaError) as caught:
            append(partition, b"x")
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await asyncio.sleep(1)
        for _ in range(2):
            become_slow(partition)
            futures = [append_later(partition, b"x") for _ in range(3)]
            await asyncio.wait(futures)
        assert partition.high_watermark == 9

    with_broker(test)


def test_what_is_too_large_does_not_wait() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, max_message_bytes="100")
        become_slow(partition)
        with pytest.raises(KafkaError) as caught:
            append(partition, b"x" * 100)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    with_broker(test)


def test_nothing_overtakes_what_waits() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        become_slow(partition)
        first = append_later(partition, b"a")
        partition.log.folder.wrote(0.0)  # The disk is quick again, but the first still waits.
        second = append_later(partition, b"b")
        assert ((await first).first_offset, (await second).first_offset) == (0, 1)
        assert isinstance(append(partition, b"c"), Appended)

    with_broker(test)


def test_a_batch_that_takes_long_to_check_is_checked_off_the_loop_and_keeps_its_place() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        records = [Record(number, 1_700_000_000_000, None, b"") for number in range(20_000)]
        sound, bad = build_batch(records), build_batch(records)
        bad[HEADER_BYTES] = 1  # The first record claims -1 bytes.
        struct.pack_into(">I", bad, CRC_AT, compute_crc(bad))
        appended = [
            partition.leader.append(memoryview(batch), acks=-1, produce_version=12)
            for batch in (sound, bad, make_batch(b"v"))
        ]
        futures = [each for each in appended if isinstance(each, asyncio.Future)]
        assert len(futures) == 3
        first, refused, last = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.INVALID_RECORD
        assert isinstance(first, Appended)
        assert isinstance(last, Appended)
        assert (first.first_offset, last.first_offset) == (0, 20_000)

    with_broker(test)


def test_a_batch_that_opens_to_more_than_expected_is_opened_on_the_loop_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[bool] = []

    def counted(
        batch: memoryview, policy: ProducePolicy, *, is_at_once: bool = False, **others: int
    ) -> tuple[memoryview, BatchHeader]:
        tried.append(is_at_once)
        return validate_produced(batch, policy, is_at_once=is_at_once, **others)

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        monkeypatch.setattr("ottla.replication.leader.validate_produced", counted)
        batch = make_batch(*[bytes(1000)] * 900, compression=Compression.ZSTD)
        appended = partition.leader.append(memoryview(batch), acks=-1, produce_version=12)
        assert isinstance(appended, asyncio.Future)
        assert (await appended).last_offset == 899
        assert tried == [True, False]

    with_broker(test)


@pytest.mark.parametrize(
    ("is_checked", "code"), [("true", ErrorCode.INVALID_RECORD), ("false", ErrorCode.NONE)]
)
def test_whether_records_are_looked_at_is_a_setting(is_checked: str, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await new_partition(broker)
        bad = make_batch(b"value")
        bad[HEADER_BYTES] = 1
        struct.pack_into(">I", bad, CRC_AT, compute_crc(bad))
        assert (await broker.produce_batch("t", bad)).error_code == code

    with_broker(test, ottla_produce_check_records=is_checked)


def test_a_bad_batch_in_the_queue_fails_alone() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        become_slow(partition)
        batch = make_batch(b"bad")
        batch[-1] ^= 1
        bad = partition.leader.append(memoryview(batch), acks=-1, produce_version=12)
        good = append_later(partition, b"good")
        assert isinstance(bad, asyncio.Future)
        with pytest.raises(KafkaError) as caught:
            await bad
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert (await good).first_offset == 0

    with_broker(test)


def test_a_duplicate_that_waits_its_turn_is_answered_like_the_first() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        become_slow(partition)
        for _ in range(2):
            batch = make_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
            appended = partition.leader.append(memoryview(batch), acks=-1, produce_version=12)
            assert isinstance(appended, asyncio.Future)
            assert (await appended).first_offset == 0
            become_slow(partition)
        assert partition.high_watermark == 1

    with_broker(test)


@pytest.mark.parametrize("is_slow", [True, False])
def test_what_the_broker_itself_appends_is_in_its_place(is_slow: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, max_message_bytes="1000")
        append(partition, b"a client's")
        if is_slow:
            become_slow(partition)
        appended = partition.leader.append_own(make_batch(b"a", b"b"))
        assert (appended.first_offset, partition.leader.is_all_committed) == (1, not is_slow)
        await committed(partition)
        assert partition.high_watermark == 3
        with pytest.raises(KafkaError) as caught:
            partition.leader.append_own(make_batch(b"x" * 1000))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    with_broker(test)


def test_appends_of_the_broker_get_their_places_at_once_and_are_committed_in_order() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, flush_messages="1")
        watching = Watching()
        partition.watchers[watching] = None
        heard: list[tuple[int, int]] = []
        for number in range(6):
            if number == 3:
                become_slow(partition)
            assert partition.leader.append_own(make_batch(b"v")).first_offset == number
            partition.leader.when_committed(
                lambda error, end=number + 1: heard.append((end, partition.high_watermark))  # type: ignore[misc]
            )
        assert (heard, partition.high_watermark) == ([], 0)
        await committed(partition)
        assert [end for end, _ in heard] == [1, 2, 3, 4, 5, 6]
        assert all(high_watermark >= end for end, high_watermark in heard)
        assert partition.log.recovery_point == 6
        assert len(watching.byte_counts) == 6

    with_broker(test)


@pytest.mark.parametrize("fault", ["sync", "write_at"])
def test_whoever_waits_for_an_append_hears_that_the_disk_has_failed(fault: str) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, flush_messages="1")
        become_slow(partition)
        broker.machine.disk.fail(Fault(fault, "t-0/00000000000000000000.log"))
        heard: list[KafkaError | None] = []
        for _ in range(2):
            partition.leader.append_own(make_batch(b"v"))
            partition.leader.when_committed(heard.append)
        await asyncio.sleep(1)
        assert [error and error.code for error in heard] == 2 * [ErrorCode.KAFKA_STORAGE_ERROR]
        assert partition.high_watermark == 0
        broker.machine.disk.faults.clear()
        broker.machine.kill()
        await broker.machine.start()

    with_broker(test)


def test_the_broker_itself_needs_as_many_replicas_as_acks_all() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(
            await new_partition(broker, min_insync_replicas="2"), broker
        )
        with pytest.raises(KafkaError) as caught:
            partition.leader.append_own(make_batch(b"v"))
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS

    with_broker(test)


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_write_that_fails_is_an_error_of_the_storage(is_slow: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        if is_slow:
            become_slow(partition)
        broker.machine.disk.fail(Fault("write_at"))
        for _ in range(2):
            answer = await broker.produce("t", b"v")
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.high_watermark == 0
        broker.machine.kill()
        await broker.machine.start()

    with_broker(test)


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("write_at", ErrorCode.KAFKA_STORAGE_ERROR),
        (None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_a_second_try_with_the_same_buffer_hears_the_same(
    fault: str | None, code: ErrorCode, timestamp_type: str
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, message_timestamp_type=timestamp_type)
        producer = {"producer_id": 7, "producer_epoch": 0}
        first, late = (
            make_batch(b"v", base_sequence=one, **producer) for one in (0, 1 if fault else 5)
        )
        partition.leader.append_at_once(memoryview(first), 1, 12)
        if fault:
            broker.machine.disk.fail(Fault(fault, count=1))
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                partition.leader.append_at_once(memoryview(late), 1, 12)
            assert caught.value.code is code
        broker.machine.kill()
        await broker.machine.start()

    with_broker(test)


def test_too_few_in_sync_replicas_refuse_acks_all_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(
            await new_partition(broker, min_insync_replicas="2"), broker
        )
        with pytest.raises(KafkaError) as caught:
            append(partition, b"v")
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert isinstance(append(partition, b"v", acks=1), Appended)

    with_broker(test)


# Transactions


def test_a_marker_is_the_batch_that_kafka_writes() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await transactions.end(partition, 7, is_commit=False, epoch=3, coordinator_epoch=5)
        piece = partition.read(0, 1000, is_committed_only=False, at_least_one=True)
        assert isinstance(piece, FileSlice)
        content = piece.read()
        header = parse_header(content)
        assert (header.is_control, header.is_transactional, header.base_sequence) == (
            True,
            True,
            -1,
        )
        assert (header.producer_id, header.producer_epoch, header.partition_leader_epoch) == (
            7,
            3,
            0,
        )
        assert (header.size_bytes, is_crc_valid(content)) == (78, True)
        assert parse_end_txn_marker(content) == (ControlType.ABORT, 5)

    with_broker(test)


def test_a_marker_bears_the_time_of_the_broker_where_the_topic_does() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, message_timestamp_type="LogAppendTime")
        appended = await transactions.end(partition, 7, is_commit=False)
        assert appended.log_append_time_ms == partition.leader._clock.now_ms()

    with_broker(test)


@pytest.mark.parametrize(
    "config", [{"flush_messages": "1"}, {"compression_type": "zstd"}, {"max_message_bytes": "79"}]
)
@pytest.mark.parametrize("is_slow", [True, False])
def test_markers_wait_their_turn_behind_records(is_slow: bool, config: dict[str, str]) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, **config)
        if is_slow:
            become_slow(partition)
        written = asyncio.ensure_future(transactions.write(partition, 7, b"v"))
        await asyncio.sleep(0)
        ended = asyncio.ensure_future(transactions.end(partition, 7, is_commit=False))
        await asyncio.sleep(0)
        late = asyncio.ensure_future(transactions.append(partition, 7, b"w", sequence=1))
        assert ((await written).first_offset, (await ended).first_offset) == (0, 1)
        with pytest.raises(KafkaError) as caught:
            await late
        assert caught.value.code is ErrorCode.INVALID_TXN_STATE
        assert partition.last_stable_offset == 2

    with_broker(test)


def test_a_marker_that_is_refused_when_its_turn_comes_is_not_written() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        become_slow(partition)
        newer = asyncio.ensure_future(
            transactions.end(partition, 7, is_commit=True, coordinator_epoch=2)
        )
        await asyncio.sleep(0)
        with pytest.raises(KafkaError) as caught:
            await transactions.end(partition, 7, is_commit=True, coordinator_epoch=1)
        assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert (await newer).first_offset == 0
        assert partition.high_watermark == 1

    with_broker(test)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1)])
def test_a_marker_is_of_a_producer(producer_id: int, epoch: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        with pytest.raises(KafkaError) as caught:
            await transactions.end(partition, producer_id, is_commit=True, epoch=epoch)
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert partition.high_watermark == 0

    with_broker(test)


def test_too_few_replicas_take_no_marker() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        partition.leader.in_sync.committed = frozenset()
        with pytest.raises(KafkaError) as caught:
            await transactions.end(partition, 7, is_commit=True)
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS

    with_broker(test)


@pytest.mark.parametrize("is_slow", [True, False])
def test_offsets_of_a_transaction_are_appended_without_a_sequence(is_slow: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, compression_type="gzip")
        if is_slow:
            become_slow(partition)

        async def append_own(epoch: int, guard: VerificationGuard | None = None) -> Appended:
            batch = make_batch(b"v", producer_id=7, producer_epoch=epoch, is_transactional=True)
            appended = partition.leader.append_own(batch, guard)
            await committed(partition)
            return appended

        with pytest.raises(KafkaError) as caught:
            await append_own(epoch=2)
        assert caught.value.code is ErrorCode.INVALID_TXN_STATE
        await append_own(
            2, partition.leader.begin_verification(7, 2, -1, supports_epoch_bump=False)
        )
        await append_own(epoch=2)
        assert (partition.last_stable_offset, partition.high_watermark) == (0, 2)
        guard = partition.leader.begin_verification(7, 3, -1, supports_epoch_bump=False)
        await transactions.end(partition, 7, is_commit=True, epoch=3)
        assert partition.last_stable_offset == 3
        for epoch, void, code in (
            (2, None, ErrorCode.INVALID_PRODUCER_EPOCH),
            (3, guard, ErrorCode.INVALID_TXN_STATE),
        ):
            with pytest.raises(KafkaError) as caught:
                await append_own(epoch, void)
            assert caught.value.code is code

    with_broker(test)


def test_an_append_is_committed_when_its_followers_have_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        watching = Watching()
        partition.watchers[watching] = None
        assert isinstance(append(partition, b"a", acks=1), Appended)
        future = append_later(partition, b"b")
        assert (partition.log.log_end_offset, partition.high_watermark) == (2, 0)
        assert partition.leader.append_at_once(memoryview(make_batch(b"c")), -1, 12) is None
        fetched(partition, 1)
        assert (partition.high_watermark, future.done()) == (1, False)
        fetched(partition, 2)
        assert (await future).first_offset == 1
        assert partition.high_watermark == 2
        assert watching.byte_counts == 2 * [len(make_batch(b"a"))]

    with_broker(test)


def test_an_append_that_is_not_synced_counts_for_nobody() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, flush_messages="1")
        await lead_two_replicas(partition, broker, isr=(1, 2))
        partition = broker.machine.broker.replicas.partition("t", 0)
        partition.leader.append_own(make_batch(b"a"))
        fetched(partition, 1)
        assert partition.high_watermark == 0, "its own disk does not have it yet"
        await committed(partition)
        assert partition.high_watermark == 1

    with_broker(test)


def test_a_repeat_waits_for_the_followers_as_the_first_did() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        futures = []
        for _ in range(2):
            batch = make_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
            futures.append(partition.leader.append(memoryview(batch), acks=-1, produce_version=12))
        assert partition.log.log_end_offset == 1
        fetched(partition, 1)
        for future in futures:
            assert isinstance(future, asyncio.Future)
            assert (await future).first_offset == 0

    with_broker(test)


def test_what_followers_do_not_have_when_it_closes_is_answered() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        future = append_later(partition, b"a")
        await partition.end_role()
        with pytest.raises(KafkaError) as caught:
            await future
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(test)


@pytest.mark.parametrize("config", [{"compression_type": "gzip"}, {"flush_messages": "1"}])
def test_closing_does_not_wait_for_followers_of_what_waits_its_turn(config: dict[str, str]) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker, **config), broker, (1, 2))
        first, second = append_later(partition, b"a"), append_later(partition, b"b")
        while partition.log.next_offset < 1:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(partition.end_role(), 60)
        for future in (first, second):
            with pytest.raises(KafkaError) as refused:
                await future
            assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(test)


def test_whoever_leads_no_more_appends_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        before = partition.leader
        await lead_two_replicas(partition, broker)
        records = memoryview(make_batch(b"a"))
        with pytest.raises(KafkaError, match="t-0 is gone"):
            before.append(records, acks=-1, produce_version=12)
        with pytest.raises(KafkaError, match="t-0 is gone"):
            before.append_own(make_batch(b"a"))
        with pytest.raises(KafkaError, match="t-0 is gone"):
            before.append_marker(
                producer_id=1,
                producer_epoch=0,
                is_commit=True,
                coordinator_epoch=0,
                transaction_version=2,
            )
        assert before.append_at_once(records, 1, 12) is None
        assert partition.log.log_end_offset == 0

    with_broker(test)


@pytest.mark.parametrize("config", [{"compression_type": "gzip"}, {"flush_messages": "1"}])
def test_what_waits_its_turn_does_not_wait_for_the_followers_of_those_before(
    config: dict[str, str],
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker, **config), broker, (1, 2))
        futures = [append_later(partition, b"x") for _ in range(5)]
        await asyncio.sleep(1)
        assert partition.log.log_end_offset == 5
        assert not any(future.done() for future in futures)
        fetched(partition, 5)
        assert [(await asyncio.wait_for(future, 60)).first_offset for future in futures] == [
            0,
            1,
            2,
            3,
            4,
        ]

    with_broker(test)


@pytest.mark.parametrize("is_marker", [True, False])
def test_replicas_are_counted_again_when_what_waited_gets_its_place(is_marker: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, compression_type="gzip", min_insync_replicas="2")
        await lead_two_replicas(partition, broker, isr=(1, 2))
        late = append_later(partition, b"x")
        if is_marker:
            late.cancel()
            ended = transactions.end(partition, 7, is_commit=False)
            late = asyncio.ensure_future(ended)
            await asyncio.sleep(0)
        partition.leader.in_sync.told({BrokerId(1)}, 2)
        with pytest.raises(KafkaError) as caught:
            await asyncio.wait_for(late, 60)
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log.log_end_offset == 0

    with_broker(test)


def test_a_produce_whose_client_is_gone_leaves_nothing_behind() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        for _ in range(3):
            append_later(partition, b"x").cancel()
        await asyncio.sleep(0)
        assert partition.leader._uncommitted.parked_count == 0
        fetched(partition, 3)
        assert partition.high_watermark == 3

    with_broker(test)


def test_a_set_that_becomes_too_small_ends_the_wait_of_produces() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, min_insync_replicas="2")
        await lead_two_replicas(partition, broker, isr=(1, 2))
        future = append_later(partition, b"a")
        partition.leader.isr_told({BrokerId(1)}, 2)
        with pytest.raises(KafkaError, match=r"t-0 has 1 in-sync.*asks for 2") as caught:
            await asyncio.wait_for(future, 60)
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert partition.high_watermark == 0
        partition.leader.isr_told({BrokerId(1), BrokerId(2)}, 3)
        fetched(partition, 1)
        assert partition.high_watermark == 1
        changes = broker.machine.broker.replicas.changes
        assert (changes.isr_shrinks, changes.isr_expands) == (1, 1)

    with_broker(test)


@pytest.mark.parametrize("how", ["answered", "told"])
def test_a_smaller_set_commits_what_only_its_members_have(how: str) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        leader = partition.leader
        future = append_later(partition, b"a")
        proposal = leader.in_sync.propose({BrokerId(1)})
        assert not future.done(), "the controller may still choose broker 2"
        if how == "told":
            leader.isr_told({BrokerId(1)}, 2)
        else:
            leader.isr_answered(proposal, {BrokerId(1)}, 2)
        assert (await asyncio.wait_for(future, 60)).first_offset == 0
        assert partition.high_watermark == 1

    with_broker(test)


def test_a_set_that_is_refused_counts_no_more() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker)
        leader = partition.leader
        proposal = leader.in_sync.propose({BrokerId(1), BrokerId(2)})
        future = append_later(partition, b"a")
        assert not future.done()
        leader.isr_refused(proposal)
        assert (await asyncio.wait_for(future, 60)).first_offset == 0

    with_broker(test)


def test_another_min_insync_replicas_counts_for_what_waits() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await lead_two_replicas(partition, broker, isr=(1, 2))
        waiting = append_later(partition, b"a")
        partition.leader.isr_told({BrokerId(1), BrokerId(2)}, 2)
        partition.leader.in_sync.committed = frozenset({BrokerId(1)})
        partition.log.set_config(TopicConfig(min_insync_replicas=2))
        partition.config_changed()
        with pytest.raises(KafkaError) as caught:
            await asyncio.wait_for(waiting, 60)
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert partition.high_watermark == 0
        partition.log.set_config(TopicConfig(min_insync_replicas=1))
        partition.config_changed()
        assert partition.high_watermark == 1

    with_broker(test)


def test_who_waits_for_a_write_may_be_gone_when_it_is_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A role that was being ended when the broker had to stop (found by simulation)."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        become_slow(partition)
        held = HeldWrites(monkeypatch)
        appended = append_later(partition, b"a")
        await asyncio.sleep(1)
        ending = asyncio.create_task(partition.leader.close())
        await asyncio.sleep(1)
        ending.cancel()
        await asyncio.sleep(1)
        held.release()
        await asyncio.wait([appended])
        assert not [record for record in caplog.records if record.exc_info]

    with_broker(test)
