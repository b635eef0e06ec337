from __future__ import annotations

import struct

import pytest

from ottla.records.batch import (
    HEADER_BYTES,
    TimestampType,
    compute_crc,
    is_crc_valid,
    iter_headers,
    parse_header,
    patch_max_timestamp,
    patch_place,
)
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record, iter_records

RECORDS = [Record(40, 1000, b"a", b"1"), Record(41, 900, None, b"2"), Record(44, 1005, b"c", None)]


def test_header_says_what_the_batch_holds() -> None:
    batch = build_batch(
        RECORDS,
        compression=Compression.ZSTD,
        leader_epoch=7,
        producer_id=5,
        producer_epoch=3,
        base_sequence=9,
        is_transactional=True,
    )
    header = parse_header(batch)
    assert header.base_offset == 40
    assert header.last_offset == 44
    assert header.next_offset == 45
    assert header.size_bytes == len(batch)
    assert header.partition_leader_epoch == 7
    assert header.magic == 2
    assert header.compression == Compression.ZSTD
    assert header.is_transactional
    assert not header.is_control
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1005)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, 9)
    assert header.has_producer_id
    assert header.last_sequence == 13
    assert header.record_count == 3
    assert header.delete_horizon_ms is None


def test_sequences_wrap_around_to_zero() -> None:
    batch = build_batch(
        [Record(0, 0, None, None), Record(1, 0, None, None)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 1,
    )
    assert parse_header(batch).last_sequence == 0
    assert parse_header(build_batch(RECORDS)).last_sequence == -1


def test_a_header_is_read_at_its_position() -> None:
    batch = build_batch(RECORDS)
    assert parse_header(b"xxx" + batch, 3) == parse_header(batch)
    with pytest.raises(CorruptRecord, match="there are 58"):
        parse_header(batch[:HEADER_BYTES], 3)


def test_offset_and_epoch_are_outside_the_crc() -> None:
    buffer = bytearray(4) + build_batch(RECORDS)
    patch_place(buffer, 4, 1 << 40, parse_header(buffer, 4).batch_length, 12)
    header = parse_header(buffer, 4)
    assert (header.base_offset, header.last_offset) == (1 << 40, (1 << 40) + 4)
    assert header.partition_leader_epoch == 12
    assert is_crc_valid(buffer[4:])
    assert [record.offset - (1 << 40) for record in iter_records(buffer[4:])] == [0, 1, 4]


def test_log_append_time_replaces_every_timestamp_and_can_be_taken_back() -> None:
    batch = build_batch(RECORDS)
    original = bytes(batch)
    patch_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, 77_000)
    header = parse_header(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.base_timestamp, header.max_timestamp) == (1000, 77_000)
    assert is_crc_valid(batch)
    assert {record.timestamp for record in iter_records(batch)} == {77_000}
    patch_max_timestamp(batch, TimestampType.CREATE_TIME, 1005)
    assert batch == original


def test_crc_is_computed_over_any_kind_of_buffer() -> None:
    batch = build_batch(RECORDS)
    assert compute_crc(bytes(batch)) == compute_crc(memoryview(batch)) == parse_header(batch).crc
    batch[-1] ^= 1
    assert not is_crc_valid(batch)


def test_iterates_over_several_batches() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS, base_offset=30)
    found = list(iter_headers(first + second))
    assert found == [(0, parse_header(first)), (len(first), parse_header(second))]
    assert [position for position, _ in iter_headers(first + second, len(first))] == [len(first)]
    assert list(iter_headers(b"")) == []


@pytest.mark.parametrize("cut", [1, 12, 16, 17, 40, 61, 62])
def test_a_partial_last_batch_is_left_out_where_that_is_expected(cut: int) -> None:
    first = build_batch(RECORDS)
    buffer = first + build_batch(RECORDS)[:cut]
    assert len(list(iter_headers(buffer, allow_partial=True))) == 1
    with pytest.raises(CorruptRecord):
        list(iter_headers(buffer))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_that_cannot_be_ends_the_iteration(length: int) -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptRecord, match="length"):
        list(iter_headers(batch, allow_partial=True))


def test_another_magic_is_refused() -> None:
    batch = build_batch(RECORDS)
    batch[16] = 1
    with pytest.raises(CorruptRecord, match="magic"):
        list(iter_headers(batch, allow_partial=True))


def test_the_cleaners_delete_horizon_lies_in_the_base_timestamp() -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(">h", batch, 21, 0x40)
    assert parse_header(batch).delete_horizon_ms == 1000
