from __future__ import annotations

import asyncio

from ottla.testing.history.events import Acknowledged, Send
from ottla.testing.simulation.idempotent_producer import IdempotentProducer
from tests.support.quiet_cluster import T0, T1, QuietCluster, with_quiet_cluster


def test_everything_is_acknowledged_once_though_leaders_die() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("p")
        producer = IdempotentProducer(
            client, [T0, T1], quiet.now_ms, lambda partition: quiet.acknowledged.append(partition)
        )
        running = asyncio.create_task(producer.run())
        await asyncio.sleep(2)
        for partition in (T0, T1):
            leader = quiet.cluster.leader_of(partition)
            if leader in quiet.cluster.running():
                assert leader is not None
                quiet.cluster.kill(leader)
        await asyncio.sleep(5)
        client.is_stopping = True
        await running
        sent = {event.value for event in quiet.history if isinstance(event, Send)}
        told = [event.value for event in quiet.history if isinstance(event, Acknowledged)]
        assert sorted(sent) == sorted(told)
        assert {*quiet.acknowledged} == {T0, T1}
        client.close()

    with_quiet_cluster(test)
