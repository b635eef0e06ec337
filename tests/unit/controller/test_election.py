from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.controller.election import ControllerWriter, elect
from ottla.coordination import znodes
from ottla.coordination.image import ClusterImage
from ottla.coordination.store import Create
from ottla.kernel.errors import ErrorCode, KafkaError
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
        with pytest.raises(KafkaError) as caught:
            await ControllerWriter(one, ClusterImage(), first).write([Create("/late")])
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        assert not await two.exists("/late")
        await ControllerWriter(two, ClusterImage(), second).write([Create("/right")])
        assert await two.exists("/right")

    run(scenario)


def test_without_a_session_or_a_connection_nothing_is_written() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        leadership = await elect(one, BrokerId(1), 0)
        assert leadership is not None
        writer = ControllerWriter(one, ClusterImage(), leadership)
        ensemble.disconnect(one)
        with pytest.raises(KafkaError) as disconnected:
            await writer.write([Create("/a")])
        assert disconnected.value.code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(KafkaError) as still_disconnected:
            await writer.refresh()
        assert still_disconnected.value.code is ErrorCode.REQUEST_TIMED_OUT
        ensemble.expire(one)
        for call in (writer.refresh(), writer.write([Create("/a")])):
            with pytest.raises(KafkaError) as expired:
                await call
            assert expired.value.code is ErrorCode.NOT_CONTROLLER
        assert not await two.exists("/a")
        assert not await two.exists(znodes.CONTROLLER)

    run(scenario)
