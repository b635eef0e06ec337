"""What is done to the disks of a cluster: they fail, fill up, stand still, and forget."""

from __future__ import annotations

import asyncio
import errno

from ottla.storage.file_names import LOG_SUFFIX
from ottla.testing.disk import Fault
from ottla.testing.simulation.faults import Faults
from ottla.testing.workers import DELAY_S_MAX as WORKER_DELAY_S_MAX

FAILING_OPERATIONS = (
    "write_at",
    "sync",
    "read_at",
    "truncate",
    "open",
    "rename",
    "replace_file",
    "sync_folder",
)
_COLD_FILES_MAX = 8


async def fail_disk_once(faults: Faults) -> None:
    """One call fails: its log dir is offline, and so is a broker that has no other."""
    cluster = faults.cluster
    while True:
        await faults.due(fail_disk_once, 3)
        broker_id = await faults.pick()
        fault = Fault(
            faults.rng.choice(FAILING_OPERATIONS),
            "/data",
            error=faults.rng.choice([errno.EIO, errno.ENOSPC]),
            skip=faults.rng.randrange(10),
            count=1,
        )
        cluster.trace.note(f"disk of {broker_id}: {fault}")
        disk = cluster.machines[broker_id].disk
        disk.fail(fault)
        await faults.wait(3)
        disk.heal()


async def fail_disk_for_a_while(faults: Faults) -> None:
    """Also while its broker starts."""
    cluster = faults.cluster
    while True:
        await faults.due(fail_disk_for_a_while, 4)
        broker_id = await faults.pick()
        disk = cluster.machines[broker_id].disk
        fault = disk.fail(Fault(faults.rng.choice(FAILING_OPERATIONS), "/data"))
        cluster.trace.note(f"disk of {broker_id}: {fault}")
        await faults.wait(2)
        cluster.trace.note(f"disk of {broker_id} works")
        disk.heal()


async def fill_disk(faults: Faults) -> None:
    cluster = faults.cluster
    while True:
        await faults.due(fill_disk, 3)
        broker_id = await faults.pick()
        free_bytes = faults.rng.randrange(3000)
        cluster.trace.note(f"disk of {broker_id} has {free_bytes} bytes left")
        disk = cluster.machines[broker_id].disk
        disk.fill_up(free_bytes=free_bytes)
        await faults.wait(3)
        cluster.trace.note(f"disk of {broker_id} has room")
        disk.heal()


async def replace_disk(faults: Faults) -> None:
    """By an empty one, faster than the session is over or not. One at a time: what was on it others
    have before the next one goes."""
    cluster = faults.cluster
    while True:
        await faults.due(replace_disk, 3)
        while cluster.unhealed():
            await asyncio.sleep(0.1)
        broker_id = await faults.pick()
        cluster.wanted[broker_id] = False
        cluster.lose_disk(broker_id)
        if faults.rng.random() < 0.5:
            await faults.wait(2)
        cluster.wanted[broker_id] = True
        await faults.wait(1)
        while cluster.unhealed():
            await asyncio.sleep(0.1)


async def evict_files(faults: Faults) -> None:
    """Out of the page cache: whoever reads them does not on its loop."""
    cluster = faults.cluster
    while True:
        await faults.due(evict_files, 0.3)
        broker_id = await faults.pick()
        cluster.trace.note(f"files of {broker_id} are cold")
        disk = cluster.machines[broker_id].disk
        segments = [path for path in disk.files("/data") if path.endswith(LOG_SUFFIX)]
        for path in faults.rng.sample(segments, min(len(segments), _COLD_FILES_MAX)):
            disk.evict(path)


async def stall_disk(faults: Faults) -> None:
    """Nothing that is written or synced off the loop ends for a while; roles may change."""
    cluster = faults.cluster
    while True:
        await faults.due(stall_disk, 2)
        broker_id = await faults.pick()
        workers = cluster.machines[broker_id].workers
        stall_s = faults.rng.uniform(0, 1.5)
        cluster.trace.note(f"workers of {broker_id} take up to {stall_s:.3f} s")
        workers.delay_s_max = stall_s
        await faults.wait(2)
        workers.delay_s_max = WORKER_DELAY_S_MAX
