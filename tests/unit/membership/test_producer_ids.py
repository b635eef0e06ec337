from __future__ import annotations

import asyncio
import random

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, ProducerId
from ottla.membership.producer_ids import ProducerIds
from ottla.membership.registration import prepare_store
from ottla.testing.store import MemoryEnsemble, MemoryStore


async def prepared(ensemble: MemoryEnsemble) -> MemoryStore:
    store = MemoryStore(ensemble)
    await store.open()
    await prepare_store(store, random.Random(0))
    return store


def test_ids_come_from_blocks_that_the_store_remembers() -> None:
    async def main() -> None:
        store = await prepared(MemoryEnsemble())
        ids = ProducerIds(store, BrokerId(7))
        assert [await ids.next() for _ in range(1001)] == list(range(1001))
        node = await store.get("/latest_producer_id_block")
        assert node.data == (b'{"version":1,"broker":7,"block_start":"1000","block_end":"1999"}')
        # A restart: the rest of the block is wasted, none is given twice.
        assert await ProducerIds(store, BrokerId(7)).next() == 2000

    asyncio.run(main())


def test_ids_that_logs_know_are_skipped() -> None:
    async def main() -> None:
        store = await prepared(MemoryEnsemble())
        for last_used, expected in ((-1, 0), (5, 1000), (2500, 2501)):
            ids = ProducerIds(store, BrokerId(7))
            await ids.skip(ProducerId(last_used))
            assert await ids.next() == expected

    asyncio.run(main())


def test_brokers_and_callers_at_once_never_share_an_id() -> None:
    async def main() -> None:
        ensemble = MemoryEnsemble()
        brokers = [ProducerIds(await prepared(ensemble), BrokerId(broker)) for broker in range(3)]
        calls = [ids.next() for _ in range(1500) for ids in brokers]
        given = await asyncio.gather(*calls)
        assert len(set(given)) == len(given)

    asyncio.run(main())


def test_when_the_store_is_away_clients_are_told_to_come_again() -> None:
    async def main() -> None:
        ensemble = MemoryEnsemble()
        store = await prepared(ensemble)
        ids = ProducerIds(store, BrokerId(1))
        ensemble.disconnect(store)
        calls = [asyncio.ensure_future(ids.next()) for _ in range(3)]
        await asyncio.wait(calls)
        for call in calls:
            error = call.exception()
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ensemble.reconnect(store)
        assert await ids.next() == 0

    asyncio.run(main())


def test_an_answer_that_was_lost_wastes_a_block_and_repeats_none() -> None:
    async def main() -> None:
        ensemble = MemoryEnsemble()
        store = await prepared(ensemble)
        ids = ProducerIds(store, BrokerId(1))
        ensemble.lose_next_answer(store)
        with pytest.raises(KafkaError):
            await ids.next()
        assert await ids.next() == 1000

    asyncio.run(main())


def test_when_all_are_given_out_it_says_so() -> None:
    async def main() -> None:
        store = await prepared(MemoryEnsemble())
        last = 2**63 - 1
        block = f'{{"version":1,"broker":1,"block_start":"{last - 999}","block_end":"{last}"}}'
        await store.set("/latest_producer_id_block", block.encode())
        with pytest.raises(KafkaError, match="All producer ids"):
            await ProducerIds(store, BrokerId(1)).next()

    asyncio.run(main())
