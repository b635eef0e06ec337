from __future__ import annotations

import asyncio

import pytest

from ottla.testing.machine import APPEND, STORE_WRITE
from ottla.testing.simulation.cluster import STATE_CHANGE
from ottla.testing.simulation.fault_kinds import KINDS
from ottla.testing.simulation.faults import TRANSACTION_STEP, Faults
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_a_fault_has_done_heals(kind: str) -> None:
    async def test(quiet: QuietCluster) -> None:
        cluster = quiet.cluster
        faults = Faults(cluster, ["client"])
        count = len(quiet.trace.lines)
        faults.begin(KINDS[kind])
        for number in range(200):
            await asyncio.sleep(0.05)
            faults.acknowledged(T0)
            for event in (APPEND, STORE_WRITE, STATE_CHANGE, TRANSACTION_STEP):
                faults.happened(event, number % 3 + 1)
        assert len(quiet.trace.lines) > count, "it does something"
        await faults.heal()
        async with asyncio.timeout(60):
            while cluster.unhealed():
                await asyncio.sleep(0.1)

    with_quiet_cluster(test)
