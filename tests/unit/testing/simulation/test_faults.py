from __future__ import annotations

import asyncio

from ottla.testing.simulation.faults import ACKNOWLEDGED, Faults
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def test_listeners_hear_who_it_was_until_all_heals() -> None:
    async def test(quiet: QuietCluster) -> None:
        heard: list[int] = []
        faults = Faults(quiet.cluster, [])
        faults.acknowledged(T0)
        faults.listeners[ACKNOWLEDGED].append(heard.append)
        faults.acknowledged(T0)
        assert heard == [quiet.cluster.leader_of(T0)]
        await faults.heal()
        faults.acknowledged(T0)
        assert len(heard) == 1

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
