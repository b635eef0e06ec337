from __future__ import annotations

import struct

import pytest

from ottla.records.batch import CRC_AT, LENGTH_AT, TimestampType, is_crc_valid, parse_header
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker, recompress
from ottla.records.compression import Compression
from ottla.records.record import Record, iter_records

RECORDS = [
    Record(0, 1000, b"a", b"1" * 300, (("h", b"x"), ("n", None))),
    Record(1, 900, None, b""),
    Record(2, 2000, b"", None),
]


def test_a_batch_begins_at_its_first_record_or_where_it_is_told() -> None:
    records = [Record(12, 0, None, b"x"), Record(14, 0, None, b"y")]
    assert parse_header(build_batch(records)).base_offset == 12
    batch = build_batch(records, base_offset=10)
    assert (parse_header(batch).base_offset, parse_header(batch).last_offset) == (10, 14)
    assert list(iter_records(batch)) == records


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
def test_recompressing_changes_nothing_but_the_compression(
    source: Compression, target: Compression
) -> None:
    batch = build_batch(
        RECORDS,
        compression=source,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=20,
        is_transactional=True,
    )
    rebuilt = recompress(memoryview(bytes(batch)), target)
    assert is_crc_valid(rebuilt)
    assert parse_header(rebuilt).compression == target
    assert parse_header(rebuilt).size_bytes == len(rebuilt)
    assert list(iter_records(rebuilt)) == RECORDS
    if target is Compression.NONE:
        plain = build_batch(
            RECORDS,
            leader_epoch=3,
            producer_id=7,
            producer_epoch=1,
            base_sequence=20,
            is_transactional=True,
        )
        assert rebuilt == plain
    else:
        header, other = parse_header(batch), parse_header(rebuilt)
        same = {"batch_length": 0, "crc": 0, "attributes": 0}
        assert header._replace(**same) == other._replace(**same)
        assert header.is_transactional == other.is_transactional


@pytest.mark.parametrize("offsets", [[0, 2, 5], [7, 7, 7], [2, 1, 0], [0, 100, 70_000]])
@pytest.mark.parametrize("target", [Compression.NONE, Compression.LZ4])
def test_recompressing_numbers_records_without_gaps(
    offsets: list[int], target: Compression
) -> None:
    gappy = [
        record._replace(offset=offset) for record, offset in zip(RECORDS, offsets, strict=True)
    ]
    batch = build_batch(gappy, base_offset=0, compression=Compression.GZIP)
    assert list(iter_records(recompress(batch, target))) == RECORDS


def test_recompressing_keeps_log_append_time() -> None:
    batch = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    header = parse_header(recompress(batch, Compression.LZ4, 1))
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize(("kind", "key"), [(ControlType.ABORT, 0), (ControlType.COMMIT, 1)])
def test_end_txn_markers(kind: ControlType, key: int) -> None:
    marker = build_end_txn_marker(
        kind, offset=8, timestamp=5, producer_id=4, producer_epoch=2, coordinator_epoch=6
    )
    header = parse_header(marker)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, -1)
    [record] = iter_records(marker)
    assert record == Record(8, 5, struct.pack(">hh", 0, key), struct.pack(">hi", 0, 6))
    assert len(marker) == 78, "as many bytes as Kafka's own markers have"


def test_length_and_crc_lie_where_kafka_looks_for_them() -> None:
    batch = build_batch(RECORDS)
    assert struct.unpack_from(">i", batch, LENGTH_AT) == (len(batch) - 12,)
    assert struct.unpack_from(">I", batch, CRC_AT) == (parse_header(batch).crc,)
