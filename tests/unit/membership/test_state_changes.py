"""A broker whose controller is the test: it speaks in epochs above that of the broker itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.membership.state_changes import ALL_REPLICAS, StateChanges
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from ottla.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from tests.support.controller_requests import TOPIC_ID, leader_and_isr, state_of, stop_replica
from tests.support.led_partition import append, fetched
from tests.support.simulated_broker import SimulatedBroker, with_broker

OWN, OTHER = 1, 2
BROKER_EPOCH = 40
T0 = TopicPartition("t", 0)
DELETED = -2


class Coordinating:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int | None]] = []

    def become_leader(self, leader: Leader) -> None:
        self.heard.append(("leads", leader.topic_partition.partition, leader.leader_epoch))

    def resign(self, number: int, leader_epoch: int | None = None) -> None:
        self.heard.append(("resigned", number, leader_epoch))


class Told:
    def __init__(self, broker: SimulatedBroker) -> None:
        self.broker = broker
        self.coordinator = Coordinating()
        self.updates: list[UpdateMetadataRequest] = []
        self.seen: list[int] = []
        self.read: list[dict[str, TopicId]] = []
        self.replicas = broker.machine.broker.replicas
        self.changes = StateChanges(
            BrokerId(OWN),
            broker_epoch=lambda: BROKER_EPOCH,
            seen_by_controller=self.seen.append,
            replicas=self.replicas,
            read_topics=self._read,
            topic_config=lambda topic: TopicConfig(),
            coordinators={"coordinated": self.coordinator},
            update_image=self._update,
            clock=VirtualClock(broker.loop),
        )

    async def _read(self, topics: Mapping[str, TopicId]) -> None:
        self.read.append(dict(topics))

    async def _update(self, request: UpdateMetadataRequest) -> None:
        self.updates.append(request)

    async def tell(self, *states: LeaderAndIsrPartitionState, **options: Any) -> list[ErrorCode]:
        """The errors of these partitions."""
        request = leader_and_isr(*states, broker_epoch=BROKER_EPOCH, **options)
        response = await self.changes.leader_and_isr(request)
        assert response.error_code == ErrorCode.NONE
        (topic,) = response.topics
        assert [each.partition_index for each in topic.partition_errors] == [
            state.partition_index for state in states
        ]
        return [ErrorCode(each.error_code) for each in topic.partition_errors]

    async def stop(
        self, number: int = 0, *, leader_epoch: int = 1, topic: str = "t", delete: bool = False
    ) -> ErrorCode:
        request = stop_replica(
            number,
            broker_epoch=BROKER_EPOCH,
            leader_epoch=leader_epoch,
            topic=topic,
            delete=delete,
        )
        response = await self.changes.stop_replica(request)
        assert response.error_code == ErrorCode.NONE
        (answer,) = response.partition_errors
        assert (answer.topic_name, answer.partition_index) == (topic, number)
        return ErrorCode(answer.error_code)

    @property
    def partition(self) -> Partition:
        found = self.replicas.hosted(T0)
        assert found is not None
        return found


def told(test: Callable[[Told], Coroutine[Any, Any, None]], **settings: str) -> None:
    async def run(broker: SimulatedBroker) -> None:
        await test(Told(broker))

    with_broker(run, **settings)


def test_a_broker_leads_and_follows_as_it_is_told() -> None:
    async def test(state: Told) -> None:
        assert await state.tell(state_of(0), state_of(1, leader=OTHER)) == [0, 0]
        assert state.seen == [BROKER_EPOCH]
        assert state.read == [{"t": TOPIC_ID}]
        assert state.replicas.partition("t", 0).leader.leader_epoch == 1
        followed = state.replicas.hosted(TopicPartition("t", 1))
        assert followed is not None
        assert followed.follower is not None
        assert (followed.follower.leader_id, followed.leader_epoch) == (OTHER, 1)
        await state.tell(state_of(0, leader=OTHER, leader_epoch=2))
        assert not state.partition.is_led
        await state.tell(state_of(0, leader=OWN, leader_epoch=3))
        assert state.partition.leader.leader_epoch == 3

    told(test)


def test_a_partition_without_a_leader_is_kept() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of(0))
        append(state.partition, b"v", acks=1)
        await state.tell(state_of(0, leader=-1, leader_epoch=2))
        assert not state.partition.is_led
        assert state.partition.log.log_end_offset == 1

    told(test)


@pytest.mark.parametrize("broker_epoch", [BROKER_EPOCH - 1, -1])
def test_what_is_for_an_earlier_run_of_the_broker_is_not_done(broker_epoch: int) -> None:
    async def test(state: Told) -> None:
        request = leader_and_isr(state_of(), broker_epoch=broker_epoch)
        answer = await state.changes.leader_and_isr(request)
        assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
        assert state.replicas.hosted(T0) is None
        stopped = await state.changes.stop_replica(StopReplicaRequest(broker_epoch=broker_epoch))
        assert stopped.error_code == ErrorCode.STALE_BROKER_EPOCH
        updated = await state.changes.update_metadata(
            UpdateMetadataRequest(broker_epoch=broker_epoch)
        )
        assert updated.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert (state.updates, state.seen) == ([], [])

    told(test)


def test_a_controller_that_was_replaced_is_refused_everything() -> None:
    async def test(state: Told) -> None:
        newer = UpdateMetadataRequest(controller_epoch=5, broker_epoch=BROKER_EPOCH)
        assert (await state.changes.update_metadata(newer)).error_code == ErrorCode.NONE
        assert state.updates == [newer]
        stale = ErrorCode.STALE_CONTROLLER_EPOCH
        request = leader_and_isr(state_of(), controller_epoch=4, broker_epoch=BROKER_EPOCH)
        assert (await state.changes.leader_and_isr(request)).error_code == stale
        stop = StopReplicaRequest(controller_epoch=4, broker_epoch=BROKER_EPOCH)
        assert (await state.changes.stop_replica(stop)).error_code == stale
        older = UpdateMetadataRequest(controller_epoch=4, broker_epoch=BROKER_EPOCH)
        assert (await state.changes.update_metadata(older)).error_code == stale
        assert state.replicas.hosted(T0) is None
        assert len(state.updates) == 1

    told(test)


def test_a_request_that_was_overtaken_is_not_done() -> None:
    """On a connection that the controller had given up: it has said all of it again on another one,
    and more since then."""

    async def test(state: Told) -> None:
        def update(sequence: int) -> UpdateMetadataRequest:
            return UpdateMetadataRequest(
                controller_epoch=5, broker_epoch=BROKER_EPOCH, sequence=sequence
            )

        for sequence in (7, 9, 9):  # The last one twice: its answer was lost.
            answer = await state.changes.update_metadata(update(sequence))
            assert answer.error_code == ErrorCode.NONE
        stale = ErrorCode.STALE_CONTROLLER_EPOCH
        assert (await state.changes.update_metadata(update(8))).error_code == stale
        assert [each.sequence for each in state.updates] == [7, 9, 9]
        options: dict[str, Any] = {"controller_epoch": 5, "broker_epoch": BROKER_EPOCH}
        everything = leader_and_isr(state_of(), **options)
        everything.sequence = 10
        assert (await state.changes.leader_and_isr(everything)).error_code == ErrorCode.NONE
        nothing = LeaderAndIsrRequest(type=ALL_REPLICAS, sequence=9, **options)
        assert (await state.changes.leader_and_isr(nothing)).error_code == stale
        deletion = stop_replica(0, leader_epoch=DELETED, delete=True, broker_epoch=BROKER_EPOCH)
        deletion.controller_epoch, deletion.sequence = 5, 9
        assert (await state.changes.stop_replica(deletion)).error_code == stale
        assert state.partition.is_led
        deletion.controller_epoch, deletion.sequence = 6, 0
        assert (await state.changes.stop_replica(deletion)).error_code == ErrorCode.NONE
        assert state.replicas.hosted(T0) is None

    told(test)


def test_a_leader_epoch_that_has_passed_changes_nothing() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of(leader_epoch=3))
        leader = state.partition.leader
        stale = await state.tell(state_of(leader=OTHER, leader_epoch=2))
        assert stale == [ErrorCode.STALE_CONTROLLER_EPOCH]
        assert await state.tell(state_of(leader_epoch=3)) == [ErrorCode.NONE]
        assert state.partition.leader is leader

    told(test)


def test_news_of_the_in_sync_replicas_keeps_the_leader() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of())
        leader = state.partition.leader
        append(state.partition, b"v")
        assert state.partition.high_watermark == 0
        await state.tell(state_of(isr=(OWN,), partition_epoch=1))
        assert state.partition.leader is leader
        assert state.partition.high_watermark == 1, "nobody else has to have it any more"
        await state.tell(state_of(isr=(OWN, OTHER), partition_epoch=0))
        assert leader.in_sync.committed == {OWN}, "older than what was told"

    told(test)


def test_a_partition_of_which_this_broker_has_no_replica_is_not_made() -> None:
    async def test(state: Told) -> None:
        refused = await state.tell(state_of(leader=OTHER, replicas=(OTHER,)))
        assert refused == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert state.broker.machine.broker.logs.get(T0) is None

    told(test)


def test_a_partition_is_not_another_topics() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of())
        refused = await state.tell(state_of(leader_epoch=2), topic_id=TopicId(b"j" * 16))
        assert refused == [ErrorCode.INCONSISTENT_TOPIC_ID]
        assert state.partition.leader_epoch == 1

    told(test)


def test_what_was_left_of_an_earlier_topic_gives_way_to_another_of_its_name() -> None:
    """It was moved away, and no controller came to have it deleted; then its topic was, elsewhere.
    Nobody else would ever tell this broker of it, and it never led the new one."""

    async def test(state: Told) -> None:
        await state.tell(state_of(0, leader_epoch=5))
        append(state.partition, b"of the old one", acks=1)
        await state.stop(leader_epoch=5)
        another = TopicId(b"j" * 16)
        assert await state.tell(state_of(0, leader_epoch=0), topic_id=another) == [ErrorCode.NONE]
        assert state.partition.leader.leader_epoch == 0
        assert (state.partition.topic_id, state.partition.log.log_end_offset) == (another, 0)
        assert state.partition.high_watermark == 0

    told(test)


def test_a_disk_that_fails_is_told_of_its_own_partitions_only() -> None:
    async def test(state: Told) -> None:
        state.broker.machine.disk.fail(Fault("open", "/t-0/"))
        errors = await state.tell(state_of(0), state_of(1))
        assert errors == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        again = await state.tell(state_of(0, leader_epoch=2), state_of(1, leader_epoch=2))
        assert again == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert await state.stop(0, delete=True) == ErrorCode.KAFKA_STORAGE_ERROR

    told(test, log_dirs="/data,/more")


def test_a_replica_whose_disk_has_failed_gets_no_other_role() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of())
        state.broker.machine.disk.fail(Fault("write_at", "/t-0/"))
        with pytest.raises(KafkaError):
            append(state.partition, b"v", acks=1)
        for leader in (OWN, OTHER):
            refused = await state.tell(state_of(leader=leader, leader_epoch=2))
            assert refused == [ErrorCode.KAFKA_STORAGE_ERROR]

    told(test)


def test_a_bug_with_one_partition_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(state: Told) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(state.replicas, "become_leader", None)
            errors = await state.tell(state_of(0), state_of(1, leader=OTHER))
        assert errors == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]

    told(test)
    assert "t-0 could not change" in caplog.text


def test_requests_are_done_one_after_another() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of())
        async with state.partition.lane:
            first = asyncio.create_task(state.tell(state_of(leader=OTHER, leader_epoch=2)))
            second = asyncio.create_task(state.stop(leader_epoch=2, delete=True))
            await asyncio.sleep(1)
            assert state.partition.is_led
            assert not second.done()
        assert (await first, await second) == ([ErrorCode.NONE], ErrorCode.NONE)
        assert state.replicas.hosted(T0) is None

    told(test)


def test_what_has_begun_comes_to_its_end_though_whoever_asked_is_gone() -> None:
    """A role that was left half changed let the next one begin while a write was on its way: a
    batch of the old epoch came to lie in the new one, and followers cut it off for ever (found by
    simulation)."""

    async def test(state: Told) -> None:
        await state.tell(state_of())
        async with state.partition.lane:
            asked = asyncio.create_task(state.tell(state_of(leader_epoch=2)))
            behind = asyncio.create_task(state.stop(leader_epoch=2, delete=True))
            await asyncio.sleep(1)
            asked.cancel()
            await asyncio.sleep(1)
            closing = asyncio.create_task(state.changes.close())
            await asyncio.sleep(1)
            assert not closing.done()
        await closing
        assert state.partition.leader_epoch == 2
        with pytest.raises(asyncio.CancelledError):
            await behind
        assert state.replicas.hosted(T0) is not None

    told(test)


def test_coordinators_move_with_their_partitions() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of(3), topic="coordinated")
        await state.tell(state_of(3, leader=OTHER, leader_epoch=2), topic="coordinated")
        await state.tell(state_of(4), topic="coordinated")
        await state.stop(4, topic="coordinated")
        assert state.coordinator.heard == [
            ("leads", 3, 1),
            ("resigned", 3, 2),
            ("leads", 4, 1),
            ("resigned", 4, None),
        ]

    told(test)


def test_what_is_not_among_all_its_replicas_a_broker_serves_no_longer() -> None:
    """It was paused while a partition of it was moved away. Nobody tells it of that alone."""

    async def test(state: Told) -> None:
        await state.tell(state_of(0), state_of(1))
        append(state.partition, b"v", acks=1)
        await state.tell(state_of(1, leader_epoch=2))
        assert state.partition.is_led
        await state.tell(state_of(1, leader_epoch=3), kind=ALL_REPLICAS)
        assert state.replicas.partition("t", 1).is_led
        assert not state.partition.has_role
        with pytest.raises(KafkaError) as raised:
            state.replicas.partition("t", 0)
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await state.tell(state_of(0, leader_epoch=4))
        assert state.partition.is_led
        assert state.partition.log.log_end_offset == 1

    told(test)


def test_a_stopped_replica_does_nothing_until_it_is_told_to() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of())
        append(state.partition, b"v", acks=1)
        assert await state.stop() == ErrorCode.NONE
        assert not state.partition.has_role
        assert state.partition.log.log_end_offset == 1
        await state.tell(state_of())
        assert state.partition.is_led
        fetched(state.partition, 1)
        assert state.partition.high_watermark == 1

    told(test)


@pytest.mark.parametrize("leader_epoch", [3, DELETED, -1])
def test_a_replica_is_deleted_with_its_files(leader_epoch: int) -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of(0, leader_epoch=3), state_of(1))
        assert await state.stop(leader_epoch=leader_epoch, delete=True) == ErrorCode.NONE
        assert state.replicas.hosted(T0) is None
        assert "t-0" not in state.broker.machine.disk.list_folder("/data")
        assert state.replicas.replica_by_id(TOPIC_ID, 1).is_led, "another one of the topic"
        await state.stop(1, leader_epoch=DELETED, delete=True)
        assert state.replicas.topic_name(TOPIC_ID) is None
        assert await state.stop(delete=True) == ErrorCode.NONE, "it is gone already"

    told(test)


def test_a_replica_that_has_a_later_leader_is_not_stopped() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of(leader_epoch=3))
        refused = await state.stop(leader_epoch=2, delete=True)
        assert refused == ErrorCode.FENCED_LEADER_EPOCH
        assert state.partition.is_led

    told(test)


def test_a_replica_on_a_failed_disk_is_not_called_deleted() -> None:
    async def test(state: Told) -> None:
        await state.tell(state_of())
        state.broker.machine.disk.fail(Fault("rename", "/t-0"))
        assert await state.stop(delete=True) == ErrorCode.KAFKA_STORAGE_ERROR

    told(test)
