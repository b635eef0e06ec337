from __future__ import annotations

import pytest

from ottla.config.topic import TopicConfig
from ottla.records.batch import parse_header
from ottla.storage.errors import StorageFailure
from ottla.storage.pending_write import Appended, PendingWrite
from ottla.testing.disk import Fault
from tests.unit.storage.support import Machine, offsets_in


def test_what_a_full_disk_took_is_cut_off_again() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log)
    size_bytes = log.size_bytes
    machine.wait()
    machine.disk.fill_up(free_bytes=10)
    with pytest.raises(StorageFailure, match="No space left"):
        machine.append(log)
    assert machine.disk.size("/data/t-0/00000000000000000000.log") == size_bytes
    machine.disk.fill_up(free_bytes=1 << 20)
    machine.restart(clean=False)
    assert machine.log().log_end_offset == 1


def test_a_pending_write_is_seen_when_it_is_committed() -> None:
    machine = Machine()
    log = machine.log()
    pending = []
    for _ in range(3):
        batch = machine.batch(2)
        prepared = log.prepare(parse_header(batch), memoryview(batch), 0, 0)
        assert isinstance(prepared, PendingWrite)
        pending.append(prepared)
    assert log.log_end_offset == 0
    assert log.read(0, 1 << 20, max_offset=0, at_least_one=True) is None
    futures = [log.folder.submit_write(each.write) for each in pending]
    assert log.folder.is_slow
    machine.wait()
    assert all(future.done() for future in futures)
    assert [log.commit(each).first_offset for each in pending] == [0, 2, 4]
    assert offsets_in(log) == list(range(6))


def test_a_pending_write_that_fails_takes_the_following_with_it() -> None:
    machine = Machine()
    log = machine.log()
    machine.disk.fail(Fault("write_at", ".log", count=1))
    futures = []
    for _ in range(2):
        batch = machine.batch(1)
        pending = log.prepare(parse_header(batch), memoryview(batch), 0, 0)
        assert isinstance(pending, PendingWrite)
        futures.append(log.folder.submit_write(pending.write))
    machine.wait()
    assert all(isinstance(future.exception(), StorageFailure) for future in futures)
    assert machine.disk.size("/data/t-0/00000000000000000000.log") == 0
    assert machine.failed == [("/data", ["t-0"])]


def test_a_repeat_of_a_pending_batch_is_known() -> None:
    machine = Machine()
    log = machine.log()
    batch = machine.batch(1, producer_id=3, epoch=0, sequence=0)
    header = parse_header(batch)
    log.prepare(header, memoryview(batch), 0, 0)
    again = log.prepare(header, memoryview(bytearray(batch)), 0, 0)
    assert isinstance(again, Appended)
    assert again.is_duplicate


@pytest.mark.parametrize("segment_bytes", [150, 1 << 30])
def test_nothing_is_read_past_what_is_written_however_much_is_pending(segment_bytes: int) -> None:
    """With many appends pending their places are forgotten, and with a roll they lie in several
    segments: a reader was promised bytes that were not in the file."""
    machine = Machine(TopicConfig(segment_bytes=segment_bytes))
    log = machine.log()
    for _ in range(3):
        machine.append(log)
    late_ms = machine.clock.now_ms() + 1000
    pending = []
    for _ in range(100):
        batch = machine.batch(timestamp=late_ms)
        prepared = log.prepare(parse_header(batch), memoryview(batch), 0, machine.clock.now_ms())
        assert isinstance(prepared, PendingWrite)
        pending.append(prepared)
    for number, write in enumerate(pending):
        assert offsets_in(log) == list(range(3 + number))
        if number in (0, 1, 50):
            found = machine.run(log.offset_for_timestamp(late_ms))
            assert (found and found.offset) == (None if number == 0 else 3)
        write.write()
        log.commit(write)
    assert offsets_in(log) == list(range(103))
    machine.wait()
    machine.restart(clean=False)
    assert offsets_in(machine.log()) == list(range(103))
