from __future__ import annotations

import asyncio

import pytest

from ottla.storage.errors import StorageFailure
from ottla.testing.disk import Fault
from tests.unit.storage.support import Machine, offsets_in


def test_a_rolled_segment_is_synced_and_the_recovery_point_follows() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=3, producer_id=1, epoch=0, sequence=0)
    log.roll()
    machine.append(log)
    assert log.recovery_point == 0
    machine.wait()
    assert log.recovery_point == 3
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    assert machine.log().log_end_offset == 3
    assert "00000000000000000003.snapshot" in machine.names()


def test_flush_makes_everything_durable() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=5)

    async def flush() -> None:
        await log.flush()

    machine.run(flush())
    assert log.recovery_point == 5
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    assert offsets_in(machine.log()) == list(range(5))


def test_a_failed_fsync_fails_the_folder_and_is_not_tried_again() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log)
    machine.wait()
    fault = machine.disk.fail(Fault("sync", "0.log", count=1))
    log.flush()
    log.flush()
    machine.wait()
    assert fault.hit_count == 1
    assert log.recovery_point == 0
    assert machine.failed == [("/data", ["t-0"])]
    with pytest.raises(StorageFailure):
        machine.append(log)


def test_a_flush_that_a_truncation_overtakes_vouches_for_nothing() -> None:
    machine = Machine()
    log = machine.log()
    for _ in range(4):
        machine.append(log)
    machine.wait()
    log.flush()
    log.truncate_to(2)
    for _ in range(4):
        machine.append(log)
    machine.wait()
    assert log.recovery_point == 0


def test_a_flush_goes_on_though_whoever_waits_for_it_is_cancelled() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log)
    machine.wait()

    async def give_up() -> None:
        waiting = asyncio.ensure_future(log.flush())
        log.flush_soon()  # Counts on the one that is under way.
        waiting.cancel()

    machine.run(give_up())
    machine.wait()
    assert log.recovery_point == 1
    machine.append(log)
    log.flush_soon()
    machine.wait()
    assert log.recovery_point == 2


def test_a_clean_stop_syncs_what_was_written_and_each_folder_once() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, producer_id=1, epoch=0, sequence=0)
    machine.wait()
    synced = machine.record_syncs()
    machine.stop()
    assert sorted(path for path in synced if "/t-0" in path) == [
        "/data/t-0",
        "/data/t-0/00000000000000000000.log",
        "/data/t-0/00000000000000000000.timeindex",
        "/data/t-0/00000000000000000001.snapshot.tmp",
    ]
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    log = machine.log()
    assert (offsets_in(log), log.producer_state.producers[1].next_sequence) == ([0], 1)
    synced = machine.record_syncs()
    machine.stop()
    assert not [path for path in synced if "/t-0" in path]


def test_an_index_that_was_emptied_for_a_new_segment_stays_so_when_the_power_goes() -> None:
    """Left behind by a segment of that name which a crash took: below the recovery point it would
    be believed."""
    machine = Machine()
    log = machine.log()
    machine.append(log)
    path = "/data/t-0/00000000000000000001.index"
    machine.disk.replace_file(path, bytes(8))
    log.roll()
    machine.append(log)
    log.roll()
    machine.wait()
    machine.disk.crash(keep_unsynced=False)
    assert machine.disk.size(path) == 0
