"""A bit of one replica's files is another one when its broker starts again. Whatever it does about
it, nobody else's log changes, and the cluster serves what was acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from ottla.testing.disk import SimulatedDisk
from ottla.testing.history.replica_log import read_replica_logs
from tests.support.counts import count
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster
from tests.support.stage import Stage

FOLDER = "/data/t-0"
NAMES_THE_TOPIC = "partition.metadata"
"""Whose log it is has to be known: it is offline until somebody looks."""
NAMES_THE_BROKER = "/data/meta.properties"
"""Whose log dir it is has to be known as well: its broker does not start."""


def files_of(disk: SimulatedDisk) -> list[str]:
    """Of the partition, and of the log dir."""
    files = [f"{FOLDER}/{name}" for name in disk.list_folder(FOLDER)]
    files += [f"/data/{name}" for name in disk.list_folder("/data")]
    return [path for path in files if not disk.is_folder(path) and disk.size(path)]


class Bit(NamedTuple):
    file: str
    at: int
    number: int


FIRST_LOG = f"{FOLDER}/00000000000000000000.log"
KNOWN = (
    Bit(f"{FOLDER}/{NAMES_THE_TOPIC}", 0, 3),
    Bit(f"{FOLDER}/leader-epoch-checkpoint", 4, 2),
    Bit(FIRST_LOG, 2, 1),  # of a base offset
    Bit(FIRST_LOG, 12, 4),  # of a leader epoch
    Bit(FIRST_LOG, 40, 4),
)
"""Each has stopped a broker, or its replica, for ever; and one that the CRC finds."""


def any_bit(rng: random.Random, disk: SimulatedDisk) -> Bit:
    path = rng.choice([each for each in files_of(disk) if each != NAMES_THE_BROKER])
    return Bit(path, rng.randrange(disk.size(path)), rng.randrange(8))


@pytest.mark.parametrize("bit", KNOWN, ids=str)
def test_a_bit_that_has_done_harm_costs_one_log_at_most(bit: Bit) -> None:
    rot(0, lambda disk: bit)


@pytest.mark.parametrize("seed", range(count(100, quick=6)))
def test_one_replicas_rot_does_not_spread(seed: int) -> None:
    rng = random.Random(seed)
    rot(seed, lambda disk: any_bit(rng, disk))


def rot(seed: int, choose: Callable[[SimulatedDisk], Bit]) -> None:
    rng = random.Random(seed)

    async def test(quiet: QuietCluster) -> None:
        stage = Stage(quiet)
        for _ in range(40):
            await stage.write()
        await asyncio.sleep(2)
        rotten = rng.choice(stage.others())
        stage.kill(rotten)
        disk = stage.cluster.machines[rotten].disk
        bit = choose(disk)
        path = bit.file
        disk.flip_bit(*bit)
        stage.cluster.wanted[rotten] = True
        await asyncio.sleep(8)
        await stage.write()
        await asyncio.sleep(3)
        assert await stage.read() == stage.written
        assert rotten in stage.cluster.up, path
        if T0 in stage.cluster.machines[rotten].broker.logs.damaged:
            assert path.endswith(NAMES_THE_TOPIC), path
            disk.remove(path)  # As the log of the broker says.
            stage.kill(rotten)
            stage.cluster.wanted[rotten] = True
            await asyncio.sleep(8)
        assert not stage.cluster.unhealed(), path
        for broker_id, machine in stage.cluster.machines.items():
            for log in read_replica_logs(machine.disk, broker_id, "/data", "t"):
                if log.partition == T0:
                    values = [value for batch in log.batches for _, value in batch.values]
                    assert values == stage.written, f"on broker {broker_id}, {path} on {rotten}"
        stage.client.close()

    with_quiet_cluster(test, seed=seed)
