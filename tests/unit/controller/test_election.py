from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.controller.election import Leadership, elect, store_failure
from ottla.coordination import znodes
from ottla.coordination.store import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    SessionExpired,
    StoreError,
)
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.testing.store import MemoryEnsemble, MemoryStore


def run(scenario: Callable[[MemoryEnsemble, MemoryStore, MemoryStore], Awaitable[None]]) -> None:
    async def main() -> None:
        ensemble = MemoryEnsemble()
        one, two = MemoryStore(ensemble), MemoryStore(ensemble)
        await one.open()
        await two.open()
        await scenario(ensemble, one, two)

    asyncio.run(main())


async def write(store: MemoryStore, leadership: Leadership, path: str) -> None:
    """As the controller of that epoch."""
    await store.multi([Check(znodes.CONTROLLER_EPOCH, leadership.epoch_version), Create(path)])


def test_the_first_is_controller_and_the_epoch_begins() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        leadership = await elect(one, BrokerId(1), 1234)
        assert leadership is not None
        assert leadership.controller_epoch == 1
        assert await elect(two, BrokerId(2), 1234) is None
        node = await two.get("/controller")
        assert node.data == (
            b'{"version":2,"brokerid":1,"timestamp":"1234","kraftControllerEpoch":-1}'
        )
        assert node.ephemeral_owner == one.session_id
        assert (await two.get("/controller_epoch")).data == b"1"

    run(scenario)


def test_of_several_at_once_one_wins() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        elected = await asyncio.gather(
            elect(one, BrokerId(1), 0), elect(two, BrokerId(2), 0), elect(two, BrokerId(3), 0)
        )
        assert sum(leadership is not None for leadership in elected) == 1
        assert (await two.get("/controller_epoch")).data == b"1"

    run(scenario)


def test_a_successor_has_the_next_epoch_and_the_former_cannot_write() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        first = await elect(one, BrokerId(1), 0)
        assert first is not None
        ensemble.expire(one)
        second = await elect(two, BrokerId(2), 0)
        assert second is not None
        assert second.controller_epoch == 2
        await one.open()  # It has a session again, and still believes.
        with pytest.raises(BadVersion) as caught:
            await write(one, first, "/late")
        assert store_failure(caught.value).code is ErrorCode.NOT_CONTROLLER
        assert not await two.exists("/late")
        await write(two, second, "/right")
        assert await two.exists("/right")

    run(scenario)


def test_an_election_whose_answer_was_lost_is_found() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        await one.create("/controller_epoch", b"4")
        ensemble.lose_next_answer(one)
        with pytest.raises(ConnectionLost):
            await elect(one, BrokerId(1), 0)
        found = await elect(one, BrokerId(1), 0)
        assert found == (5, (await one.get("/controller_epoch")).version)
        assert await elect(two, BrokerId(1), 0) is None

    run(scenario)


def test_without_a_session_or_a_connection_nothing_is_written() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        leadership = await elect(one, BrokerId(1), 0)
        assert leadership is not None
        ensemble.disconnect(one)
        with pytest.raises(ConnectionLost) as disconnected:
            await write(one, leadership, "/a")
        assert store_failure(disconnected.value).code is ErrorCode.REQUEST_TIMED_OUT
        ensemble.expire(one)
        with pytest.raises(SessionExpired) as expired:
            await write(one, leadership, "/a")
        assert store_failure(expired.value).code is ErrorCode.NOT_CONTROLLER
        others = StoreError("/brokers/topics/t", "changed")
        assert store_failure(others).code is ErrorCode.REQUEST_TIMED_OUT
        assert not await two.exists("/a")
        assert not await two.exists(znodes.CONTROLLER)

    run(scenario)
