from __future__ import annotations

import asyncio
import gc
import random

import pytest

from ottla.coordination.znodes import decode_producer_id_block
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, ProducerId
from ottla.membership.producer_ids import (
    ProducerIds,
    blocks_of_controller,
    skip_used_producer_ids,
)
from ottla.membership.registration import prepare_store
from ottla.testing.store import MemoryEnsemble, MemoryStore
from ottla.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def prepared(ensemble: MemoryEnsemble) -> MemoryStore:
    store = MemoryStore(ensemble)
    await store.open()
    await prepare_store(store, random.Random(0))
    return store


def test_ids_that_logs_know_are_skipped() -> None:
    async def main() -> None:
        store = await prepared(MemoryEnsemble())
        path = "/latest_producer_id_block"
        for last_used, last_of_block in ((-1, None), (5, 5), (2500, 2500), (7, 2500)):
            await skip_used_producer_ids(store, BrokerId(7), ProducerId(last_used))
            block = decode_producer_id_block((await store.get(path)).data)
            assert (block and block.last_producer_id) == last_of_block

    asyncio.run(main())


class ScriptedController:
    def __init__(self, *answers: AllocateProducerIdsResponse | Exception) -> None:
        self.asked: list[AllocateProducerIdsRequest] = []
        self._answers = list(answers)

    async def ask(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def block(first: int, count: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=count)


def test_the_controller_gives_out_blocks() -> None:
    async def main() -> None:
        controller = ScriptedController(block(5000, 2), block(9000, 1000))
        ids = ProducerIds(blocks_of_controller(controller.ask, BrokerId(7), lambda: 42))
        assert [await ids.next() for _ in range(3)] == [5000, 5001, 9000]
        assert controller.asked == [AllocateProducerIdsRequest(broker_id=7, broker_epoch=42)] * 2

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER),
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        block(0, 0),
        KafkaError(ErrorCode.NETWORK_EXCEPTION, "cut"),
        ConnectionError("cut"),
    ],
    ids=repr,
)
def test_when_the_controller_gives_none_clients_are_told_to_come_again(
    answer: AllocateProducerIdsResponse | Exception,
) -> None:
    async def main() -> None:
        controller = ScriptedController(answer, block(5, 1))
        ids = ProducerIds(blocks_of_controller(controller.ask, BrokerId(7), lambda: 42))
        with pytest.raises(KafkaError) as raised:
            await ids.next()
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await ids.next() == 5

    asyncio.run(main())


def test_callers_at_once_never_share_an_id() -> None:
    async def main() -> None:
        controller = ScriptedController(*(block(first, 2) for first in range(0, 10, 2)))
        ids = ProducerIds(blocks_of_controller(controller.ask, BrokerId(7), lambda: 42))
        given = await asyncio.gather(*(ids.next() for _ in range(10)))
        assert sorted(given) == list(range(10))

    asyncio.run(main())


def test_a_refusal_that_nobody_waits_for_any_more_is_no_error_of_the_loop() -> None:
    """The client has left meanwhile. In Python 3.11 `shield` then leaves it to others to ask."""

    async def main() -> None:
        unhandled: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: unhandled.append(context)
        )
        answered = asyncio.Event()

        async def refuse(_: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
            await answered.wait()
            return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)

        ids = ProducerIds(blocks_of_controller(refuse, BrokerId(7), lambda: 42))
        asking = asyncio.create_task(ids.next())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        answered.set()
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        assert unhandled == []

    asyncio.run(main())
