"""The partitions of topic `t` of a simulated broker, which follow a leader that the test speaks
for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.config.broker import BrokerConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicId
from ottla.records.batch import patch_place
from ottla.replication.follower import Follower
from ottla.replication.partition import Partition
from ottla.replication.replica_fetcher import FetcherContext, ReplicaFetchers
from ottla.replication.replication_quota import ReplicationQuota
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.scripted_leader import (
    SESSION_ID,
    ScriptedLeader,
    data,
    fetched,
    named,
    positions,
)
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker

LEADER, OTHER = BrokerId(2), BrokerId(3)
BROKER_EPOCH = 5


def batch(offset: int, *values: bytes, leader_epoch: int = 1) -> bytearray:
    made = make_batch(*(values or (b"v",)))
    patch_place(memoryview(made), 0, offset, len(made) - 12, leader_epoch)
    return made


class Following:
    def __init__(self, broker: SimulatedBroker, topic_id: TopicId) -> None:
        self.broker = broker
        self.topic_id = topic_id
        self.leader = ScriptedLeader()
        self.quota = ReplicationQuota(
            BrokerId(1), VirtualClock(broker.loop), window_count=11, window_s=1.0
        )
        self.fetchers = ReplicaFetchers(
            FetcherContext(
                own_id=BrokerId(1),
                broker_epoch=lambda: BROKER_EPOCH,
                connect=self.leader.connect,
                config=lambda: BrokerConfig({"log.dirs": "/data"}),
                quota=self.quota,
                clock=VirtualClock(broker.loop),
            )
        )
        replicas = broker.machine.broker.replicas
        self.partitions = [replicas.partition("t", number) for number in range(2)]

    async def follow(
        self, number: int = 0, leader_epoch: int = 1, leader: BrokerId = LEADER
    ) -> Partition:
        partition = self.partitions[number]
        async with partition.lane:
            await partition.end_role()
            checkpoint = self.broker.machine.broker.logs.checkpoint_recovery_points
            partition.follow(
                Follower(
                    partition,
                    leader,
                    leader_epoch,
                    checkpoint=checkpoint,
                    truncated=lambda before, after: None,
                )
            )
        self.fetchers.follow(partition)
        return partition

    async def answer(self, *partitions: Any) -> FetchRequest:
        return await self.leader.answer_fetch(self.topic_id, *partitions)

    def append(self, number: int, *values: bytes) -> None:
        """As its leader."""
        leader = self.partitions[number].leader
        leader.append(memoryview(make_batch(*values)), acks=1, produce_version=12)

    async def answer_offsets(self, start: int, end: int) -> None:
        """Where the leader's log begins and ends."""
        request = await self.leader.request()
        assert isinstance(request, OffsetForLeaderEpochRequest)
        assert request.topics[0].partitions[0].current_leader_epoch == 1
        ended = EpochEndOffset(leader_epoch=1, end_offset=end)
        topic = OffsetForLeaderTopicResult(topic="t", partitions=[ended])
        self.leader.answer(OffsetForLeaderEpochResponse(topics=[topic]))
        asked = await self.leader.request()
        assert isinstance(asked, ListOffsetsRequest)
        begun = ListOffsetsPartitionResponse(offset=start)
        self.leader.answer(
            ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[begun])])
        )


def following(test: Callable[[Following], Coroutine[Any, Any, None]], **config: str) -> None:
    async def run(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 2, **config)
        state = Following(broker, topic_id)
        await test(state)
        await state.fetchers.close()
        assert all(each.is_closed for each in state.leader.connections)

    with_broker(run)


def test_a_fetch_tells_who_asks_in_which_epoch_and_what_it_has() -> None:
    async def test(state: Following) -> None:
        state.append(0, b"a", b"b")
        await state.follow(0)
        request = await state.leader.fetch()
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 5)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10_485_760)
        (asked,) = named(request)
        assert asked.current_leader_epoch == 1
        assert (asked.fetch_offset, asked.last_fetched_epoch, asked.log_start_offset) == (2, 0, 0)

    following(test)


def test_records_are_appended_and_the_next_fetch_goes_on_behind_them() -> None:
    async def test(state: Following) -> None:
        partition = await state.follow(0)
        await state.follow(1)
        both = await state.answer(data(0, batch(0, b"a", b"b"), high_watermark=1))
        assert positions(both) == {0: 0, 1: 0}
        assert both.session_epoch == 0
        rest = await state.answer()
        assert positions(rest) == {0: 2}, "the session knows the other, which has nothing new"
        assert (rest.session_id, rest.session_epoch) == (SESSION_ID, 1)
        assert (partition.log.log_end_offset, partition.high_watermark) == (2, 1)
        assert positions(await state.answer(data(0, high_watermark=2))) == {}
        await state.leader.fetch()
        assert partition.high_watermark == 2

    following(test)


