from __future__ import annotations

from ottla.testing.simulation.faults import ACKNOWLEDGED, Faults
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def test_listeners_hear_who_it_was_until_all_heals() -> None:
    async def test(quiet: QuietCluster) -> None:
        heard: list[int] = []
        faults = Faults(quiet.cluster, [])
        faults.acknowledged(T0)
        faults.listeners[ACKNOWLEDGED] = heard.append
        faults.acknowledged(T0)
        assert heard == [quiet.cluster.leader_of(T0)]
        await faults.heal()
        faults.acknowledged(T0)
        assert len(heard) == 1

    with_quiet_cluster(test)
