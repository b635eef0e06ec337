from __future__ import annotations

import asyncio

import pytest

from ottla.kernel import slices
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.partition import Partition
from ottla.storage import replicated_batches
from tests.support.led_partition import Watching
from tests.support.replica_pair import make_pair
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker


def append(partition: Partition, *values: bytes) -> None:
    for value in values:
        partition.leader.append(memoryview(make_batch(value)), acks=1, produce_version=12)


def test_a_follower_has_its_leaders_records_and_high_watermark() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.leads, b"a", b"b")
        await pair.follow(1)
        watching = Watching()
        pair.follows.watchers[watching] = None
        assert pair.follower.position == (0, 0, 0, 1)
        await pair.fetch()
        assert broker.machine.broker.replicas.changes.truncations == 0
        assert pair.follower.position == (2, 0, 0, 1)
        assert pair.follows.high_watermark == 2
        assert watching.byte_counts == [2 * len(make_batch(b"a"))]
        leader_content, content = pair.contents()
        assert leader_content == content

    with_broker(test)


def test_what_the_leader_has_not_committed_is_not_shown() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.leads, b"a", b"b")
        pair.leads.high_watermark = 1
        await pair.follow(1)
        await pair.fetch()
        assert (pair.follows.log.log_end_offset, pair.follows.high_watermark) == (2, 1)
        pair.leads.high_watermark = 0
        await pair.fetch()
        assert pair.follows.high_watermark == 1, "a new leader may begin with an older one"

    with_broker(test)


def test_nobody_appends_or_reads_where_another_broker_leads() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        watching = Watching()
        pair.follows.watchers[watching] = None
        leader = pair.follows.leader
        await pair.follow(1)
        assert watching.closed == [pair.follows]
        for ask in (
            lambda: pair.follows.leader,
            lambda: broker.machine.broker.replicas.partition("follows", 0),
        ):
            with pytest.raises(KafkaError) as caught:
                ask()
            assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await broker.produce("follows", b"v")).error_code == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert leader.leader_epoch == 0

    with_broker(test)


def test_records_of_a_leader_that_nobody_followed_are_cut_off() -> None:
    """KIP-101: the high watermark of this follower does not tell which those are."""

    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.leads, b"same")
        append(pair.follows, b"same", b"alone", b"alone too")
        await pair.lead(pair.leads, 1)
        append(pair.leads, b"new")
        await pair.follow(1)
        await pair.fetch()
        leader_content, content = pair.contents()
        assert leader_content == content
        assert pair.follows.log.leader_epochs.entries == [(0, 0), (1, 1)]
        assert pair.follows.high_watermark == 2
        assert broker.machine.broker.replicas.changes.truncations == 1

    with_broker(test)


def test_logs_with_several_epochs_of_their_own_come_together() -> None:
    """KIP-279: each led for a while, unseen by the other."""

    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        for partition in (pair.leads, pair.follows):
            append(partition, b"same")
        await pair.lead(pair.follows, 1)
        append(pair.follows, b"1")
        await pair.lead(pair.leads, 2)
        append(pair.leads, b"2", b"2")
        await pair.lead(pair.follows, 3)
        append(pair.follows, b"3", b"3", b"3")
        await pair.lead(pair.leads, 4)
        append(pair.leads, b"4")
        await pair.follow(4)
        await pair.fetch()
        leader_content, content = pair.contents()
        assert leader_content == content
        assert pair.follows.log.leader_epochs.entries == [(0, 0), (2, 1), (4, 3)]

    with_broker(test)


def test_what_was_asked_for_in_an_earlier_epoch_cuts_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.follows, b"a", b"b")
        await pair.follow(1)
        earlier = pair.follower
        await pair.follow(2)
        await earlier.truncate(0, 0)
        assert pair.follows.log.log_end_offset == 2

    with_broker(test)


def test_a_cut_is_remembered_before_anything_is_appended() -> None:
    """Else recovery would take what comes then for what was synced before."""

    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.follows, b"a", b"b", b"c")
        await pair.follows.log.flush()
        await pair.follow(1)
        await pair.follower.truncate(0, 1)
        assert pair.follows.log.recovery_point == 1
        checkpoint = broker.machine.disk.read_file("/data/recovery-point-offset-checkpoint")
        assert b"follows 0 1\n" in checkpoint

    with_broker(test)


def test_a_follower_that_is_too_far_behind_starts_over() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.follows, b"old")
        await pair.follow(1)
        await pair.follower.start_over(50, 60)
        assert pair.follower.position == (50, -1, 50, 1)
        assert pair.follows.high_watermark == 50

    with_broker(test)


def test_a_follower_of_a_leader_that_was_elected_uncleanly_loses_the_rest() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.follows, b"a", b"b", b"c")
        await pair.follow(1)
        await pair.follower.start_over(0, 1)
        assert (pair.follower.position.offset, pair.follows.high_watermark) == (1, 1)

    with_broker(test)


def test_the_log_begins_where_the_leaders_does_and_never_beyond_what_is_committed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.leads, b"a", b"b", b"c")
        await pair.follow(1)
        await pair.fetch()
        pair.leads.delete_records(2)
        await pair.fetch()
        assert pair.follows.log.log_start_offset == 2

    with_broker(test)


def test_a_fetch_tells_of_records_that_are_synced_where_that_is_asked_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker, flush_messages="1")
        append(pair.leads, b"a")
        await pair.follow(1)
        await pair.fetch()
        assert pair.follows.log.recovery_point == 1

    with_broker(test)


def test_a_role_that_begins_while_many_batches_are_appended_gets_no_more_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.leads, b"a", b"b", b"c")
        await pair.follow(1)
        monkeypatch.setattr(replicated_batches, "RUN_BATCH_COUNT_MAX", 1)
        monkeypatch.setattr(slices, "STEPS_MAX", 1)
        follower = pair.follower
        fetching = asyncio.create_task(
            follower.append(pair.records(0), leader_high_watermark=3, leader_log_start_offset=0)
        )
        while pair.follows.log.log_end_offset == 0:
            await asyncio.sleep(0)
        await pair.lead(pair.follows, 2)
        end_offset = pair.follows.log.log_end_offset
        assert end_offset < 3
        append(pair.follows, b"own")
        await fetching
        assert pair.follows.log.log_end_offset == end_offset + 1
        assert pair.follows.high_watermark == end_offset + 1

    with_broker(test)
