from __future__ import annotations

import pytest

from ottla.records.batch import HEADER_BYTES
from ottla.records.builder import build_batch, varint
from ottla.records.errors import CorruptRecord
from ottla.records.lengths import check_lengths
from ottla.records.record import Record


def data_of(*sizes: int) -> bytes:
    records = [Record(number, 0, None, bytes(size)) for number, size in enumerate(sizes)]
    return bytes(build_batch(records)[HEADER_BYTES:])


def test_lengths_of_one_two_and_more_bytes() -> None:
    sizes = [0, 1, 50, 56, 57, 58, 100, 8_000, 8_184, 8_185, 8_186, 20_000, 1_100_000]
    check_lengths(data_of(*sizes), len(sizes))


def test_more_records_than_one_slice() -> None:
    count = 10_000
    data = data_of(*[0] * count)
    check_lengths(data, count)
    for wrong in (count - 1, count + 1):
        with pytest.raises(CorruptRecord):
            check_lengths(data, wrong)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 57, 58, 100, 8_183, 8_184, 8_185, 8_186])
@pytest.mark.parametrize("count", [63, 64, 65, 128, 200])
def test_many_records_of_one_length(size: int, count: int) -> None:
    data = data_of(*[size] * count)
    check_lengths(data, count)
    for wrong in (count - 1, count + 1):
        with pytest.raises(CorruptRecord):
            check_lengths(data, wrong)
    for wrong_data in (data[:-1], data + b"\0", data[1:]):
        with pytest.raises(CorruptRecord):
            check_lengths(wrong_data, count)


@pytest.mark.parametrize("place", [0, 1, 31, 62, 63, 64, 130])
@pytest.mark.parametrize("other", [0, 9, 50, 101, 600, 9_000])
def test_one_of_another_length_among_many_of_one(place: int, other: int) -> None:
    sizes = [100] * 131
    sizes[place] = other
    check_lengths(data_of(*sizes), len(sizes))


@pytest.mark.parametrize("size", [10, 100])
@pytest.mark.parametrize("place", [0, 1, 40, 63, 64, 90])
def test_a_wrong_length_among_many_of_one_is_found(place: int, size: int) -> None:
    one = data_of(size)
    for length in (-1, 5, len(one) + 1, 1_000_000):
        records = [one] * 100
        records[place] = varint(length) + one[2:]
        with pytest.raises(CorruptRecord):
            check_lengths(b"".join(records), len(records))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(7),
        varint(-1) + bytes(20),
        varint(-1000) + bytes(20),
        varint(5) + bytes(5),  # Less than any record has.
        varint(100) + bytes(20),
        varint(2_000_000_000) + bytes(20),
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + bytes(20),
        b"\x80",
        data_of(10)[:-1],
        data_of(10) + b"\0",
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        check_lengths(data, 1)
