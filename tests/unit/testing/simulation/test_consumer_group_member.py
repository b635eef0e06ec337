from __future__ import annotations

import asyncio

from ottla.testing.history.checker import find_anomalies
from ottla.testing.history.events import OffsetsCommitted, Polled, Send
from ottla.testing.simulation.consumer_group_member import ConsumerGroupMember
from ottla.testing.simulation.idempotent_producer import IdempotentProducer
from tests.support.quiet_cluster import T0, T1, QuietCluster, with_quiet_cluster


def test_a_group_reads_everything_and_its_members_hand_over_what_they_read() -> None:
    async def test(quiet: QuietCluster) -> None:
        clients = [quiet.client(name) for name in ("p", "c0", "c1")]
        producer = IdempotentProducer(clients[0], [T0, T1], quiet.now_ms, lambda _: None)
        consumers = [ConsumerGroupMember(client, "g", ["t"]) for client in clients[1:]]
        writing = asyncio.create_task(producer.run())
        reading = [asyncio.create_task(each.run()) for each in consumers]
        await asyncio.sleep(5)
        clients[0].is_stopping = True
        await writing
        await asyncio.sleep(2)
        for client in clients[1:]:
            client.is_stopping = True
        await asyncio.gather(*reading)
        sent = {event.value for event in quiet.history if isinstance(event, Send)}
        read = {
            record.value
            for event in quiet.history
            if isinstance(event, Polled)
            for record in event.records
        }
        assert read == sent
        assert quiet.events(OffsetsCommitted)
        assert all(each.rebalance_count for each in consumers)
        assert find_anomalies(quiet.history) == []
        for client in clients:
            client.close()

    with_quiet_cluster(test)
