from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.testing.history.events import Acknowledged, Send
from ottla.testing.simulation.idempotent_producer import (
    Batch,
    ForgottenBatch,
    IdempotentProducer,
)
from ottla.testing.simulation.sending import Sequences
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


def test_a_batch_that_a_snapshot_has_forgotten_is_told_from_one_that_is_out_of_order() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("p")
        producer = IdempotentProducer(client, [T0], quiet.now_ms, lambda _: None)
        sequences = Sequences(ProducerIdAndEpoch(7, 0))
        batches = []
        for value in "ab":
            client.history.add(Send(client.name, value, T0))
            batches.append(Batch([value], sequences.batch(T0, [value], quiet.now_ms())))
        assert await producer._send(T0, batches) == []
        leader = quiet.cluster.machines[await client.leader_of(T0)].broker.replicas.hosted(T0)
        assert leader is not None
        leader.log.producer_state.producers[7].batches.popleft()
        with pytest.raises(AssertionError, match="OUT_OF_ORDER"):
            await producer._send(T0, batches[:1])
        batches[0].was_followed = True
        with pytest.raises(ForgottenBatch):
            await producer._send(T0, batches[:1])
        client.close()

    with_quiet_cluster(test)