def test_a_log_is_cut_where_it_parts_from_the_leaders_while_others_are_fetched() -> None:
    async def test(state: Following) -> None:
        state.append(0, b"same")
        state.append(0, b"alone")
        partition = await state.follow(0)
        await state.follow(1)
        await partition.lane.acquire()  # The disk is slow, say.
        await state.answer(data(0, diverging=(0, 1)), data(1, batch(0)))
        request = await state.answer()
        assert positions(request) == {1: 1}
        assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
        partition.lane.release()
        await asyncio.sleep(1)
        requests = [await state.answer() for _ in range(2)]
        assert {0: 1} in map(positions, requests)
        assert partition.log.log_end_offset == 1

    following(test)


def test_a_cut_that_changes_nothing_is_not_tried_again_at_once() -> None:
    async def test(state: Following) -> None:
        await state.follow(0)
        for _ in range(2):  # The first drops the epoch in which this broker led, and wrote nothing.
            await state.answer(data(0, diverging=(0, 5)))
        started_s = state.broker.loop.now_s
        for _ in range(10):
            assert positions(await state.answer(data(0, diverging=(0, 5)))) == {0: 0}
        assert state.broker.loop.now_s >= started_s + 4

    following(test)


def test_a_follower_that_the_leader_has_left_behind_starts_over_from_its_start() -> None:
    async def test(state: Following) -> None:
        state.append(0, b"old")
        partition = await state.follow(0)
        await state.answer(data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await state.answer_offsets(50, 60)
        assert positions(await state.leader.fetch()) == {0: 50}
        assert partition.log.log_start_offset == 50

    following(test)


def test_a_follower_of_a_leader_with_less_keeps_no_more_than_that() -> None:
    async def test(state: Following) -> None:
        for value in (b"a", b"b", b"c"):
            state.append(0, value)
        await state.follow(0)
        await state.answer(data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await state.answer_offsets(0, 1)
        assert positions(await state.leader.fetch()) == {0: 1}

    following(test)


def test_nothing_is_dropped_where_the_leader_has_caught_up_meanwhile() -> None:
    async def test(state: Following) -> None:
        state.append(0, b"a")
        state.append(0, b"b")
        await state.follow(0)
        await state.answer(data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await state.answer_offsets(0, 2)
        assert positions(await state.leader.fetch()) == {0: 2}

    following(test)


def test_a_batch_that_the_leaders_log_begins_within_is_taken_whole() -> None:
    async def test(state: Following) -> None:
        partition = await state.follow(0)
        await state.answer(data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await state.answer_offsets(51, 60)
        records = batch(50, b"deleted", b"there")
        await state.answer(data(0, records, high_watermark=52, log_start_offset=51))
        assert positions(await state.leader.fetch()) == {0: 52}
        assert partition.log.log_start_offset == 51

    following(test)


def test_a_fenced_follower_waits_for_the_next_epoch() -> None:
    async def test(state: Following) -> None:
        await state.follow(0)
        await state.follow(1)
        await state.answer(data(0, error_code=ErrorCode.FENCED_LEADER_EPOCH))
        for _ in range(5):
            await asyncio.sleep(1)
            assert 0 not in positions(await state.answer())
        await state.follow(0, leader_epoch=2)
        (asked,) = [each for _ in range(2) for each in named(await state.answer())]
        assert (asked.partition, asked.current_leader_epoch) == (0, 2)

    following(test)


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, 999]
)
def test_a_refused_partition_is_asked_for_again_later(error: int) -> None:
    async def test(state: Following) -> None:
        """Soon at first, then once in `replica.fetch.backoff.ms`."""
        await state.follow(0)
        await state.follow(1)
        times_s = []
        for _ in range(10):
            await state.answer(data(0, error_code=error))
            request = await state.answer()
            assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
            waits_s = state.broker.loop.now_s
            while not positions(request):
                await asyncio.sleep(0.01)
                request = await state.answer()
            assert positions(request) == {0: 0}
            times_s.append(state.broker.loop.now_s - waits_s)
        assert times_s[0] < 0.1
        assert 1 <= times_s[-1] < 1.1

    following(test)


def test_damaged_records_of_one_partition_do_not_stop_the_others() -> None:
    async def test(state: Following) -> None:
        broken, good = await state.follow(0), await state.follow(1)
        damaged = batch(0)
        damaged[-1] ^= 1
        await state.answer(data(0, damaged), data(1, batch(0), high_watermark=1))
        assert positions(await state.leader.fetch()) == {1: 1}
        assert (broken.log.log_end_offset, good.high_watermark) == (0, 1)

    following(test)


def test_a_partition_whose_disk_fails_is_not_asked_for_again() -> None:
    async def test(state: Following) -> None:
        await state.follow(0)
        state.broker.machine.disk.fail(Fault("write_at", "/t-0/"))
        await state.answer(data(0, batch(0)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(state.leader.fetch(), 10)

    following(test)


def test_what_was_asked_for_in_an_earlier_epoch_is_not_appended() -> None:
    async def test(state: Following) -> None:
        partition = await state.follow(0)
        await state.leader.fetch()
        await state.follow(0, leader_epoch=2)
        state.leader.answer(fetched(state.topic_id, data(0, batch(0))))
        (asked,) = named(await state.leader.fetch())
        assert (asked.current_leader_epoch, asked.fetch_offset) == (2, 0)
        assert partition.log.log_end_offset == 0

    following(test)


def test_a_partition_moves_to_the_connection_of_its_new_leader() -> None:
    async def test(state: Following) -> None:
        await state.follow(0)
        await state.leader.fetch()
        await state.follow(0, leader_epoch=2, leader=OTHER)
        assert named(await state.leader.fetch())[0].current_leader_epoch == 2
        assert state.leader.connected_to == [LEADER, OTHER]

    following(test)


def test_a_leader_that_nothing_is_followed_at_is_not_asked_any_more() -> None:
    async def test(state: Following) -> None:
        partition = await state.follow(0)
        await state.leader.fetch()
        state.fetchers.forget(partition)
        state.leader.answer(fetched())
        await asyncio.sleep(1)
        assert state.leader.connections[0].is_closed
        assert state.leader.asked.empty()
        await state.follow(0, leader_epoch=2)
        assert positions(await state.leader.fetch()) == {0: 0}

    following(test)


def test_a_leader_that_went_without_a_word_is_asked_anew_when_it_leads_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a loss of power its end of the connection is not closed: to wait for the answer to what
    it was asked before would keep this broker out of the ISR for half a minute."""

    async def test(state: Following) -> None:
        await state.follow(0)
        await state.leader.fetch()
        await state.follow(0, leader_epoch=2, leader=OTHER)
        await state.leader.fetch()
        await asyncio.sleep(5)
        started_s = state.broker.loop.now_s
        await state.follow(0, leader_epoch=3)
        (asked,) = named(await state.leader.fetch())
        assert asked.current_leader_epoch == 3
        assert state.broker.loop.now_s - started_s < 1
        assert state.leader.connected_to == [LEADER, OTHER, LEADER]
        await asyncio.sleep(1)
        assert [each.is_closed for each in state.leader.connections] == [True, True, False]

    following(test)
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


def test_after_a_lost_connection_all_is_asked_for_on_another_one() -> None:
    async def test(state: Following) -> None:
        await state.follow(0)
        await state.answer()
        await state.leader.fetch()
        state.leader.fail(ConnectionError("reset"))
        request = await state.leader.fetch()
        assert (request.session_id, request.session_epoch) == (SESSION_ID, 0)
        assert positions(request) == {0: 0}
        assert [each.is_closed for each in state.leader.connections] == [True, False]

    following(test)


def test_a_leader_that_does_not_answer_is_asked_on_another_connection() -> None:
    async def test(state: Following) -> None:
        await state.follow(0)
        await state.leader.fetch()
        started_s = state.broker.loop.now_s
        assert positions(await state.leader.fetch()) == {0: 0}
        assert 30 <= state.broker.loop.now_s - started_s < 33
        assert [each.is_closed for each in state.leader.connections] == [True, False]

    following(test)


def test_a_leader_that_is_down_is_tried_until_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    async def test(state: Following) -> None:
        state.leader.refusal = ConnectionRefusedError("nobody listens")
        await state.follow(0)
        await asyncio.sleep(10)
        assert 10 <= len(state.leader.connected_to) <= 16
        state.leader.refusal = None
        await state.answer()
        await state.leader.fetch()

    following(test)
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "broker 2" in warnings[0]
    assert "nobody listens" in warnings[0]


def test_a_session_that_is_gone_is_begun_anew_at_once_and_one_that_is_refused_later() -> None:
    async def test(state: Following) -> None:
        await state.follow(0)
        await state.answer()
        await state.leader.fetch()
        state.leader.answer(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        started_s = state.broker.loop.now_s
        request = await state.leader.fetch()
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert state.broker.loop.now_s == started_s
        for _ in range(10):
            state.leader.answer(FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
            await state.leader.fetch()
        assert state.broker.loop.now_s >= started_s + 4

    following(test)


def test_a_fetch_tells_of_records_that_are_synced_where_that_is_asked_for() -> None:
    async def test(state: Following) -> None:
        partition = await state.follow(0)
        await state.answer(data(0, batch(0)))
        assert positions(await state.leader.fetch()) == {0: 1}
        assert partition.log.recovery_point == 1

    following(test, flush_messages="1")


def test_a_bug_does_not_end_replication(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(state: Following) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Follower, "append", lambda *_, **__: 1 / 0)
            await state.follow(0)
            await state.answer(data(0, batch(0)))
            await asyncio.sleep(0.5)
        await state.answer(data(0, batch(0)))
        assert positions(await state.leader.fetch()) == {0: 1}

    following(test)
    assert "ZeroDivisionError" in caplog.text


# Throttles (KIP-73)

THROTTLED = {"follower_replication_throttled_replicas": "0:1"}


def test_a_throttled_replica_is_left_out_until_the_rate_is_low_enough() -> None:
    async def test(state: Following) -> None:
        records = batch(0)
        state.quota.bytes_per_second = len(records) // 2
        await state.follow(0)
        await state.follow(1)
        await state.answer(data(0, records, high_watermark=5), data(1, records, high_watermark=5))
        request = await state.answer(data(1, batch(1), high_watermark=5))
        assert positions(request) == {1: 1}, "this one is not throttled"
        assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
        for _ in range(30):
            began_s = state.broker.loop.now_s
            request = await state.leader.fetch()
            if 0 in positions(request):
                break
            await asyncio.sleep(0.1)
            state.leader.answer(fetched())
        assert positions(request) == {0: 1}
        assert began_s == pytest.approx(2, abs=0.25), "twice what it may have in a second"

    following(test, **THROTTLED)


def test_with_nothing_else_to_fetch_a_throttled_replica_is_waited_for() -> None:
    async def test(state: Following) -> None:
        records = batch(0)
        state.quota.bytes_per_second = len(records) // 2
        await state.follow(0)
        await state.answer(data(0, records, high_watermark=5))
        assert positions(await state.leader.fetch()) == {0: 1}
        assert state.broker.loop.now_s == pytest.approx(2, abs=0.1)

    following(test, **THROTTLED)


def test_a_replica_that_is_in_sync_is_not_throttled() -> None:
    async def test(state: Following) -> None:
        state.quota.bytes_per_second = 1
        partition = await state.follow(0)
        await state.answer(data(0, batch(0), high_watermark=1))
        assert positions(await state.answer()) == {0: 1}
        assert state.quota.is_exceeded, "what it fetched counts"
        assert state.broker.loop.now_s < 1
        assert partition.high_watermark == 1

    following(test, **THROTTLED)


def test_a_new_follower_waits_for_the_throttle_of_others() -> None:
    async def test(state: Following) -> None:
        state.quota.bytes_per_second = 100
        state.quota.record(200)
        await state.follow(0)
        await state.leader.fetch()
        assert state.broker.loop.now_s == pytest.approx(2, abs=0.1)

    following(test, **THROTTLED)


def test_a_limit_that_is_raised_is_heard_of() -> None:
    async def test(state: Following) -> None:
        state.quota.bytes_per_second = 0
        state.quota.record(200)
        await state.follow(0)
        await asyncio.sleep(5)
        assert state.leader.connected_to == []
        state.quota.bytes_per_second = 1000
        await state.leader.fetch()
        assert state.broker.loop.now_s < 7

    following(test, **THROTTLED)


def test_a_throttled_replica_that_is_not_followed_any_more_is_not_fetched() -> None:
    async def test(state: Following) -> None:
        state.quota.bytes_per_second = 100
        state.quota.record(200)
        partition = await state.follow(0)
        state.fetchers.forget(partition)
        await asyncio.sleep(10)
        assert state.leader.connected_to == []

    following(test, **THROTTLED)
