from __future__ import annotations

import asyncio
import random

import pytest

from ottla.coordination import znodes
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.registration import end_adoption, prepare_store, register_broker
from ottla.testing.store import MemoryEnsemble, MemoryStore

INFO = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),))
OTHER_INFO = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9093),))


def test_brokers_that_start_together_agree_on_the_cluster_id() -> None:
    async def main() -> None:
        ensemble = MemoryEnsemble()
        stores = [MemoryStore(ensemble) for _ in range(3)]
        for store in stores:
            await store.open()
        prepared = await asyncio.gather(
            *(prepare_store(store, random.Random(seed)) for seed, store in enumerate(stores))
        )
        (cluster_id,) = {one.cluster_id for one in prepared}
        assert len(cluster_id) == 22
        again = await prepare_store(stores[0], random.Random(99), cluster_id="another")
        assert again == (cluster_id, True)
        for store in stores:
            await end_adoption(store)
            assert await prepare_store(store, random.Random(99)) == (cluster_id, False)
        for path in znodes.PERSISTENT_PATHS:
            assert await stores[0].exists(path)

    asyncio.run(main())


def test_each_registration_has_a_greater_epoch() -> None:
    async def main() -> None:
        store = MemoryStore(MemoryEnsemble())
        await store.open()
        await prepare_store(store, random.Random(0))
        first = await register_broker(store, BrokerId(1), INFO)
        await store.close()
        await store.open()
        second = await register_broker(store, BrokerId(1), INFO)
        assert second.epoch > first.epoch
        assert second.endpoints["PLAINTEXT"].port == 9092

    asyncio.run(main())


def test_an_id_that_is_taken_is_refused() -> None:
    async def main() -> None:
        ensemble = MemoryEnsemble()
        one, two = MemoryStore(ensemble), MemoryStore(ensemble)
        await one.open()
        await two.open()
        await prepare_store(one, random.Random(0))
        await register_broker(one, BrokerId(1), INFO)
        with pytest.raises(KafkaError, match="id 1 is running") as caught:
            await register_broker(two, BrokerId(1), OTHER_INFO)
        assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION

    asyncio.run(main())


def test_ones_own_registration_of_before_a_crash_is_waited_for() -> None:
    async def main() -> None:
        ensemble = MemoryEnsemble()
        crashed, store = MemoryStore(ensemble), MemoryStore(ensemble)
        await crashed.open()
        await store.open()
        await prepare_store(store, random.Random(0))
        before = await register_broker(crashed, BrokerId(1), INFO)
        later = INFO._replace(timestamp_ms=1, rack="other")
        registering = asyncio.ensure_future(register_broker(store, BrokerId(1), later))
        await asyncio.sleep(0.01)
        assert not registering.done()
        ensemble.expire(crashed)
        assert (await registering).epoch > before.epoch

    asyncio.run(main())


def test_a_cluster_id_that_the_log_dirs_know_is_kept() -> None:
    async def main() -> None:
        store = MemoryStore(MemoryEnsemble())
        await store.open()
        prepared = await prepare_store(store, random.Random(0), cluster_id="from-the-log-dirs")
        assert prepared == ("from-the-log-dirs", True)

    asyncio.run(main())
