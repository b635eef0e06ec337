from __future__ import annotations

import asyncio

import pytest

from ottla.testing.machine import APPEND, STORE_WRITE
from ottla.testing.simulation.cluster import STATE_CHANGE
from ottla.testing.simulation.fault_kinds import KINDS
from ottla.testing.simulation.faults import TRANSACTION_STEP, Faults
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def stir(faults: Faults, number: int) -> None:
    """All that a fault may wait for."""
    faults.acknowledged(T0)
    for event in (APPEND, STORE_WRITE, STATE_CHANGE, TRANSACTION_STEP):
        faults.happened(event, number % 3 + 1)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_a_fault_has_done_heals(kind: str) -> None:
    async def test(quiet: QuietCluster) -> None:
        cluster = quiet.cluster
        faults = Faults(cluster, ["client"])
        faults.begin(KINDS[kind])
        for number in range(200):
            await asyncio.sleep(0.05)
            stir(faults, number)
        assert faults.names[0] == f"{kind}:1"
        assert faults.names[0] in {entry.text for entry in quiet.trace.entries}
        await faults.heal()
        async with asyncio.timeout(60):
            while cluster.unhealed():
                await asyncio.sleep(0.1)

    with_quiet_cluster(test)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_of_a_kind_only_those_take_place_that_are_kept(kind: str) -> None:
    async def test(quiet: QuietCluster) -> None:
        faults = Faults(quiet.cluster, ["client"], kept={f"{kind}:2"})
        faults.begin(KINDS[kind])
        for number in range(600):
            await asyncio.sleep(0.05)
            stir(faults, number)
            if faults.names:
                break
        await asyncio.sleep(10)
        assert faults.names == [f"{kind}:2"]
        await faults.heal()

    with_quiet_cluster(test)
