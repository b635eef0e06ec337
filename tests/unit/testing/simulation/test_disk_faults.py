from __future__ import annotations

import asyncio
from itertools import pairwise

from ottla.testing.simulation.disk_faults import fail_disk_for_a_while, replace_disk
from ottla.testing.simulation.faults import Faults
from tests.support.quiet_cluster import QuietCluster, with_quiet_cluster


def test_a_broker_whose_disk_fails_ends_and_starts_again_when_it_works() -> None:
    async def test(quiet: QuietCluster) -> None:
        faults = Faults(quiet.cluster, [])
        faults.begin(fail_disk_for_a_while)
        await asyncio.sleep(90)
        await faults.heal()
        text = "\n".join(quiet.trace.lines)
        assert "fails: " in text
        assert "does not start: " in text
        async with asyncio.timeout(60):
            while quiet.cluster.unhealed():
                await asyncio.sleep(0.1)

    with_quiet_cluster(test)


def test_disks_are_replaced_one_at_a_time() -> None:
    async def test(quiet: QuietCluster) -> None:
        faults = Faults(quiet.cluster, [])
        faults.begin(replace_disk)
        count = len(quiet.trace.lines)
        await asyncio.sleep(30)
        await faults.heal()
        events = [
            line.split(maxsplit=1)[1]
            for line in quiet.trace.lines[count:]
            if "gets an empty disk" in line or "has started" in line
        ]
        assert "gets an empty disk" in events[0]
        for one, two in pairwise(events):
            assert ("gets an empty disk" in one) != ("gets an empty disk" in two)

    with_quiet_cluster(test)
