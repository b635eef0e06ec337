from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.controller.channel_manager import ChannelManager, OwnBroker, Response
from ottla.controller.controller_context import LiveBroker
from ottla.controller.request_batch import Request
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.schema import Request as AnyRequest
from tests.unit.controller.contexts import live_broker

ONE, TWO = BrokerId(1), BrokerId(2)


class Scripted:
    """Brokers that note what they are asked, and answer as the test has them do."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []
        """(broker, controller epoch, version)"""
        self.answered: list[tuple[BrokerId, int]] = []
        self.failures: list[Exception] = []
        self.is_hanging = False
        self.open_count = 0
        self.connect_count = 0
        self.manager = ChannelManager(self.connect, self.heard, timeout_s=30)

    async def connect(self, broker: LiveBroker) -> Connection:
        self.connect_count += 1
        await asyncio.sleep(0.01)
        self.open_count += 1
        return Connection(self, broker.id)

    def heard(self, broker: LiveBroker, request: Request, response: Response) -> None:
        assert isinstance(response, LeaderAndIsrResponse)
        self.answered.append((broker.id, request.controller_epoch))


class Connection:
    def __init__(self, brokers: Scripted, broker_id: BrokerId) -> None:
        self._brokers = brokers
        self._id = broker_id

    async def call(self, request: AnyRequest, response_class: type[Any], version: int) -> Any:
        assert isinstance(request, LeaderAndIsrRequest)
        self._brokers.asked.append((self._id, request.controller_epoch, version))
        await asyncio.sleep(0.01)
        if self._brokers.failures:
            raise self._brokers.failures.pop(0)
        if self._brokers.is_hanging:
            await asyncio.Event().wait()
        return response_class()

    def close(self) -> None:
        self._brokers.open_count -= 1


def numbered(*numbers: int) -> list[LeaderAndIsrRequest]:
    return [LeaderAndIsrRequest(controller_epoch=number) for number in numbers]


def run(scenario: Callable[[Scripted, ChannelManager], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        brokers = Scripted()
        brokers.manager.set_brokers([live_broker(1), live_broker(2)])
        await scenario(brokers, brokers.manager)
        brokers.manager.close()
        await asyncio.sleep(1)
        assert brokers.open_count == 0

    run_virtual(main)


def test_requests_go_out_in_order_over_one_connection_a_broker() -> None:
    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        manager.send(ONE, numbered(1, 2))
        manager.send(TWO, numbered(3))
        manager.send(ONE, numbered(4))
        await manager.delivered(ONE)
        await manager.delivered(TWO)
        assert [each for each in brokers.asked if each[0] == 1] == [(1, n, 7) for n in (1, 2, 4)]
        assert brokers.answered.count((TWO, 3)) == 1
        assert brokers.connect_count == 2

    run(scenario)


@pytest.mark.parametrize(
    "failure", [ConnectionError("reset"), KafkaError(ErrorCode.NETWORK_EXCEPTION, "no")]
)
def test_what_was_not_answered_is_sent_again_before_what_follows(failure: Exception) -> None:
    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        brokers.failures = [failure, failure]
        manager.send(ONE, numbered(1, 2))
        await manager.delivered(ONE)
        assert [number for _, number, _ in brokers.asked] == [1, 1, 1, 2]
        assert brokers.answered == [(ONE, 1), (ONE, 2)]

    run(scenario)


def test_a_broker_that_does_not_answer_in_time_is_asked_again_on_another_connection() -> None:
    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        brokers.is_hanging = True
        manager.send(ONE, numbered(1))
        await asyncio.sleep(29)
        assert len(brokers.asked) == 1
        await asyncio.sleep(2)
        assert len(brokers.asked) == 2
        assert (brokers.connect_count, brokers.open_count) == (2, 1)

    run(scenario)


def test_requests_are_numbered_in_the_order_in_which_they_were_decided() -> None:
    """So that a broker can tell one that was overtaken."""

    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        first, second = numbered(1, 2), numbered(3, 4)
        manager.send(ONE, first)
        manager.set_brokers([live_broker(1, epoch=99), live_broker(2)])
        manager.send(ONE, second)
        sequences = [each.sequence for each in first + second]
        assert sequences == sorted(set(sequences))
        assert sequences[0] > -1

    run(scenario)


def test_a_slow_broker_does_not_hold_up_another() -> None:
    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        brokers.is_hanging = True
        manager.send(ONE, numbered(1))
        await asyncio.sleep(1)
        brokers.is_hanging = False
        manager.send(TWO, numbered(2))
        await manager.delivered(TWO)
        assert brokers.answered == [(TWO, 2)]

    run(scenario)


@pytest.mark.parametrize("after", [[live_broker(2)], [live_broker(1, epoch=900), live_broker(2)]])
def test_what_waits_for_a_broker_that_is_gone_or_registered_anew_is_dropped(
    after: list[LiveBroker],
) -> None:
    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        brokers.is_hanging = True
        manager.send(ONE, numbered(1, 2))
        waiting = asyncio.create_task(manager.delivered(ONE))
        await asyncio.sleep(1)
        manager.set_brokers(after)
        await waiting
        brokers.is_hanging = False
        await asyncio.sleep(60)
        assert brokers.answered == []
        if len(after) == 2:
            manager.send(ONE, numbered(3))
        await manager.delivered(ONE)
        assert brokers.answered == ([(ONE, 3)] if len(after) == 2 else [])

    run(scenario)


def test_a_broker_that_stays_keeps_its_connection_and_its_queue() -> None:
    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        manager.send(ONE, numbered(1))
        manager.set_brokers([live_broker(1), live_broker(3)])
        await manager.delivered(ONE)
        assert brokers.answered == [(ONE, 1)]

    run(scenario)


def test_after_its_end_nobody_is_told_anything() -> None:
    """A session that expires ends a controller, also while an event is under way."""

    async def scenario(brokers: Scripted, manager: ChannelManager) -> None:
        manager.close()
        manager.set_brokers([live_broker(1)])
        manager.send(ONE, numbered(1))
        await manager.delivered(ONE)
        await asyncio.sleep(1)
        assert brokers.asked == []

    run(scenario)


def test_the_own_broker_is_asked_by_a_call() -> None:
    class States:
        async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
            return LeaderAndIsrResponse(error_code=1)

        async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
            return UpdateMetadataResponse(error_code=2)

        async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
            return StopReplicaResponse(error_code=3)

    async def main(loop: VirtualLoop) -> None:
        own = OwnBroker(States())
        told = await own.call(LeaderAndIsrRequest(), LeaderAndIsrResponse, 7)
        updated = await own.call(UpdateMetadataRequest(), UpdateMetadataResponse, 8)
        stopped = await own.call(StopReplicaRequest(), StopReplicaResponse, 4)
        assert (told.error_code, updated.error_code, stopped.error_code) == (1, 2, 3)
        own.close()

    run_virtual(main)
