from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.partition import Partition
from ottla.storage.pending_write import Appended
from tests.support import partition_transactions as transactions
from tests.support.led_partition import Watching, append, append_later, become_slow, new_partition
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker


def test_clients_of_another_epoch_are_turned_away() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        partition.leader_epoch = 3
        for current in (-1, 3):
            partition.check_leader_epoch(current)
        for current, code in (
            (2, ErrorCode.FENCED_LEADER_EPOCH),
            (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            with pytest.raises(KafkaError) as caught:
                partition.check_leader_epoch(current)
            assert caught.value.code is code

    with_broker(test)


def test_closing_tells_watchers_and_refuses_what_has_not_begun() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        watching = Watching()
        partition.watchers[watching] = None
        become_slow(partition)
        begun, given_up, waiting = [append_later(partition, b"x") for _ in range(3)]
        await asyncio.sleep(0)
        given_up.cancel()
        await partition.end_role()
        assert watching.closed == [partition]
        assert (await begun).first_offset == 0
        with pytest.raises(KafkaError) as caught:
            await waiting
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.log_end_offset == 1

    with_broker(test)


def test_an_open_transaction_holds_back_readers_of_committed_records() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        append(partition, b"before")
        await transactions.write(partition, 7, b"a", b"b")
        append(partition, b"after")
        assert (partition.last_stable_offset, partition.high_watermark) == (1, 4)
        assert partition.read(0, 1000, is_committed_only=True, at_least_one=True) is not None
        assert partition.read(1, 1000, is_committed_only=True, at_least_one=True) is None
        assert partition.read(1, 1000, is_committed_only=False, at_least_one=True) is not None
        appended = await transactions.end(partition, 7, is_commit=True)
        assert appended == Appended(4, 4, -1, False)
        assert (partition.last_stable_offset, partition.high_watermark) == (5, 5)

    with_broker(test)


def test_a_transaction_is_still_open_after_a_restart() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await transactions.write(partition, 7, b"a")
        await transactions.write(partition, 8, b"b")
        await transactions.end(partition, 7, is_commit=False)
        for how in (None, broker.machine.kill):
            await broker.restart(how)
            partition = broker.machine.broker.replicas.partition("t", 0)
            assert (partition.last_stable_offset, partition.high_watermark) == (1, 3)
            assert partition.leader.has_open_transaction(8, 0)
            assert not partition.leader.has_open_transaction(8, 1)
            assert not partition.leader.has_open_transaction(7, 0)

    with_broker(test)


class FailingWatcher:
    def records_added(self, partition: Partition, byte_count: int) -> None:
        raise AssertionError("a bug")

    def partition_closed(self, partition: Partition) -> None:
        raise AssertionError("a bug")


@pytest.mark.parametrize("is_slow", [False, True])
def test_one_reader_that_fails_keeps_no_news_from_the_others(
    is_slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        watching = Watching()
        partition.watchers = {FailingWatcher(): None, watching: None}
        if is_slow:
            become_slow(partition)
            appended = await append_later(partition, b"a")
        else:
            at_once = append(partition, b"a")
            assert isinstance(at_once, Appended)
            appended = at_once
        assert appended.first_offset == 0
        await partition.end_role()
        assert watching.byte_counts == [len(make_batch(b"a"))]
        assert watching.closed == [partition]

    with_broker(test)
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert errors == ["a reader of t-0 failed"] * 2
