from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.replication.partition import Partition
from ottla.testing.simulation.replica_states import find_differences
from ottla.testing.simulation.sending import Sequences, send_batch
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def forget_producer(partition: Partition) -> None:
    partition.log.producer_state.producers.clear()


def forget_sequence(partition: Partition) -> None:
    partition.log.producer_state.producers[7].next_sequence = 0


def forget_epochs(partition: Partition) -> None:
    partition.log.leader_epochs.assign(9, 1)


def forget_high_watermark(partition: Partition) -> None:
    partition.high_watermark = 0


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (forget_producer, "producers are"),
        (forget_sequence, "next sequence"),
        (forget_epochs, "leader epochs are"),
        (forget_high_watermark, "is committed up to"),
    ],
)
def test_whatever_differs_is_found(change: Callable[[Partition], None], difference: str) -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("p")
        sequences = Sequences(ProducerIdAndEpoch(7, 0))
        for value in "ab":
            await send_batch(client, T0, sequences.batch(T0, [value], quiet.now_ms()))
        client.close()
        await asyncio.sleep(2)
        assert find_differences(quiet.cluster) == []
        replica = quiet.cluster.machines[1].broker.replicas.hosted(T0)
        assert replica is not None
        change(replica)
        assert difference in find_differences(quiet.cluster)[0]

    with_quiet_cluster(test)
