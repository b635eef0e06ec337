from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.replication.delayed_produce import DelayedProduces
from ottla.replication.uncommitted import Uncommitted
from ottla.storage.pending_write import Appended
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual

APPENDED = Appended(0, 0, -1, False)


class Produces:
    """To a partition whose followers do as the test says."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.uncommitted = Uncommitted(lambda end_offset, byte_count: None)
        self.delayed = DelayedProduces(TopicPartition("t", 0), self.uncommitted, VirtualClock(loop))

    def produce(self, timeout_ms: int | None) -> asyncio.Future[Appended]:
        done: asyncio.Future[Appended] = self.loop.create_future()
        self.delayed.add(done, APPENDED, timeout_ms)
        return done

    def commit(self, high_watermark: int) -> None:
        self.uncommitted.commit(high_watermark)
        self.uncommitted.settle(high_watermark)

    @property
    def left_behind(self) -> int:
        return len(self.delayed) + self.uncommitted.parked_count


def with_produces(test: Callable[[Produces], Coroutine[Any, Any, None]]) -> None:
    run_virtual(lambda loop: test(Produces(loop)))


async def error_of(done: asyncio.Future[Appended]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await done
    return caught.value.code


def test_a_produce_is_answered_when_it_is_committed() -> None:
    async def test(produces: Produces) -> None:
        produces.uncommitted.finish(produces.uncommitted.begin(1, 10))
        done = produces.produce(1000)
        await asyncio.sleep(0.9)
        produces.commit(1)
        assert await done is APPENDED
        await asyncio.sleep(1)
        assert produces.left_behind == 0
        assert await produces.produce(1000) is APPENDED, "it is committed already"

    with_produces(test)


@pytest.mark.parametrize("timeout_ms", [1000, 0, -1])
def test_a_produce_whose_time_is_over_is_told_so_and_leaves_nothing_behind(timeout_ms: int) -> None:
    async def test(produces: Produces) -> None:
        produces.uncommitted.finish(produces.uncommitted.begin(1, 10))
        patient = produces.produce(None)
        done = produces.produce(timeout_ms)
        assert await error_of(done) is ErrorCode.REQUEST_TIMED_OUT
        assert produces.loop.time() == pytest.approx(max(0, timeout_ms) / 1000)
        await asyncio.sleep(100)
        assert produces.left_behind == 2, "of the patient one"
        produces.commit(1)
        assert await patient is APPENDED

    with_produces(test)


def test_time_counts_from_when_it_is_written_here() -> None:
    async def test(produces: Produces) -> None:
        step = produces.uncommitted.begin(1, 10)
        done = produces.produce(1000)
        await asyncio.sleep(5)
        assert not done.done()
        produces.uncommitted.finish(step)
        await asyncio.sleep(0.9)
        assert not done.done()
        assert await error_of(done) is ErrorCode.REQUEST_TIMED_OUT

    with_produces(test)


def test_nobody_waits_for_replicas_that_are_not_in_sync() -> None:
    async def test(produces: Produces) -> None:
        produces.uncommitted.finish(produces.uncommitted.begin(1, 10))
        waiting = [produces.produce(1000), produces.produce(None)]
        coordinator: list[KafkaError | None] = []
        produces.uncommitted.when_committed(coordinator.append)
        produces.delayed.too_few_in_sync("one is left")
        for done in waiting:
            assert await error_of(done) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert coordinator == [], "what a coordinator has replayed stands"
        produces.commit(1)
        assert coordinator == [None]

    with_produces(test)


def test_a_leader_that_is_no_more_answers() -> None:
    async def test(produces: Produces) -> None:
        produces.uncommitted.finish(produces.uncommitted.begin(1, 10))
        done = produces.produce(1000)
        produces.uncommitted.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert await error_of(done) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(0)
        assert produces.left_behind == 0

    with_produces(test)


def test_a_produce_whose_client_is_gone_leaves_nothing_behind() -> None:
    async def test(produces: Produces) -> None:
        produces.uncommitted.finish(produces.uncommitted.begin(1, 10))
        produces.produce(1000).cancel()
        await asyncio.sleep(0)
        assert produces.left_behind == 0
        produces.commit(1)

    with_produces(test)
