from __future__ import annotations

import asyncio

from ottla.testing.machine import APPEND, STORE_WRITE
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.cluster import STATE_CHANGE
from ottla.testing.simulation.faults import TRANSACTION_STEP, Faults
from ottla.testing.simulation.idempotent_producer import IdempotentProducer
from ottla.testing.simulation.strikes import strike_coordinator_in_transaction
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def test_whoever_does_something_is_struck() -> None:
    async def test(quiet: QuietCluster) -> None:
        faults = Faults(quiet.cluster, [])
        faults.begin(strike_coordinator_in_transaction)
        await asyncio.sleep(0)
        count = len(quiet.trace.lines)
        for _ in range(1000):
            faults.happened(TRANSACTION_STEP, 2)
            await asyncio.sleep(0.01)
        struck = [line for line in quiet.trace.lines[count:] if "after transaction step" in line]
        assert struck
        assert all("2 after transaction step" in line for line in struck)
        await faults.heal()

    with_quiet_cluster(test)


def test_a_cluster_tells_of_appends_store_writes_and_changes_of_state() -> None:
    async def test(quiet: QuietCluster) -> None:
        heard: set[tuple[str, int]] = set()
        quiet.cluster.on_event = lambda event, broker_id: heard.add((event, broker_id))
        client = quiet.client("p")
        producer = IdempotentProducer(client, [T0], quiet.now_ms, lambda _: None)
        writing = asyncio.create_task(producer.run())
        await Admin(client).create_topic("u", 1, 3, {})
        await asyncio.sleep(1)
        client.is_stopping = True
        await writing
        client.close()
        assert {each for event, each in heard if event == APPEND} == {1, 2, 3}
        assert {each for event, each in heard if event == STATE_CHANGE} == {1, 2, 3}
        assert (STORE_WRITE, quiet.cluster.controller_id()) in heard

    with_quiet_cluster(test)
