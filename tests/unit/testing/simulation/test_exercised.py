from __future__ import annotations

import asyncio

from ottla.testing.history.events import Acknowledged, Ended, Event, Outcome
from ottla.testing.simulation.exercised import NAMES, count_exercised
from ottla.testing.simulation.fault_kinds import KINDS
from tests.support.quiet_cluster import QuietCluster, with_quiet_cluster


def test_what_happened_is_counted_and_what_did_not_is_there_with_zero() -> None:
    async def test(quiet: QuietCluster) -> None:
        cluster = quiet.cluster
        cluster.kill(1)
        await asyncio.sleep(5)  # Its session is over, and it has come back.
        cluster.lose_power(2)
        await asyncio.sleep(5)
        history: list[Event] = [
            Acknowledged("c", "v", 0),
            Ended("c", "x", Outcome.COMMITTED),
            Ended("c", "y", Outcome.ABORTED),
            Ended("c", "z", Outcome.ABORTED),
        ]
        found = count_exercised(cluster, history, ["kill:1", "lose_power:1", "kill:2"], 4)
        assert list(found) == [*NAMES, *(f"fault {kind}" for kind in sorted(KINDS))]
        assert (found["kills"], found["losses of power"], found["restarts"]) == (1, 1, 2)
        assert found["elections"] > 0
        assert found["ISR expands"] > 0
        assert (found["fault kill"], found["fault lose_power"], found["fault pause"]) == (2, 1, 0)
        assert found["records acknowledged"] == 1
        assert (found["transactions committed"], found["transactions aborted"]) == (1, 2)
        assert (found["rebalances"], found["pauses"], found["clean stops"]) == (4, 0, 0)

    with_quiet_cluster(test)
