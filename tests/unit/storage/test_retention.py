from __future__ import annotations

import pytest

from ottla.config.topic import TopicConfig
from ottla.records.batch import parse_header
from ottla.storage.log import Log
from ottla.storage.pending_write import PendingWrite
from ottla.storage.retention import apply_retention
from tests.unit.storage.support import Machine, offsets_in

HOUR_MS = 3_600_000


def _log(**config: object) -> tuple[Machine, Log]:
    """Three closed segments and an active one, of two batches each, an hour apart."""
    machine = Machine(TopicConfig(segment_bytes=150, **config))  # type: ignore[arg-type]
    log = machine.log()
    start_ms = machine.clock.now_ms()
    for hour in range(4):
        for _ in range(2):
            machine.append(log, timestamp=start_ms + hour * HOUR_MS)
    assert len(log.segments) == 4
    machine.wait()
    return machine, log


def _apply(machine: Machine, log: Log, *, hours: float, high_watermark: int = 8) -> list[int]:
    now_ms = machine.clock.now_ms() + int(hours * HOUR_MS)
    apply_retention(log, now_ms=now_ms, high_watermark=high_watermark)
    return offsets_in(log)


def test_old_segments_go_by_their_newest_record() -> None:
    machine, log = _log(retention_ms=2 * HOUR_MS)
    assert _apply(machine, log, hours=1.9) == list(range(8))
    assert _apply(machine, log, hours=2.1) == list(range(2, 8))
    assert _apply(machine, log, hours=4.1) == list(range(6, 8))
    assert log.log_start_offset == 6


def test_the_active_segment_goes_when_all_of_it_is_old() -> None:
    machine, log = _log(retention_ms=2 * HOUR_MS)
    assert _apply(machine, log, hours=100) == []
    assert (log.log_start_offset, log.log_end_offset) == (8, 8)
    assert machine.append(log).first_offset == 8
    assert _apply(machine, log, hours=0, high_watermark=9) == [8]


def test_an_empty_log_stays_as_it_is() -> None:
    machine = Machine(TopicConfig(retention_ms=1))
    log = machine.log()
    assert apply_retention(log, now_ms=machine.clock.now_ms() + HOUR_MS, high_watermark=0) == 0
    assert len(log.segments) == 1


def test_nothing_above_the_high_watermark_goes() -> None:
    machine, log = _log(retention_ms=2 * HOUR_MS)
    assert _apply(machine, log, hours=100, high_watermark=5) == list(range(4, 8))


def test_one_new_record_keeps_a_segment_and_all_after_it() -> None:
    machine, log = _log(retention_ms=HOUR_MS)
    now_ms = machine.clock.now_ms()
    other = Machine(TopicConfig(segment_bytes=150, retention_ms=HOUR_MS))
    mixed = other.log()
    old_ms = now_ms - 5 * HOUR_MS
    for timestamp in (old_ms, now_ms, old_ms, old_ms):
        other.append(mixed, timestamp=timestamp)
    assert _apply(other, mixed, hours=0.5, high_watermark=4) == [0, 1, 2, 3]
    assert _apply(machine, log, hours=1.5) == list(range(2, 8))


def test_without_timestamps_the_time_of_writing_counts() -> None:
    machine = Machine(TopicConfig(segment_bytes=150, retention_ms=2 * HOUR_MS))
    log = machine.log()
    for _ in range(3):
        machine.append(log, timestamp=-1)
    assert _apply(machine, log, hours=1.9, high_watermark=3) == [0, 1, 2]
    assert _apply(machine, log, hours=2.1, high_watermark=3) == []


@pytest.mark.parametrize(("segments", "left"), [(4, 8), (3, 6), (2.5, 6), (2, 4), (1, 2), (0, 0)])
def test_by_size_only_whole_segments_go(segments: float, left: int) -> None:
    machine, log = _log(retention_ms=-1)
    log.set_config(
        TopicConfig(retention_ms=-1, retention_bytes=int(segments * log.segments[0].size_bytes))
    )
    assert len(_apply(machine, log, hours=0)) == left


def test_what_lies_below_the_start_goes_whatever_the_policy() -> None:
    machine, log = _log(cleanup_policy=("compact",), retention_ms=1)
    log.advance_log_start_offset(5)
    assert _apply(machine, log, hours=100) == [5, 6, 7]
    assert log.segments[0].base_offset == 4


def test_files_are_renamed_first_and_removed_later() -> None:
    machine, log = _log(retention_ms=2 * HOUR_MS, file_delete_delay_ms=60_000)
    _apply(machine, log, hours=2.1)
    machine.wait(1)
    assert "00000000000000000000.log.deleted" in machine.names()
    assert "00000000000000000000.log" not in machine.names()
    machine.wait(60)
    assert not [name for name in machine.names() if name.startswith("00000000000000000000.")]
    machine.restart(clean=False)
    assert offsets_in(machine.log()) == list(range(2, 8))


def test_snapshots_go_with_their_segments() -> None:
    machine, log = _log(retention_ms=2 * HOUR_MS)
    _apply(machine, log, hours=3.1)
    machine.wait(1)
    assert [name for name in machine.names() if name.endswith("snapshot")] == [
        "00000000000000000004.snapshot",
        "00000000000000000006.snapshot",
    ]


def test_a_segment_that_is_still_being_written_to_stays() -> None:
    machine = Machine(TopicConfig(retention_ms=2 * HOUR_MS))
    log = machine.log()
    machine.append(log)
    batch = machine.batch()
    pending = log.prepare(parse_header(batch), memoryview(batch), 0, machine.clock.now_ms())
    assert isinstance(pending, PendingWrite)
    assert _apply(machine, log, hours=100, high_watermark=1) == [0]
    pending.write()
    log.commit(pending)
    assert offsets_in(log) == [0, 1]
    assert _apply(machine, log, hours=100, high_watermark=2) == []
