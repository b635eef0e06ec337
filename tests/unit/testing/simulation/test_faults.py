from __future__ import annotations

import asyncio

import pytest

from ottla.testing.simulation.faults import KINDS, Faults
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_a_fault_has_done_heals(kind: str) -> None:
    async def test(quiet: QuietCluster) -> None:
        cluster = quiet.cluster
        faults = Faults(cluster, ["client"])
        faults.begin(KINDS[kind])
        for _ in range(200):
            await asyncio.sleep(0.05)
            faults.acknowledged(T0)
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
        for _ in range(600):
            await asyncio.sleep(0.05)
            faults.acknowledged(T0)
            if faults.names:
                break
        await asyncio.sleep(10)
        assert faults.names == [f"{kind}:2"]
        await faults.heal()

    with_quiet_cluster(test)


def test_a_fault_draws_the_same_whichever_are_left_out() -> None:
    """Else to leave out one would change all that come after it."""

    def draws(kept: set[str]) -> list[float]:
        found = []

        async def kind(faults: Faults) -> None:
            while True:
                await faults.due(kind)
                found.append(faults.rng.random())

        async def test(quiet: QuietCluster) -> None:
            faults = Faults(quiet.cluster, ["client"], kept)
            faults.begin(kind)
            await asyncio.sleep(20)
            await faults.heal()

        with_quiet_cluster(test)
        return found

    both = draws({"kind:2", "kind:5"})
    assert len(set(both)) == 2
    assert draws({"kind:5"}) == both[1:]
