"""Two logs, here of two topics of one broker: `leads` is the leader's, `follows` the follower's."""

from __future__ import annotations

import pytest

from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.replication.follower import Follower
from ottla.replication.partition import Partition
from tests.support.led_partition import Watching
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker

OTHER = BrokerId(2)


class Pair:
    def __init__(self, broker: SimulatedBroker, leads: Partition, follows: Partition) -> None:
        self.broker = broker
        self.leads = leads
        self.follows = follows

    @property
    def follower(self) -> Follower:
        assert self.follows.follower is not None
        return self.follows.follower

    async def lead(self, partition: Partition, leader_epoch: int) -> None:
        await self.broker.machine.broker.replicas.become_leader(
            partition.topic_partition,
            partition.topic_id,
            partition.log.config,
            leader_epoch=leader_epoch,
            replicas=(BrokerId(1),),
            isr=(BrokerId(1),),
            partition_epoch=leader_epoch,
            is_new=False,
        )

    async def follow(self, leader_epoch: int) -> None:
        await self.broker.machine.broker.replicas.become_follower(
            self.follows.topic_partition,
            self.follows.topic_id,
            self.follows.log.config,
            leader_id=OTHER,
            leader_epoch=leader_epoch,
            is_new=False,
        )

    async def fetch(self) -> None:
        """Until both are alike, as the fetches of a real follower would make them."""
        for _ in range(10):
            position = self.follower.position
            epoch, end_offset = self.leads.log.end_offset_for_epoch(position.last_fetched_epoch)
            if position.last_fetched_epoch >= 0 and (
                epoch < position.last_fetched_epoch or end_offset < position.offset
            ):
                await self.follower.truncate(epoch, end_offset)
                continue
            await self.follower.append(
                self._records(position.offset),
                leader_high_watermark=self.leads.high_watermark,
                leader_log_start_offset=self.leads.log.log_start_offset,
            )
            if self.follower.position.offset == self.leads.log.log_end_offset:
                return
        pytest.fail("the logs do not come together")

    def _records(self, offset: int) -> memoryview:
        found = self.leads.log.read(
            offset, 1 << 20, max_offset=self.leads.log.log_end_offset, at_least_one=True
        )
        if found is None:
            return memoryview(b"")
        assert isinstance(found, FileSlice)
        return memoryview(found.read())

    def contents(self) -> tuple[bytes, bytes]:
        return self._content(self.leads), self._content(self.follows)

    def _content(self, partition: Partition) -> bytes:
        return b"".join(
            self.broker.machine.disk.read_file(f"{partition.log.path}/{each.base_offset:020}.log")
            for each in partition.log.segments
        )


def append(partition: Partition, *values: bytes) -> None:
    for value in values:
        partition.leader.append(memoryview(make_batch(value)), acks=1, produce_version=12)


async def make_pair(broker: SimulatedBroker, **config: str) -> Pair:
    await broker.create_topic("leads", 1)
    await broker.create_topic("follows", 1, **config)
    replicas = broker.machine.broker.replicas
    return Pair(broker, replicas.partition("leads", 0), replicas.partition("follows", 0))


def test_a_follower_has_its_leaders_records_and_high_watermark() -> None:
    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker)
        append(pair.leads, b"a", b"b")
        await pair.follow(1)
        watching = Watching()
        pair.follows.watchers[watching] = None
        assert pair.follower.position == (0, 0, 0, 1)
        await pair.fetch()
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
