"""The controller is scripted, and so is broker 2, which follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.replication.alter_partition_manager import AlterPartitionManager
from ottla.replication.partition import Partition
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResult,
    TopicDataResult,
)
from tests.support.led_partition import append, append_later, fetched, lead_replicas
from tests.support.simulated_broker import SimulatedBroker, with_broker

B1, B2 = BrokerId(1), BrokerId(2)
OWN_EPOCH = 77


class ScriptedController:
    """Does what it is asked for a second later, or what the test says."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.errors: list[Exception | ErrorCode] = []
        """Of the next requests, or of all of their partitions."""
        self.request_error = ErrorCode.NONE
        self._partition_epoch = 10

    async def ask(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        await asyncio.sleep(1)
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if isinstance(error, Exception):
            raise error
        request_error, self.request_error = self.request_error, ErrorCode.NONE
        if request_error:
            return AlterPartitionResponse(error_code=request_error)
        topics = []
        for topic in request.topics:
            results = []
            for asked in topic.partitions:
                self._partition_epoch += 1
                results.append(
                    PartitionDataResult(
                        partition_index=asked.partition_index,
                        error_code=error,
                        leader_id=1,
                        leader_epoch=asked.leader_epoch,
                        isr=[each.broker_id for each in asked.new_isr_with_epochs],
                        partition_epoch=self._partition_epoch,
                    )
                )
            topics.append(TopicDataResult(topic_id=topic.topic_id, partitions=results))
        return AlterPartitionResponse(topics=topics)

    @property
    def asked_for(self) -> list[list[tuple[int, list[int]]]]:
        """Of each request the partitions with their sets."""
        return [
            [
                (each.partition_index, [one.broker_id for one in each.new_isr_with_epochs])
                for topic in request.topics
                for each in topic.partitions
            ]
            for request in self.requests
        ]


Test = Callable[[SimulatedBroker, ScriptedController, list[Partition]], Coroutine[Any, Any, None]]


def with_manager(run: Test, *, isr: tuple[int, ...] = (1,), count: int = 1, **config: str) -> None:
    """Broker 1 leads, broker 2 has the other replica."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", count, **config)
        replicas = broker.machine.broker.replicas
        controller = ScriptedController()
        manager = AlterPartitionManager(
            B1, own_epoch=lambda: OWN_EPOCH, ask_controller=controller.ask
        )
        replicas.alter_isr = manager.submit
        for task in broker.machine.broker._periodic:  # The tests judge the ISR themselves.
            task.cancel()
        partitions = [
            await lead_replicas(replicas.partition("t", index), broker, (1, 2), isr)
            for index in range(count)
        ]
        await run(broker, controller, partitions)
        await manager.close()

    with_broker(test)


def isr_of(partition: Partition) -> set[int]:
    return set(partition.leader.in_sync.committed)


def test_a_follower_that_has_everything_joins() -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        append(partition, b"a")
        assert partition.high_watermark == 1
        fetched(partition, 0)
        assert partition.leader.in_sync.proposal is None, "it lacks a record that is committed"
        fetched(partition, 1)
        waiting = append_later(partition, b"b")
        assert isr_of(partition) == {1}
        assert not waiting.done(), "it may be in the ISR by now, as the controller has it"
        await asyncio.sleep(2)
        assert isr_of(partition) == {1, 2}
        (request,) = controller.requests
        assert (request.broker_id, request.broker_epoch) == (1, OWN_EPOCH)
        (topic,) = request.topics
        (asked,) = topic.partitions
        assert topic.topic_id == partition.topic_id
        assert (asked.partition_index, asked.leader_epoch, asked.partition_epoch) == (0, 1, 1)
        assert [(one.broker_id, one.broker_epoch) for one in asked.new_isr_with_epochs] == [
            (1, OWN_EPOCH),
            (2, 5),
        ]
        fetched(partition, 2)
        assert (await waiting).first_offset == 1

    with_manager(test)


def test_one_request_is_in_flight_with_all_that_want_one() -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        fetched(partitions[0], 0)
        fetched(partitions[1], 0)
        await asyncio.sleep(0.5)
        fetched(partitions[2], 0)
        fetched(partitions[3], 0)
        await asyncio.sleep(3)
        assert controller.asked_for == [
            [(0, [1, 2]), (1, [1, 2])],
            [(2, [1, 2]), (3, [1, 2])],
        ]
        assert all(isr_of(partition) == {1, 2} for partition in partitions)

    with_manager(test, count=4)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("broken"),
        TimeoutError(),
        KafkaError(ErrorCode.NOT_CONTROLLER),
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.STALE_BROKER_EPOCH,
        ValueError("a bug of ours"),
    ],
)
def test_it_asks_again_where_nobody_can_say_what_was_done(error: Exception | ErrorCode) -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        controller.errors = [error, error]
        fetched(partition, 0)
        append(partition, b"a")
        await asyncio.sleep(2)
        assert partition.high_watermark == 0, "both sets count meanwhile"
        await asyncio.sleep(2)
        assert controller.asked_for == 3 * [[(0, [1, 2])]]
        assert isr_of(partition) == {1, 2}

    with_manager(test)


def test_it_asks_again_where_the_request_as_a_whole_is_refused() -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        controller.request_error = ErrorCode.NOT_CONTROLLER
        fetched(partitions[0], 0)
        await asyncio.sleep(5)
        assert len(controller.requests) == 2
        assert isr_of(partitions[0]) == {1, 2}

    with_manager(test)


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_set_that_is_refused_is_not_asked_for_with_every_fetch(error: ErrorCode) -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        controller.errors = [error]
        fetched(partition, 0)
        append(partition, b"a")
        await asyncio.sleep(2)
        assert partition.leader.in_sync.proposal is None
        for _ in range(3):
            fetched(partition, 1)
            await asyncio.sleep(1)
        assert len(controller.requests) == 1
        partition.leader.judge_isr(since_s=0)
        await asyncio.sleep(2)
        assert isr_of(partition) == {1, 2}

    with_manager(test)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_where_the_controller_knows_more_both_sets_count_until_it_tells(error: ErrorCode) -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        controller.errors = [error]
        fetched(partition, 0)
        append(partition, b"a")
        await asyncio.sleep(60)
        assert len(controller.requests) == 1
        partition.leader.judge_isr(since_s=0)
        assert (isr_of(partition), partition.high_watermark) == ({1}, 0)
        partition.leader.isr_told({B1, B2}, 7)
        assert isr_of(partition) == {1, 2}
        fetched(partition, 1)
        assert partition.high_watermark == 1

    with_manager(test)


def test_what_is_settled_or_led_no_more_is_not_asked_for() -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        told, closed, left = partitions
        controller.errors = [ConnectionError("broken")]
        for partition in partitions:
            fetched(partition, 0)
        await asyncio.sleep(0.5)
        told.leader.isr_told({B1, B2}, 7)
        await closed.end_role()
        await asyncio.sleep(3)
        assert controller.asked_for[1:] == [[(left.topic_partition.partition, [1, 2])]]

    with_manager(test, count=3)


def test_a_follower_that_came_back_without_its_log_is_not_asked_for_as_the_one_that_had_it() -> (
    None
):
    """The controller is away meanwhile. Named with its new epoch, the follower would be in the ISR
    with nothing of what is committed, and the next leader (KIP-903)."""

    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        append(partition, b"a")
        controller.errors = [ConnectionError("broken")]
        fetched(partition, 1)
        broker.machine.broker.replicas._broker_epochs = lambda broker_id: 6
        partition.leader.follower_fetched(B2, 0, log_start_offset=0, broker_epoch=6)
        await asyncio.sleep(3)
        assert [
            [(one.broker_id, one.broker_epoch) for one in asked.new_isr_with_epochs]
            for request in controller.requests
            for topic in request.topics
            for asked in topic.partitions
        ] == 2 * [[(1, OWN_EPOCH), (2, 5)]]

    with_manager(test)


def test_an_answer_that_comes_after_leader_and_isr_changes_nothing() -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        fetched(partition, 0)
        await asyncio.sleep(0.5)
        partition.leader.isr_told({B1}, 99)
        await asyncio.sleep(2)
        assert isr_of(partition) == {1}
        assert partition.leader.in_sync.partition_epoch == 99

    with_manager(test)


def test_an_answer_that_comes_after_the_end_of_the_role_moves_no_high_watermark() -> None:
    """An unclean election may have cut the log by then."""

    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        append(partition, b"a", acks=1)
        await asyncio.sleep(31)
        partition.leader.judge_isr(since_s=0)
        await asyncio.sleep(0.5)
        assert len(controller.requests) == 1
        replicas = broker.machine.broker.replicas
        await replicas.become_follower(
            partition.topic_partition,
            partition.topic_id,
            partition.log.config,
            leader_id=BrokerId(-1),
            leader_epoch=2,
            is_new=False,
        )
        assert partition.follower is not None
        await partition.follower.start_over(0, 0)
        assert partition.log.log_end_offset == 0
        await asyncio.sleep(2)
        assert partition.high_watermark == 0

    with_manager(test, isr=(1, 2))


def test_a_follower_that_lags_leaves_and_what_waited_for_it_is_committed() -> None:
    async def test(
        broker: SimulatedBroker, controller: ScriptedController, partitions: list[Partition]
    ) -> None:
        (partition,) = partitions
        fetched(partition, 0)
        waiting = append_later(partition, b"a")
        await asyncio.sleep(29)
        partition.leader.judge_isr(since_s=0)
        assert partition.leader.in_sync.proposal is None
        await asyncio.sleep(2)
        partition.leader.judge_isr(since_s=broker.loop.now_s - 29)
        assert partition.leader.in_sync.proposal is None, "its broker stood still until then"
        partition.leader.judge_isr(since_s=0)
        await asyncio.sleep(0.5)
        assert not waiting.done()
        assert (await waiting).first_offset == 0
        assert (isr_of(partition), controller.asked_for) == ({1}, [[(0, [1])]])

    with_manager(test, isr=(1, 2))


def test_after_closing_nothing_is_asked_for() -> None:
    async def test() -> None:
        controller = ScriptedController()
        manager = AlterPartitionManager(B1, own_epoch=lambda: 1, ask_controller=controller.ask)
        await manager.close()
        manager.submit(None, None)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert controller.requests == []

    asyncio.run(test())
