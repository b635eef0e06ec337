from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.pipeline.rows import encode
from ottla.pipeline.rows.columns import HEADERS_TYPE
from ottla.pipeline.rows.decode import decode_batches
from ottla.pipeline.rows.encode import EncodedBatch, Rows, encode_batches
from ottla.records.batch import HEADER_BYTES, parse_header, patch_place
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record, iter_records
from ottla.records.validation import ProducePolicy, validate_produced

NOW_MS = 1_700_000_000_000
COLUMNS = ["key", "value", "timestamp", "headers"]
PRODUCER = ProducerIdAndEpoch(77, 3)


def rows_of(records: list[Record]) -> Rows:
    headers = [
        [{"key": key, "value": value} for key, value in record.headers] or None
        for record in records
    ]
    return Rows.of(
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array(headers, HEADERS_TYPE),
        np.array([record.timestamp for record in records], np.int64),
    )


def encoded(records: list[Record], **options: Any) -> list[EncodedBatch]:
    return list(encode_batches(rows_of(records), **options))


maybe_bytes = st.none() | st.binary(max_size=3) | st.integers(0, 300).map(bytes)
some_headers = st.lists(st.tuples(st.text(max_size=3), maybe_bytes), max_size=3).map(tuple)
a_timestamp = st.integers(0, 100) | st.integers(-1, 2**45)


@st.composite
def some_records(draw: st.DrawFn) -> list[Record]:
    """Each column in turn may be empty, since that is where short cuts are taken."""
    has_keys, has_headers = draw(st.booleans()), draw(st.booleans())
    return [
        Record(
            index,
            draw(a_timestamp),
            draw(maybe_bytes) if has_keys else None,
            draw(maybe_bytes),
            draw(some_headers) if has_headers else (),
        )
        for index in range(draw(st.integers(1, 20)))
    ]


@given(some_records(), st.sampled_from(Compression), st.booleans())
def test_bytes_are_those_of_the_builder(
    records: list[Record], compression: Compression, is_transactional: bool
) -> None:
    (batch,) = encoded(
        records,
        producer=PRODUCER,
        base_sequence=5,
        compression=compression,
        is_transactional=is_transactional,
    )
    assert batch.content == build_batch(
        records,
        compression=compression,
        producer_id=PRODUCER.producer_id,
        producer_epoch=PRODUCER.producer_epoch,
        base_sequence=5,
        is_transactional=is_transactional,
    )


@given(some_records(), st.integers(100, 600), st.sampled_from(Compression))
def test_what_was_encoded_is_accepted_and_decoded_to_the_same(
    records: list[Record], batch_bytes: int, compression: Compression
) -> None:
    batches = encoded(
        records,
        producer=PRODUCER,
        base_sequence=2**31 - 4,
        compression=compression,
        batch_bytes=batch_bytes,
    )
    found: list[Record] = []
    sequence = 2**31 - 4
    for batch in batches:
        content = memoryview(batch.content)
        _, header = validate_produced(
            content, ProducePolicy(timestamp_after_max_ms=2**62), now_ms=NOW_MS, produce_version=9
        )
        assert (header.base_sequence, batch.base_sequence) == (sequence, sequence)
        assert header.record_count == len(batch.rows) == header.last_offset_delta + 1
        assert header.record_count == 1 or compression or len(content) <= batch_bytes
        sequence = (sequence + header.record_count) % 2**31
        patch_place(batch.content, 0, len(found), header.batch_length, 0)
        found += [*iter_records(bytes(batch.content))]
    assert found == records

    whole = memoryview(b"".join(batch.content for batch in batches))
    decoded = decode_batches(
        whole, topic="t", partition=0, columns=COLUMNS, start_offset=0, end_offset=1000
    )
    rows = rows_of(records)
    key = rows.key if rows.key is not None else pa.nulls(len(records), pa.binary())
    assert decoded.batch.column("key").equals(key)
    assert decoded.batch.column("value").equals(rows.value)
    assert decoded.batch.column("headers").to_pylist() == (rows.headers or pa.array([])).to_pylist()


def test_without_a_producer_nothing_claims_to_be_one() -> None:
    (batch,) = encoded([Record(0, NOW_MS, None, b"v")])
    assert batch.content == build_batch([Record(0, NOW_MS, None, b"v")])


def test_a_batch_ends_before_it_is_too_large_or_has_too_many_records() -> None:
    many = [Record(index, NOW_MS, None, b"") for index in range(encode.RECORDS_MAX + 5)]
    counts = [parse_header(batch.content).record_count for batch in encoded(many)]
    assert counts == [encode.RECORDS_MAX, 5]

    sizes = [600_000, 300_000, 300_000, 3_000_000, 10]
    large = [Record(index, NOW_MS, None, bytes(size)) for index, size in enumerate(sizes)]
    batches = encoded(large)
    assert [len(batch.rows) for batch in batches] == [2, 1, 1, 1]
    assert len(batches[0].content) < encode.BATCH_BYTES
    assert encoded([]) == []


def test_slices_chunks_and_texts_are_taken_as_they_are() -> None:
    headers = pa.array(
        [[{"key": "a", "value": b"1"}], None, [{"key": "b", "value": None}]] * 3, HEADERS_TYPE
    )
    rows = Rows.of(
        pa.chunked_array([["x", None], ["y", "z", "", "u", "v", "w"]]),
        pa.array([f"value {index}" for index in range(9)]).slice(1),
        headers.slice(1),
        np.arange(8),
    ).slice(2, 5)
    (batch,) = encode_batches(rows)
    assert [(one.key, one.value, one.headers) for one in iter_records(bytes(batch.content))] == [
        (b"y", b"value 3", (("a", b"1"),)),
        (b"z", b"value 4", ()),
        (b"", b"value 5", (("b", None),)),
        (b"u", b"value 6", (("a", b"1"),)),
        (b"v", b"value 7", ()),
    ]


def test_headers_that_null_hides_are_not_written() -> None:
    shown = pa.array([[{"key": "a", "value": b"1"}], [{"key": "b", "value": b"2"}]], HEADERS_TYPE)
    buffers = [pa.py_buffer(b"\x02"), *shown.buffers()[1:2]]
    hidden = pa.Array.from_buffers(HEADERS_TYPE, 2, buffers, children=[shown.values])
    rows = Rows.of(None, pa.array([b"x", b"y"]), hidden, np.zeros(2, np.int64))
    (batch,) = encode_batches(rows)
    found = [record.headers for record in iter_records(bytes(batch.content))]
    assert found == [(), (("b", b"2"),)]


@pytest.mark.parametrize("headers", [[[None]], [[{"key": None, "value": b""}]]])
def test_a_header_without_a_key_is_refused(headers: list[Any]) -> None:
    with pytest.raises(ValueError, match="header has a key"):
        Rows.of(None, pa.array([b"v"]), pa.array(headers, HEADERS_TYPE), np.zeros(1, np.int64))


def test_the_estimate_of_a_size_is_never_too_small() -> None:
    records = [
        Record(index, (-1) ** index * 2**62, bytes(70), bytes(9000), (("k" * 70, bytes(70)),) * 100)
        for index in range(40)
    ]
    for batch in encoded(records, batch_bytes=120_000):
        assert HEADER_BYTES < len(batch.content) <= 120_000
