from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ottla.pipeline.rows.decode_headers import headers_column
from ottla.records.builder import varint
from ottla.records.errors import CorruptRecord

Headers = list[tuple[bytes, bytes | None]]


def encoded(records: list[Headers]) -> tuple[bytearray, list[int], list[int], list[int]]:
    """Something before each record's headers, as its value would be."""
    data, positions, ends = bytearray(), [], []
    for headers in records:
        data += b"value"
        positions.append(len(data))
        for key, value in headers:
            data += varint(len(key))
            data += key
            data += varint(-1 if value is None else len(value))
            data += value or b""
        ends.append(len(data))
    return data, positions, [len(headers) for headers in records], ends


def column(
    data: bytes | bytearray, positions: list[int], counts: list[int], ends: list[int]
) -> Any:
    found = headers_column(
        np.frombuffer(data, np.uint8), np.array(positions), np.array(counts), np.array(ends)
    )
    found.validate(full=True)
    return found.to_pylist()


def shown(headers: Headers) -> Any:
    if not headers:
        return None
    return [{"key": key.decode(errors="replace"), "value": value} for key, value in headers]


@pytest.mark.parametrize("count", [3, 1000], ids=["few records", "many records"])
def test_each_record_has_its_own(count: int) -> None:
    records: list[Headers] = [
        [(b"k%d" % index, bytes(index % 300)) for index in range(number % 4)]
        for number in range(count)
    ]
    records.append([(b"", None), (b"null", None), (b"empty", b"")])
    assert column(*encoded(records)) == [shown(headers) for headers in records]


def test_a_record_with_many_more_than_others() -> None:
    records: list[Headers] = [[(b"k", b"%d" % number)] for number in range(500)]
    records[77] = [(b"key", b"%d" % index) for index in range(20_000)]
    assert column(*encoded(records)) == [shown(headers) for headers in records]


def test_a_record_without_headers_has_null() -> None:
    assert column(*encoded([[], []])) == [None, None]


def test_a_key_that_is_no_text_is_replaced_as_java_does() -> None:
    (headers,) = column(*encoded([[(b"a\xff", b"\xff")]]))
    assert headers == [{"key": "a�", "value": b"\xff"}]


@pytest.mark.parametrize("copies", [1, 500], ids=["one by one", "together"])
@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x01\x00", 1),
        (b"\x02k\x10v", 1),
        (b"\x02k\x02", 1),
        (b"\x02k\x02v", 9),
        (b"\x02k\x02v", -1),
    ],
    ids=["key is null", "value too long", "value cut off", "more than fit", "a negative count"],
)
def test_what_cannot_be_is_refused(data: bytes, count: int, copies: int) -> None:
    positions = [len(data) * index for index in range(copies)]
    with pytest.raises(CorruptRecord):
        column(
            data * copies, positions, [count] * copies, [place + len(data) for place in positions]
        )
