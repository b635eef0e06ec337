from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import pytest

from ottla.coordinators.record import (
    CoordinatorRecord,
    EncodedRecord,
    RecordType,
    encode_record,
)
from ottla.coordinators.result import Deferred, Result
from ottla.coordinators.shard import Shard, ShardTimers, Transaction
from ottla.kernel.eager import Done, begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.kernel.slices import Steps, at_once
from ottla.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    iter_headers,
    parse_header,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.storage.errors import StorageFailure
from ottla.storage.log import Log
from ottla.storage.pending_write import PendingWrite
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from ottla.wire.schema import Message, int32, string
from tests.support.held_writes import HeldWrites
from tests.support.led_partition import fetched, lead_two_replicas
from tests.support.simulated_broker import SimulatedBroker, with_broker

TIMEOUT_MS = 5000


class CountKey(Message, api_key=1, versions="0"):
    name: str = string()


class CountValue(Message, api_key=1, versions="0"):
    count: int = int32()


class Counters:
    """Counts by name; what a coordinator's state looks like at its smallest."""

    RECORD_TYPES: ClassVar[Mapping[int, RecordType]] = {1: RecordType(CountKey, CountValue)}

    def __init__(self, timers: ShardTimers) -> None:
        self.timers = timers
        self.counts: dict[str, int] = {}
        self.events: list[str] = []
        self.pending: dict[int, list[tuple[int, CoordinatorRecord]]] = {}

    def add(self, name: str) -> Result[int]:
        count = self.counts.get(name, 0) + 1
        record = CoordinatorRecord(CountKey(name=name), CountValue(count=count))
        return Result(count, [record], on_failed=lambda error: self.events.append(error.code.name))

    def forget(self, name: str) -> Result[None]:
        return Result(None, [CoordinatorRecord(CountKey(name=name), None)])

    def add_later(self, name: str, delay_ms: int) -> Result[None]:
        self.timers.schedule(name, delay_ms, lambda: self.add(name))
        return Result(None)

    def replay(
        self, offset: int, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        if producer_id != NO_PRODUCER_ID:
            self.pending.setdefault(producer_id, []).append((offset, record))
            return
        assert isinstance(record.key, CountKey)
        if record.value is None:
            self.counts.pop(record.key.name, None)
        else:
            assert isinstance(record.value, CountValue)
            self.counts[record.key.name] = record.value.count

    def end_transaction(self, producer_id: int, is_commit: bool) -> Steps[None]:
        for offset, record in self.pending.pop(producer_id, []):
            if is_commit:
                self.replay(offset, record)
            yield

    def replay_plain(self, key: bytes, value: bytes) -> bool:
        return False

    def loaded(self) -> None:
        self.events.append("loaded")

    def unloaded(self) -> None:
        self.events.append("unloaded")


async def leader_of(broker: SimulatedBroker) -> Leader:
    replicas = broker.machine.broker.replicas
    if ("state", 0) not in replicas.topic_partitions():
        await broker.create_topic("state", cleanup_policy="compact")
    return replicas.partition("state", 0).leader


async def open_shard(broker: SimulatedBroker) -> Shard[Counters]:
    shard = Shard(await leader_of(broker), Counters, VirtualClock(broker.loop), TIMEOUT_MS)
    await shard.load()
    return shard


def test_records_are_replayed_and_loaded_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        assert [await shard.write(lambda s: s.add("a")) for _ in range(3)] == [1, 2, 3]
        await shard.write(lambda s: s.add("b"))
        await shard.write(lambda s: s.forget("b"))
        again = await open_shard(broker)
        assert await again.read(lambda s: s.counts) == {"a": 3}
        assert await again.read(lambda s: s.events) == ["loaded"]

    with_broker(test)


def test_what_was_loaded_is_synced_where_every_write_is() -> None:
    """A kill came before the fsync: what the state says was told to nobody, but will be."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: s.add("a"))
        log = shard.leader.log
        log.set_config(replace(log.config, flush_messages=1))
        assert log.is_flush_due
        await open_shard(broker)
        assert not log.is_flush_due

    with_broker(test)


def test_a_shard_that_loads_or_is_closed_says_so() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = Shard(await leader_of(broker), Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        with pytest.raises(KafkaError) as raised:
            await shard.read(lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await shard.load()
        shard.close()
        with pytest.raises(KafkaError) as raised:
            await shard.write(lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.NOT_COORDINATOR

    with_broker(test)


def test_a_deferred_response_is_waited_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        deferred: Deferred[str] = Deferred()

        def wait(state: Counters) -> Result[str]:
            return Result(deferred)

        waiting = asyncio.create_task(shard.write(wait))
        await shard.write(lambda s: s.add("others go on"))
        assert not waiting.done()
        deferred.resolve("at last")
        assert await waiting == "at last"

    with_broker(test)


def test_a_write_that_fails_is_not_replayed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        shard.leader.in_sync.committed = frozenset()
        with pytest.raises(KafkaError) as raised:
            await shard.write(lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await shard.read(lambda s: s.counts) == {}
        assert await shard.read(lambda s: s.events) == ["loaded", "COORDINATOR_NOT_AVAILABLE"]

    with_broker(test)


def test_what_may_begin_only_when_it_is_committed_begins_after_the_replay() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        seen: list[dict[str, int]] = []

        def add(state: Counters) -> Result[int]:
            result = state.add("a")
            return Result(
                result.response,
                result.records,
                on_committed=lambda: seen.append(dict(state.counts)),
            )

        isr = shard.leader.in_sync.committed
        shard.leader.in_sync.committed = frozenset()
        with pytest.raises(KafkaError):
            await shard.write(add)
        assert seen == []
        shard.leader.in_sync.committed = isr
        await shard.write(add)
        assert seen == [{"a": 1}]

    with_broker(test)


def test_with_nothing_to_write_it_begins_at_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        seen: list[str] = []
        await shard.write(lambda _: Result(None, on_committed=lambda: seen.append("begun")))
        assert seen == ["begun"]

    with_broker(test)


PRODUCER = ProducerIdAndEpoch(1000, 0)


async def write_within(shard: Shard[Counters], name: str) -> int:
    """In a transaction of the producer. It is there: whoever is to be asked has said so."""
    guard = shard.leader.begin_verification(*PRODUCER, -1, supports_epoch_bump=True)
    return await shard.write(lambda s: s.add(name), Transaction(PRODUCER, guard))


def end_transaction(shard: Shard[Counters], *, is_commit: bool) -> None:
    """Only its marker is written: nobody has told the shard."""
    shard.leader.append_marker(
        producer_id=PRODUCER.producer_id,
        producer_epoch=PRODUCER.producer_epoch,
        is_commit=is_commit,
        coordinator_epoch=0,
        transaction_version=1,
    )


def test_records_of_a_transaction_wait_for_its_end() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        await write_within(shard, "b")
        assert await shard.read(lambda s: s.counts) == {}
        (first, second) = (await shard.read(lambda s: s.pending))[PRODUCER.producer_id]
        assert (first[0], second[0]) == (0, 1), "the offsets of their records"
        end_transaction(shard, is_commit=True)
        shard.transaction_ended(PRODUCER.producer_id, is_commit=True)
        assert await shard.read(lambda s: s.counts) == {"a": 1, "b": 1}

    with_broker(test)


def test_they_are_in_one_transactional_batch_without_a_sequence() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        guard = shard.leader.begin_verification(*PRODUCER, -1, supports_epoch_bump=True)
        await shard.write(
            lambda s: Result(None, [*s.add("a").records, *s.add("b").records]),
            Transaction(PRODUCER, guard),
        )
        (header,) = headers(shard.leader)
        assert (header.record_count, header.is_transactional, header.is_control) == (2, True, False)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1000, 0, -1)

    with_broker(test)


@pytest.mark.parametrize("is_commit", [True, False])
def test_loading_ends_transactions_by_their_markers(is_commit: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        await shard.write(lambda s: s.add("plain"))
        waiting = await open_shard(broker)
        assert await waiting.read(lambda s: (s.counts, set(s.pending))) == ({"plain": 1}, {1000})

        end_transaction(shard, is_commit=is_commit)
        again = await open_shard(broker)
        counts = {"a": 1, "plain": 1} if is_commit else {"plain": 1}
        assert await again.read(lambda s: (s.counts, s.pending)) == (counts, {})

    with_broker(test)


def test_a_transaction_is_loaded_whose_marker_is_in_a_later_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.coordinators.log_batches._READ_BYTES", 1)  # One batch at a time.
    monkeypatch.setattr("ottla.coordinators.shard.LOAD_SLICE_S", 0)

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        for name in ("a", "b"):
            await write_within(shard, name)
            await shard.write(lambda s: s.add("plain"))
        end_transaction(shard, is_commit=True)
        await shard.write(lambda s: s.add("plain"))
        await write_within(shard, "c")
        again = await open_shard(broker)
        assert await again.read(lambda s: s.counts) == {"a": 1, "b": 1, "plain": 3}
        assert [offset for offset, _ in (await again.read(lambda s: s.pending))[1000]] == [6]

    with_broker(test)


def test_loading_sees_a_marker_that_is_written_meanwhile() -> None:
    """Transactions end while their offsets are being loaded: the shard is told nothing then."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        again = Shard(await leader_of(broker), Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        loading = asyncio.create_task(again.load())
        await asyncio.sleep(0)
        end_transaction(again, is_commit=True)
        again.transaction_ended(PRODUCER.producer_id, is_commit=True)
        await loading
        assert await again.read(lambda s: s.counts) == {"a": 1}

    with_broker(test)


def test_a_shard_that_is_closed_while_a_marker_is_written_just_ends_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        become_slow(shard)
        held = HeldWrites(monkeypatch)
        end_transaction(shard, is_commit=True)
        again = Shard(shard.leader, Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        loading = asyncio.create_task(again.load())
        await asyncio.sleep(1)
        assert not loading.done()
        again.close()
        await loading
        assert not again.is_serving
        held.release()

    with_broker(test)


def test_a_disk_that_fails_while_loading_waits_for_a_marker_ends_the_loading() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        become_slow(shard)
        broker.machine.disk.fail(Fault("write_at", "/data/state-0"))
        end_transaction(shard, is_commit=True)
        again = Shard(shard.leader, Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        with pytest.raises(StorageFailure):
            await again.load()

    with_broker(test)


def test_a_state_that_cannot_begin_serves_nobody() -> None:
    class Stumbling(Counters):
        def loaded(self) -> None:
            raise ValueError("a bug of ours")

    async def test(broker: SimulatedBroker) -> None:
        shard = Shard(await leader_of(broker), Stumbling, VirtualClock(broker.loop), TIMEOUT_MS)
        with pytest.raises(ValueError, match="a bug of ours"):
            shard.serve()
        assert not shard.is_serving

    with_broker(test)


def test_loading_sees_a_marker_that_is_written_while_the_log_is_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        again = Shard(await leader_of(broker), Counters, VirtualClock(broker.loop), TIMEOUT_MS)

        async def flush(_: Log) -> None:
            end_transaction(again, is_commit=True)
            again.transaction_ended(PRODUCER.producer_id, is_commit=True)

        with monkeypatch.context() as patched:
            patched.setattr(Log, "is_flush_due", True)
            patched.setattr(Log, "flush", flush)
            await again.load()
        assert await again.read(lambda s: s.counts) == {"a": 1}

    with_broker(test)


def test_what_a_marker_ended_meanwhile_is_not_written() -> None:
    """It would be the beginning of a transaction that nobody ends."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        end_transaction(shard, is_commit=False)
        with pytest.raises(KafkaError) as raised:
            await shard.write(lambda s: s.add("b"), Transaction(PRODUCER, None))
        assert raised.value.code is ErrorCode.INVALID_TXN_STATE

        guard = shard.leader.begin_verification(*PRODUCER, -1, supports_epoch_bump=False)
        end_transaction(shard, is_commit=False)
        with pytest.raises(KafkaError) as raised:
            await shard.write(lambda s: s.add("b"), Transaction(PRODUCER, guard))
        assert raised.value.code is ErrorCode.INVALID_TXN_STATE
        assert len(headers(shard.leader)) == 3, "one batch, and the two markers"

    with_broker(test)


def test_what_is_on_its_way_when_its_transaction_ends_stands_before_the_marker() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        writing = asyncio.create_task(write_within(shard, "a"))
        await asyncio.sleep(0)
        end_transaction(shard, is_commit=True)
        shard.transaction_ended(PRODUCER.producer_id, is_commit=True)
        later = asyncio.create_task(shard.read(lambda s: (dict(s.counts), dict(s.pending))))
        await asyncio.sleep(0)
        assert not later.done(), "neither is committed"
        assert await later == ({"a": 1}, {})
        await writing
        assert await (await open_shard(broker)).read(lambda s: s.counts) == {"a": 1}

    with_broker(test)


def test_a_marker_that_cannot_be_read_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: s.add("a"))
        bad = build_batch(
            [Record(0, 0, b"?", None)], producer_id=1, is_transactional=True, is_control=True
        )
        at_once(shard._replay_marker(parse_header(bad), memoryview(bad)))
        assert "cannot be read and is passed over" in caplog.text

    with_broker(test)


def test_a_batch_that_cannot_be_read_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: s.add("a"))
        bad = build_batch([Record(0, 0, b"key", b"value")])
        bad[HEADER_BYTES + 4] = 0x7F  # The length of the key.
        shard.leader.append_own(bad)
        await shard.write(lambda s: s.add("a"))
        assert await (await open_shard(broker)).read(lambda s: s.counts) == {"a": 2}
        assert "the record at 1 cannot be read and is passed over" in caplog.text

    with_broker(test)


def headers(leader: Leader) -> list[BatchHeader]:
    log = leader.log
    found = log.read(0, 1 << 20, max_offset=log.log_end_offset, at_least_one=True)
    assert found is not None
    return [header for _, header in iter_headers(found.file.read_at(found.offset, found.length))]


NAMES = [f"{number}-{'x' * 30_000}" for number in range(60)]
"""More than fits into a batch."""


def add_all(state: Counters, *, is_atomic: bool) -> Result[None]:
    records = [record for name in NAMES for record in state.add(name).records]
    return Result(None, records, is_atomic=is_atomic)


def test_what_need_not_be_written_as_a_whole_goes_into_several_batches() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: add_all(s, is_atomic=False))
        assert set(await (await open_shard(broker)).read(lambda s: s.counts)) == set(NAMES)

    with_broker(test)


def test_an_operation_that_does_not_fit_into_a_batch_is_refused_as_a_whole() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        with pytest.raises(KafkaError) as raised:
            await shard.write(lambda s: add_all(s, is_atomic=True))
        assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert "max.message.bytes" in str(raised.value)
        assert shard.leader.log.log_end_offset == 0
        assert await shard.read(lambda s: s.counts) == {}

    with_broker(test)


def become_slow(shard: Shard[Counters]) -> None:
    """What is written from now on is committed later."""
    shard.leader.log.folder.wrote(1.0)


def test_writes_keep_their_order_while_the_disk_is_slow() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        writes = [asyncio.create_task(shard.write(lambda s: s.add("a"))) for _ in range(5)]
        assert await asyncio.gather(*writes) == [1, 2, 3, 4, 5]

    with_broker(test)


def test_nothing_leaves_before_what_it_rests_on_is_committed() -> None:
    """An operation sees at once what those before it have written, and its answer waits for that,
    also where it has only looked, or is refused."""

    def refuse(state: Counters) -> Result[int]:
        raise KafkaError(ErrorCode.PRODUCER_FENCED, str(state.counts["a"]))

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        begun: list[str] = []
        asked = [
            begin(shard.write(lambda s: s.add("a"))),
            begin(shard.write(lambda s: s.add("a"))),
            begin(shard.write(lambda s: Result(s.counts["a"]))),
            begin(shard.write(lambda s: Result(0, on_committed=lambda: begun.append("begun")))),
            begin(shard.read(lambda s: s.counts["a"])),
            begin(shard.write(refuse)),
        ]
        tasks = [task for task in asked if isinstance(task, asyncio.Task)]
        assert len(tasks) == len(asked)
        assert begun == []
        assert shard.leader.partition.high_watermark == 0
        *answers, refused = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers == [1, 2, 2, 0, 2]
        assert isinstance(refused, KafkaError)
        assert refused.message == "2"
        assert begun == ["begun"]
        assert shard.leader.partition.high_watermark == 2

    with_broker(test)


def test_losing_the_shard_answers_all_that_is_parked() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        tasks = [asyncio.create_task(shard.write(lambda s: s.add("a"))) for _ in range(3)]
        tasks.append(asyncio.create_task(shard.read(lambda s: s.counts["a"])))
        begun: list[str] = []
        tasks.append(
            asyncio.create_task(
                shard.write(lambda s: Result(0, on_committed=lambda: begun.append("begun")))
            )
        )
        await asyncio.sleep(0)
        shard.close()
        await asyncio.sleep(1)
        assert begun == [], "the next leader begins it"
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.NOT_COORDINATOR

    with_broker(test)


def test_an_answer_that_waits_for_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has written stands: its client asks again."""

    def refuse(state: Counters) -> Result[int]:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        held = HeldWrites(monkeypatch)
        began_s = broker.loop.time()
        asked = [
            shard.write(lambda s: s.add("a")),
            shard.write(lambda s: s.add("a")),
            shard.write(refuse),
            shard.read(lambda s: s.counts["a"]),
        ]
        for error in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert error.message == "state-0 took longer than 5000 ms to commit"
        assert broker.loop.time() - began_s == pytest.approx(TIMEOUT_MS / 1000)
        # Two wait to lose the shard should the disk fail; of those who gave up nothing is left.
        assert shard.leader._uncommitted.parked_count == 2
        patient = asyncio.create_task(shard.write(lambda s: s.add("a"), is_patient=True))
        longer = asyncio.create_task(shard.write(lambda s: Result(7, timeout_ms=60_000)))
        await asyncio.sleep(50)
        held.release()
        assert await patient == 3
        assert await longer == 7
        assert await shard.read(lambda s: s.counts) == {"a": 3}

    with_broker(test)


def test_a_timer_waits_for_its_records_as_long_as_that_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given up and run again it would do its work twice."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: s.add_later("a", 100))
        become_slow(shard)
        held = HeldWrites(monkeypatch)
        await asyncio.sleep(60)
        held.release()
        await asyncio.sleep(60)
        assert await shard.read(lambda s: s.counts) == {"a": 1}

    with_broker(test)


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_disk_that_fails_takes_the_shard_with_it(is_slow: bool) -> None:
    """What was replayed may never be in the log: nobody may be told of it."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: s.add("a"))
        if is_slow:
            become_slow(shard)
        begun: list[str] = []
        broker.machine.disk.fail(Fault("write_at", count=1))
        writes = [
            asyncio.create_task(shard.write(lambda s: s.add("a"))),
            asyncio.create_task(
                shard.write(
                    lambda s: Result(0, s.add("b").records, on_committed=lambda: begun.append("b"))
                )
            ),
            asyncio.create_task(shard.read(lambda s: s.counts)),
        ]
        for error in await asyncio.gather(*writes, return_exceptions=True):
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.NOT_COORDINATOR
        assert shard.is_closed
        assert begun == []
        broker.machine.kill()
        await broker.machine.start()
        assert await (await open_shard(broker)).read(lambda s: s.counts) == {"a": 1}

    with_broker(test)


def test_a_marker_that_is_lost_with_the_disk_takes_the_shard_with_it() -> None:
    """Its transaction has ended here, and has not after a restart."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        become_slow(shard)
        broker.machine.disk.fail(Fault("write_at", count=1))
        marker = shard.leader.append_marker(
            producer_id=PRODUCER.producer_id,
            producer_epoch=PRODUCER.producer_epoch,
            is_commit=True,
            coordinator_epoch=0,
            transaction_version=1,
            on_placed=lambda: shard.transaction_ended(PRODUCER.producer_id, is_commit=True),
        )
        assert isinstance(marker, asyncio.Future)
        await asyncio.wait([marker])
        assert isinstance(marker.exception(), KafkaError)
        with pytest.raises(KafkaError) as raised:
            await shard.read(lambda s: s.counts)
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert shard.is_closed
        broker.machine.kill()
        await broker.machine.start()
        assert await (await open_shard(broker)).read(lambda s: s.counts) == {}

    with_broker(test)


def test_who_waits_for_another_hears_when_its_records_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A follower's SyncGroup is resolved by that of the leader, whose assignment gets its place
    in the moment in which the disk fails."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        waiting: Deferred[str] = Deferred()

        def wait(_: Counters) -> Result[str]:
            return Result(waiting)

        follower = asyncio.create_task(shard.write(wait))
        await asyncio.sleep(0)

        def assign(state: Counters) -> Result[str]:
            records = state.add("assignment").records
            return Result("leader", records, on_replayed=lambda: waiting.resolve("assigned"))

        leaders: list[object] = []

        def fail(_: PendingWrite) -> float:
            broker.loop.call_soon(lambda: leaders.append(begin(shard.write(assign))))
            raise OSError("the disk is gone")

        with monkeypatch.context() as patched:
            patched.setattr(PendingWrite, "write", fail)
            first = asyncio.create_task(shard.write(lambda s: s.add("a")))
            await asyncio.wait([first, follower], timeout=60)
        (leader,) = leaders
        assert isinstance(leader, asyncio.Task)
        for error in await asyncio.gather(first, follower, leader, return_exceptions=True):
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.NOT_COORDINATOR
        broker.machine.kill()
        await broker.machine.start()
        assert await (await open_shard(broker)).read(lambda s: s.counts) == {}

    with_broker(test)


def test_a_batch_that_is_lost_takes_the_shard_with_it_though_the_next_one_was_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        log = shard.leader.log
        log.set_config(replace(log.config, max_message_bytes=200))
        become_slow(shard)
        broker.machine.disk.fail(Fault("write_at", count=1))
        with pytest.raises(KafkaError):
            await shard.write(
                lambda s: Result(
                    None,
                    [*s.add("a").records, *s.add("b" * 500).records],
                    is_atomic=False,
                )
            )
        await asyncio.sleep(1)
        assert shard.is_closed

    with_broker(test)


def test_what_is_written_is_replayed_though_its_client_has_gone() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        write = asyncio.create_task(shard.write(lambda s: s.add("a")))
        await asyncio.sleep(0)
        write.cancel()
        assert await shard.write(lambda s: s.add("a")) == 2
        assert await (await open_shard(broker)).read(lambda s: s.counts) == {"a": 2}

    with_broker(test)


def test_who_has_gone_holds_up_nobody() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        become_slow(shard)
        writes = [begin(shard.write(lambda s: s.add("a"))) for _ in range(4)]
        tasks = [write for write in writes if isinstance(write, asyncio.Task)]
        tasks[1].cancel()
        await asyncio.sleep(0)
        tasks[2].cancel()
        assert await tasks[0] == 1
        assert await asyncio.wait_for(tasks[3], 60) == 4

    with_broker(test)


def test_what_begins_when_it_is_committed_may_write_at_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        begun: list[object] = []

        def add(state: Counters) -> Result[int]:
            result = state.add("a")
            return Result(
                result.response,
                result.records,
                on_committed=lambda: begun.append(begin(shard.write(lambda s: s.add("b")))),
            )

        await shard.write(add)
        assert isinstance(begun[0], Done)
        assert await shard.read(lambda s: s.counts) == {"a": 1, "b": 1}

    with_broker(test)


def test_what_an_operation_has_encoded_itself_is_replayed_only_when_loaded() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        record = CoordinatorRecord(CountKey(name="a"), CountValue(count=5))
        key, value = encode_record(record)
        assert value is not None
        await shard.write(lambda _: Result(None, [EncodedRecord(key, value)]))
        assert await shard.read(lambda s: s.counts) == {}
        assert await (await open_shard(broker)).read(lambda s: s.counts) == {"a": 5}

    with_broker(test)


def test_timers_ring_once_unless_cancelled_or_set_anew() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: s.add_later("rings", 1000))
        await shard.write(lambda s: s.add_later("cancelled", 1000))
        await shard.write(lambda s: s.add_later("anew", 1000))
        await asyncio.sleep(0.5)
        await shard.read(lambda s: s.timers.cancel("cancelled"))
        await shard.write(lambda s: s.add_later("anew", 1000))
        await asyncio.sleep(0.6)
        assert await shard.read(lambda s: s.counts) == {"rings": 1}
        await asyncio.sleep(2)
        assert await shard.read(lambda s: s.counts) == {"rings": 1, "anew": 1}

    with_broker(test)


def test_a_timer_whose_records_cannot_be_written_is_tried_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        isr = shard.leader.in_sync.committed
        shard.leader.in_sync.committed = frozenset()
        await shard.write(lambda s: s.add_later("a", 100))
        await asyncio.sleep(1)
        assert await shard.read(lambda s: s.counts) == {}
        shard.leader.in_sync.committed = isr
        await asyncio.sleep(1)
        assert await shard.read(lambda s: s.counts) == {"a": 1}

    with_broker(test)


def test_closing_ends_timers_and_waiting_writes() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await shard.write(lambda s: s.add_later("a", 100))
        state = await shard.read(lambda s: s)
        shard.close()
        await asyncio.sleep(1)
        assert state.counts == {}
        assert state.events == ["loaded", "unloaded"]

    with_broker(test)


# -- operations that take long ----------------------------------------------------------------

MANY = 5000


def add_many(state: Counters, prefix: str = "n") -> Steps[Result[int]]:
    """As many as there are of this prefix, and as many more."""
    records: list[CoordinatorRecord] = []
    had = sum(name.startswith(prefix) for name in state.counts)
    for number in range(MANY):
        key = CountKey(name=f"{prefix}{had + number}")
        records.append(CoordinatorRecord(key, CountValue(count=1)))
        yield
    return Result(had, records)


def test_nobody_sees_half_of_a_long_operation() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        running = [asyncio.create_task(shard.write(add_many))]
        seen: list[int] = []
        while not running[0].done():
            running.append(asyncio.create_task(shard.write(lambda s: s.add("small"))))
            reading = asyncio.create_task(shard.read(lambda s: len(s.counts)))
            shard.tell(lambda s: seen.append(len(s.counts)))
            await asyncio.sleep(0)
            if reading.done():
                seen.append(reading.result())
            running.append(reading)
        await asyncio.gather(*running)
        assert len(running) > 6, "it was done in slices"
        assert set(seen) <= {0, MANY, MANY + 1}
        counts = [header.record_count for header in headers(shard.leader)]
        assert counts[:2] == [MANY, 1]
        assert set(counts[1:]) == {1}
        again = await open_shard(broker)
        assert await again.read(lambda s: s.counts) == await shard.read(lambda s: s.counts)

    with_broker(test)


def test_long_operations_follow_one_another() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        writes = [asyncio.create_task(shard.write(add_many)) for _ in range(3)]
        assert await asyncio.gather(*writes) == [0, MANY, 2 * MANY]

    with_broker(test)


def test_a_long_operation_whose_client_has_gone_is_whole() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        gone = asyncio.create_task(shard.write(add_many))
        await asyncio.sleep(0)
        gone.cancel()
        assert await shard.read(lambda s: len(s.counts)) == MANY

    with_broker(test)


@pytest.mark.parametrize("is_replayed", [False, True])
def test_a_shard_that_is_lost_during_a_long_operation_says_so(is_replayed: bool) -> None:
    """While it is planned, or replayed. What is in the log is there as a whole."""

    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        running = [
            asyncio.create_task(shard.write(add_many)),
            asyncio.create_task(shard.write(lambda s: s.add("a"))),
            asyncio.create_task(shard.read(lambda s: len(s.counts))),
        ]
        await asyncio.sleep(0)
        while is_replayed and not shard._state.counts:
            await asyncio.sleep(0)
        assert not any(task.done() for task in running)
        shard.close()
        for answer in await asyncio.gather(*running, return_exceptions=True):
            assert isinstance(answer, KafkaError)
            assert answer.code is ErrorCode.NOT_COORDINATOR
        again = await open_shard(broker)
        assert await again.read(lambda s: len(s.counts)) == (MANY if is_replayed else 0)

    with_broker(test)


def test_a_marker_waits_for_the_end_of_a_long_operation() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        guard = shard.leader.begin_verification(*PRODUCER, -1, supports_epoch_bump=True)
        writing = asyncio.create_task(shard.write(add_many, Transaction(PRODUCER, guard)))
        while not shard.leader.has_open_transaction(*PRODUCER):
            await asyncio.sleep(0)
        assert not writing.done()
        end_transaction(shard, is_commit=True)
        shard.transaction_ended(PRODUCER.producer_id, is_commit=True)
        await writing
        assert await shard.read(lambda s: len(s.counts)) == MANY

    with_broker(test)


def test_an_operation_whose_transaction_ends_while_it_is_planned_is_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        await write_within(shard, "a")
        writing = asyncio.create_task(shard.write(add_many, Transaction(PRODUCER, None)))
        await asyncio.sleep(0)
        end_transaction(shard, is_commit=True)
        shard.transaction_ended(PRODUCER.producer_id, is_commit=True)
        with pytest.raises(KafkaError) as raised:
            await writing
        assert raised.value.code is ErrorCode.INVALID_TXN_STATE
        assert await shard.read(lambda s: (s.counts, s.pending)) == ({"a": 1}, {})

    with_broker(test)


def test_of_an_operation_that_is_too_large_no_more_is_encoded_than_shows_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        shard = await open_shard(broker)
        log = shard.leader.log
        log.set_config(replace(log.config, max_message_bytes=200))
        encoded: list[EncodedRecord] = []

        def records() -> Iterator[EncodedRecord]:
            for number in range(MANY):
                encoded.append(EncodedRecord(b"k" * 10, str(number).encode()))
                yield encoded[-1]

        class Records(list[EncodedRecord]):
            __iter__ = staticmethod(records)

        with pytest.raises(KafkaError) as raised:
            await shard.write(lambda _: Result(None, Records([EncodedRecord(b"", b"")])))
        assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert len(encoded) < 30

    with_broker(test)


async def leave_uncommitted(broker: SimulatedBroker, name: str) -> Partition:
    """The leader of epoch 1 has a record that its follower does not have."""
    partition = (await leader_of(broker)).partition
    await lead_two_replicas(partition, broker, isr=(1, 2), leader_epoch=1)
    shard = Shard(partition.leader, Counters, VirtualClock(broker.loop), TIMEOUT_MS)
    shard.serve()
    writing = asyncio.ensure_future(shard.write(lambda s: s.add(name)))
    await asyncio.sleep(0.1)
    assert not writing.done()
    await partition.end_role()
    with pytest.raises(KafkaError) as raised:
        await writing
    assert raised.value.code is ErrorCode.NOT_COORDINATOR
    return partition


def test_a_new_leader_serves_when_what_it_found_is_committed() -> None:
    """It may have the last records of its predecessor alone. Told to a client, and then lost with
    this broker, they would have been taken back."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await leave_uncommitted(broker, "a")
        await lead_two_replicas(partition, broker, isr=(1, 2), leader_epoch=2)
        shard = Shard(partition.leader, Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        loading = asyncio.ensure_future(shard.load())
        await asyncio.sleep(60)
        with pytest.raises(KafkaError) as raised:
            await shard.read(lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        fetched(partition, 0)
        await asyncio.sleep(60)
        assert not loading.done()
        fetched(partition, 1)
        await loading
        assert await shard.read(lambda s: s.counts) == {"a": 1}

    with_broker(test)


def test_a_marker_that_comes_while_a_new_leader_waits_is_seen_and_not_waited_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await leave_uncommitted(broker, "a")
        await lead_two_replicas(partition, broker, isr=(1, 2), leader_epoch=2)
        shard = Shard(partition.leader, Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        turn = asyncio.Lock()
        loading = asyncio.ensure_future(shard.load(turn))
        await asyncio.sleep(1)
        assert not turn.locked(), "other shards are loaded meanwhile"
        partition.leader.append_own(
            build_batch(
                [Record(0, 0, *encode_record(CoordinatorRecord(CountKey(name="b"), CountValue())))],
                producer_id=PRODUCER.producer_id,
                producer_epoch=PRODUCER.producer_epoch,
                is_transactional=True,
            ),
            partition.leader.begin_verification(*PRODUCER, -1, supports_epoch_bump=True),
        )
        end_transaction(shard, is_commit=True)
        shard.transaction_ended(PRODUCER.producer_id, is_commit=True)
        fetched(partition, 1)
        await loading
        reading = asyncio.ensure_future(shard.read(lambda s: s.counts))
        await asyncio.sleep(1)
        assert not reading.done(), "the marker itself is not committed yet"
        fetched(partition, 3)
        assert await reading == {"a": 1, "b": 0}

    with_broker(test)


@pytest.mark.parametrize("is_told", [True, False])
def test_who_leads_no_more_neither_serves_nor_goes_on_loading(
    is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also in the moment between the end of its leadership and the word of it."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await leave_uncommitted(broker, "a")
        await lead_two_replicas(partition, broker, isr=(1, 2), leader_epoch=2)
        shard = Shard(partition.leader, Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        loading = asyncio.ensure_future(shard.load())
        await asyncio.sleep(1)
        if is_told:
            shard.close()
        else:
            await partition.end_role()
        await loading
        with pytest.raises(KafkaError) as raised:
            await shard.read(lambda s: s.counts)
        assert raised.value.code is ErrorCode.NOT_COORDINATOR

        served = await lead_two_replicas(partition, broker, isr=(1, 2), leader_epoch=3)
        fetched(served, 1)
        again = Shard(served.leader, Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        await again.load()
        assert await again.read(lambda s: s.counts) == {"a": 1}
        await served.end_role()
        with pytest.raises(KafkaError) as raised:
            await again.read(lambda s: s.counts)
        assert raised.value.code is ErrorCode.NOT_COORDINATOR

    with_broker(test)
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
