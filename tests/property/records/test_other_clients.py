"""Batches written here are read by aiokafka and kafka-python, and theirs here."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batch import is_crc_valid, iter_headers, parse_header
from ottla.records.builder import build_batch, recompress
from ottla.records.compression import Compression
from ottla.records.record import Record, iter_records
from ottla.records.validation import ProducePolicy, validate_produced

with warnings.catch_warnings():
    # On import kafka-python 3.0 reads its schemas in a way that Python 3.11 warns of.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

INT64 = st.integers(0, 2**62)
SOME_BYTES = st.one_of(
    st.none(), st.binary(max_size=200), st.integers(1000, 80_000).map(lambda n: b"ab" * n)
)
HEADERS = st.lists(
    st.tuples(st.text(max_size=20), st.one_of(st.none(), st.binary(max_size=90))), max_size=4
).map(tuple)
READERS = pytest.mark.parametrize("reader", [AiokafkaBatch, KafkaPythonBatch])
WRITERS = pytest.mark.parametrize("writer", [AiokafkaBuilder, KafkaPythonBuilder])


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """As a client numbers them, from 0 on; timestamps in any order."""
    base = draw(INT64)
    bodies = draw(
        st.lists(
            st.tuples(st.integers(-(2**40), 2**40), SOME_BYTES, SOME_BYTES, HEADERS),
            min_size=1,
            max_size=12,
        )
    )
    return [
        Record(offset, max(0, base + delta), key, value, headers)
        for offset, (delta, key, value, headers) in enumerate(bodies)
    ]


def read_by(reader: Any, batch: bytes) -> list[Record]:
    """What the other client makes of the bytes."""
    other = reader(batch)
    assert other.validate_crc()
    return [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in other
    ]


@READERS
@given(records=records(), compression=st.sampled_from(Compression), offset=INT64)
def test_others_read_what_is_built_here(
    reader: Any, records: list[Record], compression: Compression, offset: int
) -> None:
    moved = [record._replace(offset=record.offset + offset) for record in records]
    batch = build_batch(moved, compression=compression)
    assert list(iter_records(batch)) == moved
    assert read_by(reader, bytes(batch)) == moved


@READERS
@given(
    records=records(),
    compression=st.sampled_from(Compression),
    producer_id=INT64,
    producer_epoch=st.integers(0, 2**15 - 1),
    base_sequence=st.integers(0, 2**31 - 1),
    is_transactional=st.booleans(),
)
def test_others_read_the_same_header(
    reader: Any,
    records: list[Record],
    compression: Compression,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> None:
    batch = build_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    header, other = parse_header(batch), reader(bytes(batch))
    assert header.base_offset == other.base_offset
    assert header.magic == other.magic
    assert header.crc == other.crc
    assert header.attributes == other.attributes
    assert header.compression == other.compression_type
    assert header.is_transactional == other.is_transactional
    assert header.is_control == other.is_control_batch
    assert header.last_offset_delta == other.last_offset_delta
    assert header.next_offset == other.next_offset
    assert header.base_timestamp == other.first_timestamp
    assert header.max_timestamp == other.max_timestamp
    assert header.producer_id == other.producer_id
    assert header.producer_epoch == other.producer_epoch
    assert header.base_sequence == other.base_sequence


@WRITERS
@given(records=records(), compression=st.sampled_from(Compression))
def test_what_others_build_is_accepted_and_read_here(
    writer: Any, records: list[Record], compression: Compression
) -> None:
    builder = writer(
        magic=2,
        compression_type=int(compression),
        is_transactional=False,
        producer_id=5,
        producer_epoch=1,
        base_sequence=7,
        batch_size=100_000_000,
    )
    for record in records:
        assert builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    batch = bytearray(builder.build())
    policy = ProducePolicy(max_message_bytes=len(batch), timestamp_after_max_ms=2**63)
    accepted, header = validate_produced(memoryview(batch), policy, now_ms=0, produce_version=12)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 7)
    assert header.record_count == len(records)
    assert list(iter_records(accepted)) == records


@READERS
@given(
    records=records(),
    source=st.sampled_from(Compression),
    target=st.sampled_from(Compression),
)
def test_others_read_what_is_recompressed_here(
    reader: Any, records: list[Record], source: Compression, target: Compression
) -> None:
    batch = recompress(build_batch(records, compression=source), target)
    assert read_by(reader, bytes(batch)) == records


@given(several=st.lists(records(), min_size=1, max_size=3), cut=st.integers(0, 100))
def test_a_fetched_buffer_is_walked_batch_by_batch(several: list[list[Record]], cut: int) -> None:
    batches = [build_batch(records) for records in several]
    buffer = b"".join(batches) + batches[0][: min(cut, len(batches[0]) - 1)]
    found = list(iter_headers(buffer, allow_partial=True))
    assert [header for _, header in found] == [parse_header(batch) for batch in batches]
    for (position, header), batch in zip(found, batches, strict=True):
        whole = buffer[position : position + header.size_bytes]
        assert whole == batch
        assert is_crc_valid(whole)
