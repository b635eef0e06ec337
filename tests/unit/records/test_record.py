from __future__ import annotations

import struct

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import HEADER_BYTES, TimestampType, compute_crc
from ottla.records.builder import build_batch, varint
from ottla.records.compression import Compression, compress
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record, iter_records, read_varint, read_varlong

RECORDS = [
    Record(40, 1000, b"a", b"1" * 300, (("h", b"\x00\xff"), ("ü", None), ("", b""))),
    Record(41, 900, None, b""),
    Record(300, 10**13, b"", None),
]


def batch_with(
    data: bytes, record_count: int, compression: Compression = Compression.NONE
) -> bytes:
    """A batch with a good header around any bytes."""
    batch = build_batch([Record(0, 0, None, None)])[:HEADER_BYTES]
    batch += compress(compression, data)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, compression)
    struct.pack_into(">i", batch, 57, record_count)
    struct.pack_into(">I", batch, 17, compute_crc(batch))
    return bytes(batch)


def record_bytes(*fields: int, tail: bytes = b"") -> bytes:
    """A record with this body: attributes, then varints, then bytes."""
    body = bytearray([fields[0]])
    for number in fields[1:]:
        body += varint(number)
    body += tail
    return varint(len(body)) + bytes(body)


PLAIN = record_bytes(0, 0, 0, -1, -1, 0)


@pytest.mark.parametrize("compression", Compression)
def test_records_come_back_as_they_were_written(compression: Compression) -> None:
    batch = build_batch(RECORDS, compression=compression)
    assert list(iter_records(batch)) == RECORDS
    assert list(iter_records(memoryview(bytes(batch)))) == RECORDS


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp for record in iter_records(batch)] == [10**13] * 3


def test_a_batch_may_have_lost_its_records_to_compaction() -> None:
    assert list(iter_records(batch_with(b"", 0))) == []


@pytest.mark.parametrize(
    ("data", "record_count"),
    [
        pytest.param(PLAIN, 2, id="fewer records than counted"),
        pytest.param(PLAIN * 2, 1, id="more records than counted"),
        pytest.param(PLAIN, 2**31 - 1, id="a count that no bytes could hold"),
        pytest.param(PLAIN, -1, id="a negative count"),
        pytest.param(PLAIN[:-1], 1, id="cut off"),
        pytest.param(b"\xff" * 20, 1, id="endless varint"),
        pytest.param(b"\xfe\xff\xff\xff\x0f" + bytes(10), 1, id="huge length"),
        pytest.param(b"\x01" + bytes(10), 1, id="negative length"),
        pytest.param(record_bytes(0, 0, 0, 2**31 - 1, -1, 0), 1, id="huge key"),
        pytest.param(record_bytes(0, 0, 0, -1, 100, 0), 1, id="value beyond its record"),
        pytest.param(
            record_bytes(0, 0, 0, -1, 3, 0) + PLAIN * 9, 10, id="value reaching into the next"
        ),
        pytest.param(record_bytes(0, 0, 0, -1, -1, 2**31 - 1), 1, id="huge header count"),
        pytest.param(record_bytes(0, 0, 0, -1, -1, -1), 1, id="negative header count"),
        pytest.param(record_bytes(0, 0, 0, -1, -1, 1, -1, -1), 1, id="header without key"),
        pytest.param(record_bytes(0, 0, 0, -1, -1, 0, tail=b"x"), 1, id="bytes behind the headers"),
        pytest.param(b"\x00" * 70, 10, id="records of no bytes"),
    ],
)
def test_lies_in_the_bytes_are_found(data: bytes, record_count: int) -> None:
    with pytest.raises(CorruptRecord):
        list(iter_records(batch_with(data, record_count)))


@pytest.mark.parametrize("compression", [kind for kind in Compression if kind])
def test_a_bomb_is_stopped_at_the_limit(compression: Compression) -> None:
    batch = batch_with(bytes(2_000_000), 1, compression)
    with pytest.raises(KafkaError) as caught:
        list(iter_records(batch, limit_bytes=100_000))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_an_unknown_compression_is_corrupt() -> None:
    batch = bytearray(batch_with(PLAIN, 1))
    batch[22] = 5
    with pytest.raises(CorruptRecord, match="id 5"):
        list(iter_records(batch))


def test_more_or_less_than_one_batch_is_refused() -> None:
    batch = build_batch(RECORDS)
    for wrong in (batch[:-1], batch + b"x", batch[:30], b""):
        with pytest.raises(CorruptRecord):
            list(iter_records(wrong))


def test_header_keys_that_are_not_utf8_are_readable() -> None:
    data = record_bytes(0, 0, 0, -1, -1, 1, tail=b"\x02\xff\x01")
    assert next(iter_records(batch_with(data, 1))).headers == (("\ufffd", None),)


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804"),
     (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f")],
)  # fmt: skip
def test_varints_are_zigzag(number: int, encoded: str) -> None:
    raw = bytes.fromhex(encoded)
    assert read_varint(raw, 0) == (number, len(raw))
    assert read_varlong(raw, 0) == (number, len(raw))
    assert varint(number) == raw


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**40, -(2**33)])
def test_varlongs_hold_64_bits(number: int) -> None:
    written = varint(number)
    assert read_varlong(written, 0) == (number, len(written))


def test_varints_have_an_end() -> None:
    with pytest.raises(CorruptRecord, match="more than 5"):
        read_varint(b"\x80\x80\x80\x80\x80\x00", 0)
    with pytest.raises(CorruptRecord, match="more than 10"):
        read_varlong(b"\x80" * 10 + b"\x00", 0)
