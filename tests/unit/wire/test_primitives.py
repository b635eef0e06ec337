from __future__ import annotations

import pytest

from ottla.kernel.disk import FileSlice
from ottla.kernel.transport import Part
from ottla.wire import primitives
from ottla.wire.primitives import MalformedMessage
from tests.unit.wire.files import FakeFile


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**31 - 1, b"\xff\xff\xff\xff\x07"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_unsigned_varint(value: int, encoded: bytes) -> None:
    assert primitives.unsigned_varint(value) == encoded
    assert primitives.read_unsigned_varint(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize("encoded", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01"])
def test_a_varint_ends_within_32_bits(encoded: bytes) -> None:
    with pytest.raises(MalformedMessage, match="varint"):
        primitives.read_unsigned_varint(encoded, 0)


def test_tagged_fields_are_skipped_by_their_sizes() -> None:
    section = primitives.tagged_fields([(0, [b"ab", b"c"]), (200, [])])

    assert section == b"\x02" + b"\x00\x03abc" + b"\xc8\x01\x00"
    assert primitives.skip_tagged_fields(section + b"?", 0, len(section) + 1) == len(section)


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        (b"\x02" + b"\x01\x00" + b"\x00\x00", "tag 0 after tag 1"),
        (b"\x02" + b"\x01\x00" + b"\x01\x00", "tag 1 after tag 1"),
        (b"\x01" + b"\x01\x03ab", "tag 1 of 3 bytes where 2 are left"),
    ],
)
def test_tagged_fields_out_of_order_or_bounds(section: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        primitives.skip_tagged_fields(section, 0, len(section))


def test_a_compact_string_is_as_short_as_kafka_reads_it() -> None:
    assert primitives.compact_string(b"abc") == b"\x04abc"
    assert len(primitives.compact_string(bytes(0x7FFF))) == 3 + 0x7FFF
    with pytest.raises(ValueError, match="32768 bytes"):
        primitives.compact_string(bytes(0x8000))


def test_records_are_sized_in_all_their_forms() -> None:
    file = FakeFile(b"0123456789")

    assert primitives.records_size(None) == -1
    assert primitives.records_size(b"abc") == 3
    assert primitives.records_size(memoryview(b"abcd")) == 4
    assert primitives.records_size(FileSlice(file, 2, 5)) == 5
    assert primitives.records_size([FileSlice(file, 2, 5), FileSlice(file, 0, 2)]) == 7


def test_records_end_the_part_before_them() -> None:
    chunks, out = [b"a", b"b"], list[Part]()
    records = memoryview(b"records")

    primitives.append_records(records, chunks, out)

    assert out[0] == b"ab"
    assert out[1] is records
    assert chunks == []
