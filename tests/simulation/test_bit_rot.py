"""A bit of one replica's files is another one when its broker starts again. Whatever it does about
it, nobody else's log changes, and the cluster serves what was acknowledged."""

from __future__ import annotations

import asyncio
import random

import pytest

from ottla.testing.disk import SimulatedDisk
from ottla.testing.history.replica_log import read_replica_logs
from tests.support.counts import count
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster
from tests.support.stage import Stage

FOLDER = "/data/t-0"
STOPS_A_START = "partition.metadata"
"""Of what a log is has to be known: its disk is offline until somebody looks."""


def files_of(disk: SimulatedDisk) -> list[str]:
    """Of the partition, and of the log dir."""
    files = [f"{FOLDER}/{name}" for name in disk.list_folder(FOLDER)]
    files += [f"/data/{name}" for name in disk.list_folder("/data")]
    return [path for path in files if not disk.is_folder(path) and disk.size(path)]


@pytest.mark.parametrize("seed", range(count(100)))
def test_one_replicas_rot_does_not_spread(seed: int) -> None:
    rng = random.Random(seed)

    async def test(quiet: QuietCluster) -> None:
        stage = Stage(quiet)
        for _ in range(40):
            await stage.write()
        await asyncio.sleep(2)
        rotten = rng.choice(stage.others())
        stage.kill(rotten)
        disk = stage.cluster.machines[rotten].disk
        path = rng.choice(files_of(disk))
        disk.flip_bit(path, rng.randrange(disk.size(path)), rng.randrange(8))
        stage.cluster.wanted[rotten] = True
        await asyncio.sleep(8)
        await stage.write()
        await asyncio.sleep(3)
        assert await stage.read() == stage.written
        if not path.endswith(STOPS_A_START):
            assert not stage.cluster.unhealed(), path
        for broker_id, machine in stage.cluster.machines.items():
            for log in read_replica_logs(machine.disk, broker_id, "/data", "t"):
                if log.partition == T0 and rotten in stage.cluster.up:
                    values = [value for batch in log.batches for _, value in batch.values]
                    assert values == stage.written, f"on broker {broker_id}, {path} on {rotten}"
        stage.client.close()

    with_quiet_cluster(test, seed=seed)
