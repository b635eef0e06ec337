from __future__ import annotations

from ottla.config.topic import TopicConfig
from ottla.records.batch import parse_header
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record
from ottla.storage.retention import apply_retention
from tests.unit.storage.support import Machine


def test_the_record_inside_a_compressed_batch_is_found() -> None:
    machine = Machine()
    log = machine.log()
    for base, kind in ((100, Compression.GZIP), (200, Compression.LZ4)):
        batch = build_batch(
            [Record(number, base + number, None, b"v") for number in range(10)], compression=kind
        )
        log.append_as_leader(parse_header(batch), memoryview(batch), 5, 0)
    assert machine.run(log.offset_for_timestamp(107)) == (107, 7, 5)
    assert machine.run(log.offset_for_timestamp(150)) == (200, 10, 5)
    assert machine.run(log.offset_of_max_timestamp()) == (209, 19, 5)
    assert machine.run(log.offset_for_timestamp(210)) is None


def test_of_equal_largest_timestamps_the_first_is_meant() -> None:
    machine = Machine(TopicConfig(segment_bytes=150, index_interval_bytes=0))
    log = machine.log()
    for timestamp in (5, 9, 9, 3, 9, 1):
        machine.append(log, timestamp=timestamp)
    assert machine.run(log.offset_of_max_timestamp()) == (9, 1, 0)


def test_a_search_that_retention_overtakes_looks_again() -> None:
    machine = Machine(TopicConfig(segment_bytes=150, retention_bytes=150))
    log = machine.log()
    for timestamp in range(1, 9):
        machine.append(log, timestamp=timestamp)
    machine.wait()

    async def search() -> object:
        machine.loop.call_soon(
            lambda: apply_retention(log, now_ms=0, high_watermark=log.log_end_offset)
        )
        machine.disk.rename(
            "/data/t-0/00000000000000000000.log", "/data/t-0/00000000000000000000.log.deleted"
        )
        return await log.offset_for_timestamp(1)

    found = machine.run(search())
    assert found is not None
    assert log.log_start_offset > 0
    assert not machine.failed
