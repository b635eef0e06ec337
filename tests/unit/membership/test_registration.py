from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.coordination import znodes
from ottla.coordination.store import ConnectionLost, Node
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.registration import (
    Registration,
    end_adoption,
    prepare_store,
    register_broker,
)
from ottla.membership.session import RETRY_S
from ottla.metadata.image import BrokerImage
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.store import MemoryEnsemble, MemoryStore

INFO = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),))
OTHER_INFO = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9093),))
CLUSTER_ID = "the-cluster"


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


def test_a_store_of_an_earlier_version_gets_what_it_lacks() -> None:
    async def main() -> None:
        store = MemoryStore(MemoryEnsemble())
        await store.open()
        await prepare_store(store, random.Random(0))
        await store.delete(znodes.BROKER_RUNS)
        await prepare_store(store, random.Random(0))
        assert await store.exists(znodes.BROKER_RUNS)

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


class Registered:
    """A broker with a place in the cluster, on a store whose session can end."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.epochs: list[int] = []
        self.failures: list[str] = []
        self.registration = Registration(
            store,
            BrokerId(1),
            INFO,
            CLUSTER_ID,
            on_renewed=self._renewed,
            on_failure=self.failures.append,
        )

    async def _renewed(self, broker: BrokerImage) -> None:
        self.epochs.append(broker.epoch)


def with_registered(
    scenario: Callable[[Registered, MemoryEnsemble], Coroutine[Any, Any, None]],
    store_class: type[MemoryStore] = MemoryStore,
) -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        store = store_class(ensemble)
        await store.open()
        await prepare_store(store, random.Random(0), cluster_id=CLUSTER_ID)
        broker = Registered(store)
        first = await broker.registration.start()
        assert broker.registration.epoch == first.epoch
        await scenario(broker, ensemble)
        await broker.registration.close()

    run_virtual(main)


def test_a_broker_whose_session_has_expired_registers_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "ottla.state_change")

    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        first = broker.registration.epoch
        ensemble.expire(broker.store)
        await asyncio.sleep(0.1)
        assert broker.epochs == [broker.registration.epoch]
        assert broker.registration.epoch > first
        assert ensemble.get("/brokers/ids/1").ephemeral_owner == broker.store.session_id
        ensemble.expire(broker.store)
        await asyncio.sleep(0.1)
        assert len(broker.epochs) == 2
        assert not broker.failures

    with_registered(scenario)
    states = [each.message for each in caplog.records if each.name == "ottla.state_change"]
    assert states == [f"broker 1: its session is {each}" for each in ("expired", "connected")] * 2


class StoreThatExpiresBehindAnAnswer(MemoryStore):
    """Its session is over when the first answer is on its way to whoever asked."""

    is_first = True

    async def get(self, path: str) -> Node:
        node = await super().get(path)
        if path == "/brokers/ids/1" and self.is_first:
            self.is_first = False
            self._ensemble.expire(self)
        return node


def test_a_session_that_expires_as_the_first_registration_is_answered_is_not_missed() -> None:
    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        await asyncio.sleep(RETRY_S * 2)
        assert broker.epochs == [ensemble.get("/brokers/ids/1").czxid]

    with_registered(scenario, StoreThatExpiresBehindAnAnswer)


def test_a_broker_that_stops_does_not_register_again() -> None:
    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        await broker.registration.close()
        ensemble.expire(broker.store)
        await asyncio.sleep(RETRY_S * 2)
        assert broker.epochs == []
        assert not ensemble.exists("/brokers/ids/1")

    with_registered(scenario)


class StoreThatIsAway(MemoryStore):
    """For the first seconds after its session is over."""

    fails_left = 3

    async def open(self) -> None:
        if self.session_id and self.fails_left:
            self.fails_left -= 1
            raise ConnectionLost("", "nobody answers")
        await super().open()


def test_a_store_that_is_away_is_asked_until_it_is_back() -> None:
    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        ensemble.expire(broker.store)
        await asyncio.sleep(RETRY_S * 2)
        assert not ensemble.exists("/brokers/ids/1")
        await asyncio.sleep(RETRY_S * 2)
        assert ensemble.exists("/brokers/ids/1")
        assert len(broker.epochs) == 1

    with_registered(scenario, StoreThatIsAway)


def test_an_id_that_another_broker_took_meanwhile_is_waited_for() -> None:
    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        other = MemoryStore(ensemble)
        await other.open()
        ensemble.expire(broker.store)
        await register_broker(other, BrokerId(1), OTHER_INFO)
        await asyncio.sleep(RETRY_S * 3)
        assert broker.epochs == []
        await other.close()
        await asyncio.sleep(RETRY_S * 2)
        assert len(broker.epochs) == 1

    with_registered(scenario)


def test_a_lost_answer_is_no_second_registration() -> None:
    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        ensemble.lose_next_answer(broker.store)
        ensemble.expire(broker.store)
        await asyncio.sleep(RETRY_S * 2)
        assert broker.epochs == [ensemble.get("/brokers/ids/1").czxid]

    with_registered(scenario)


def test_nobody_registers_in_the_store_of_another_cluster() -> None:
    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        ensemble.expire(broker.store)
        other = MemoryStore(ensemble)
        await other.open()
        await other.delete("/cluster/id")
        await asyncio.sleep(RETRY_S)
        (failure,) = broker.failures
        assert f"not the one of cluster {CLUSTER_ID} any more" in failure
        assert not ensemble.exists("/brokers/ids/1")

    with_registered(scenario)


def test_a_broker_that_stops_does_not_register_anew() -> None:
    async def scenario(broker: Registered, ensemble: MemoryEnsemble) -> None:
        ensemble.expire(broker.store)
        await broker.registration.close()
        await asyncio.sleep(RETRY_S)
        assert not ensemble.exists("/brokers/ids/1")

    with_registered(scenario)


def test_a_cluster_id_that_the_log_dirs_know_is_kept() -> None:
    async def main() -> None:
        store = MemoryStore(MemoryEnsemble())
        await store.open()
        prepared = await prepare_store(store, random.Random(0), cluster_id="from-the-log-dirs")
        assert prepared == ("from-the-log-dirs", True)

    asyncio.run(main())


def test_what_may_not_be_whole_is_said_until_the_controller_has_heard_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        store = MemoryStore(ensemble)
        await store.open()
        prepared = await prepare_store(store, random.Random(0))

        async def renewed(broker: BrokerImage) -> None:
            pass

        info = INFO._replace(unclean_log_dirs=("/data",))
        registration = Registration(
            store,
            BrokerId(1),
            info,
            prepared.cluster_id,
            on_renewed=renewed,
            on_failure=pytest.fail,
        )
        await registration.start()
        for difference, expected in ((-1, ("/data",)), (0, ())):
            registration.seen_by_controller(registration.epoch + difference)
            ensemble.expire(store)
            await asyncio.sleep(RETRY_S)
            node = await store.get(znodes.broker_path(1))
            assert znodes.decode_broker(1, node.data).unclean_log_dirs == expected
        await registration.close()

    run_virtual(main)


def test_a_session_that_is_over_as_soon_as_it_is_open_is_followed_by_another() -> None:
    class OverAtOnce(MemoryStore):
        count = 0

        async def open(self) -> None:
            await super().open()
            self.count += 1
            if self.count == 2:
                ensemble.expire(self)

    async def main(loop: VirtualLoop) -> None:
        store = OverAtOnce(ensemble)
        await store.open()
        prepared = await prepare_store(store, random.Random(0))

        async def renewed(broker: BrokerImage) -> None:
            pass

        registration = Registration(
            store,
            BrokerId(1),
            INFO,
            prepared.cluster_id,
            on_renewed=renewed,
            on_failure=pytest.fail,
        )
        await registration.start()
        first = registration.epoch
        ensemble.expire(store)
        await asyncio.sleep(5 * RETRY_S)
        assert registration.epoch > first
        assert (await store.get(znodes.broker_path(1))).czxid == registration.epoch
        await registration.close()

    ensemble = MemoryEnsemble()
    run_virtual(main)


def test_a_session_that_is_over_as_soon_as_it_is_registered_is_followed_by_another() -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        store = MemoryStore(ensemble)
        await store.open()
        prepared = await prepare_store(store, random.Random(0))
        epochs: list[int] = []

        async def renewed(broker: BrokerImage) -> None:
            epochs.append(broker.epoch)
            if len(epochs) == 1:
                ensemble.expire(store)

        registration = Registration(
            store,
            BrokerId(1),
            INFO,
            prepared.cluster_id,
            on_renewed=renewed,
            on_failure=pytest.fail,
        )
        await registration.start()
        ensemble.expire(store)
        await asyncio.sleep(5 * RETRY_S)
        assert len(epochs) == 2
        assert (await store.get(znodes.broker_path(1))).czxid == registration.epoch == epochs[1]
        await registration.close()

    run_virtual(main)
