from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.controller.change_plan import ChangePlan
from ottla.controller.topic_planning import NewTopic
from ottla.coordination import znodes
from ottla.coordination.store import BadVersion, SessionExpired
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.testing.loop import VirtualClock
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from tests.unit.controller.brokers import SimulatedCluster, run

T0 = TopicPartition("t", 0)


def test_the_first_is_controller_and_the_others_wait() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        assert cluster.active.id == 1
        assert cluster.active.controller.controller_epoch == 1
        assert cluster.brokers[2].controller.controller_epoch is None
        with pytest.raises(KafkaError) as caught:
            await cluster.brokers[2].controller.topics.create(NewTopic("t"))
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        for request in (AlterPartitionRequest(broker_id=2),):
            answer = await cluster.brokers[2].controller.alter_partition(request, 3)
            assert answer.error_code == ErrorCode.NOT_CONTROLLER
        stopping = ControlledShutdownRequest(broker_id=2)
        refused = await cluster.brokers[2].controller.controlled_shutdown(stopping)
        assert refused.error_code == ErrorCode.NOT_CONTROLLER

    run(scenario)


@pytest.mark.parametrize("is_crash", [False, True])
def test_when_the_controller_goes_another_goes_on_with_the_next_epoch(is_crash: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2, 3))
        first = cluster.brokers[1]
        await (first.crash() if is_crash else first.stop())
        await cluster.settle()
        assert cluster.active.id in (2, 3)
        assert cluster.active.controller.controller_epoch == 2
        assert (await cluster.state("t")).leader == 2
        for each in (2, 3):
            assert cluster.brokers[each].replicas[T0].leader == 2
            assert cluster.brokers[each].controller_epoch == 2

    run(scenario)


def test_a_controller_whose_session_expires_writes_no_more_and_becomes_a_candidate() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = cluster.brokers[1]
        cluster.ensemble.expire(first.store)
        assert not first.controller.is_active
        await cluster.settle()
        assert cluster.active.id in (2, 3)
        await first.store.open()
        await first.register()
        await cluster.settle()
        assert cluster.active.id in (2, 3)
        await cluster.active.stop()
        await cluster.settle()
        assert cluster.active.controller.controller_epoch == 3

    run(scenario)


def test_a_broker_stands_for_election_only_while_it_is_registered() -> None:
    """It would take itself for dead: its leaderships went away, and came back."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        cluster.ensemble.disconnect(cluster.brokers[2].store)
        first = cluster.brokers[1]
        cluster.ensemble.expire(first.store)
        await first.store.open()
        await cluster.settle()
        assert not await cluster.observer.exists(znodes.CONTROLLER)
        await first.register()
        await cluster.settle()
        assert first.controller.is_active
        cluster.ensemble.reconnect(cluster.brokers[2].store)

    run(scenario, ids=[1, 2])


def test_a_zombie_controller_is_refused_by_brokers_and_store() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        zombie = cluster.active.controller._active
        assert zombie is not None
        first = cluster.brokers[1]
        # As if it had slept while its session ended and began anew: it never heard of that.
        await cluster.observer.delete(znodes.CONTROLLER)
        await cluster.settle()
        plan: ChangePlan = zombie.plan()
        plan.requests.update_metadata()
        before = (await cluster.observer.get(znodes.CONTROLLER_EPOCH)).data
        plan.accept(first.id, 12345)
        with pytest.raises(BadVersion, match="/controller_epoch"):
            await zombie.commit(plan)
        assert (await cluster.observer.get(znodes.CONTROLLER_EPOCH)).data == before

    run(scenario)


def test_something_unforeseen_makes_it_resign_and_nothing_of_it_is_kept(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = cluster.active

        async def fail(plan: ChangePlan) -> None:
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(ChangePlan, "operations", fail)
            with pytest.raises(KafkaError, match="The controller failed") as caught:
                await first.controller.topics.create(NewTopic("t", 1, 1))
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert not first.controller.is_active
        await cluster.settle()
        assert cluster.active.controller.controller_epoch == 2
        await cluster.create("t", (1, 2))

    run(scenario)
    assert "a bug" in caplog.text


def test_a_controller_alone_that_resigned_is_elected_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async def fail(plan: ChangePlan) -> None:
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(ChangePlan, "operations", fail)
            with pytest.raises(KafkaError):
                await cluster.active.controller.topics.create(NewTopic("t", 1, 1))
            await cluster.settle(10)
            assert not cluster.brokers[1].controller.is_active
            epoch = int((await cluster.observer.get(znodes.CONTROLLER_EPOCH)).data)
            assert epoch < 15, "it does not try without a pause"
        await cluster.settle()
        assert cluster.brokers[1].controller.is_active

    run(scenario, ids=[1])


def test_one_that_resigned_is_elected_again_by_a_timer_that_is_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop counts from when it last looked at the clock. The pause was not over then, and nobody
    looked again: where `/controller` was still there, the cluster had no controller for good."""
    call_later = VirtualClock.call_later

    def early(
        clock: VirtualClock, delay_s: float, callback: Callable[[], None]
    ) -> asyncio.TimerHandle:
        return call_later(clock, delay_s - 0.001, callback)

    async def scenario(cluster: SimulatedCluster) -> None:
        async def fail(plan: ChangePlan) -> None:
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(ChangePlan, "operations", fail)
            patched.setattr(VirtualClock, "call_later", early)
            with pytest.raises(KafkaError):
                await cluster.active.controller.topics.create(NewTopic("t", 1, 1))
        await cluster.settle(10)
        assert cluster.brokers[1].controller.is_active

    run(scenario, ids=[1])


def test_a_write_whose_answer_was_lost_is_found_in_the_store() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = cluster.active
        cluster.ensemble.lose_next_answer(first.store)
        with pytest.raises(KafkaError) as caught:
            await first.controller.topics.create(NewTopic("t", 1, 1))
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await cluster.settle()
        with pytest.raises(KafkaError) as again:
            await cluster.active.controller.topics.create(NewTopic("t", 1, 1))
        assert again.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

    run(scenario)


def test_an_election_whose_answer_was_lost_does_not_leave_the_office_to_nobody() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.brokers[1].stop()
        cluster.ensemble.lose_next_answer(cluster.brokers[2].store)
        await cluster.settle()
        assert cluster.active.id == 2

    run(scenario, ids=[1, 2])


def test_while_the_store_is_away_requests_are_refused_and_then_it_goes_on() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for broker in cluster.brokers.values():
            cluster.ensemble.disconnect(broker.store)
        with pytest.raises(KafkaError) as caught:
            await cluster.active.controller.topics.create(NewTopic("t", 1, 1))
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await cluster.settle(60)
        for broker in cluster.brokers.values():
            cluster.ensemble.reconnect(broker.store)
        await cluster.settle()
        await cluster.create("t", (1, 2))

    run(scenario)


def test_what_waits_when_it_stops_is_cancelled() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = cluster.active
        waiting = [
            asyncio.create_task(broker.controller.topics.create(NewTopic(name, 1, 1)))
            for name in ("a", "b")
        ]
        await asyncio.sleep(0)
        await broker.stop()
        for task in waiting:
            with pytest.raises((asyncio.CancelledError, KafkaError)):
                await task
        with pytest.raises(SessionExpired):
            await broker.store.get("/")
        await cluster.settle()

    run(scenario)
