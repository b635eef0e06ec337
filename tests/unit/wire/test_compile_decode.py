from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.wire.codec import MalformedMessage, decoder, decoder_source
from ottla.wire.compile_decode import ELEMENTS_MAX
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    bytestring,
    int16,
    int32,
    nested,
    string,
    uuid,
)


class Point(Struct, frozen=True):
    x: int = int32(default=-1)
    label: str = string()


class Item(Struct):
    index: int = int32()
    name: str = string()


class Thing(Request, api_key=900, versions="0-2", flexible="2+"):
    """One field of each kind. Version 0 and 1 are not flexible, 1 allows nulls, 2 has tags."""

    id: bytes = uuid()
    flag: bool = boolean()
    name: str | None = string(nullable="1+")
    data: bytes | None = bytestring(nullable="1+")
    numbers: list[int] = array(int32())
    names: list[str] = array(string(), "1+")
    items: list[Item] | None = array(Item, nullable="1+")
    place: Point | None = nested(Point, "2+", nullable="2+", default=None)
    tagged_point: Point = nested(Point, "2+", tag=3)
    tagged_number: int = int32("2+", tag=1, default=5)


V0 = b"".join(
    [
        b"i" * 16,
        b"\x01",
        b"\x00\x02ab",
        b"\x00\x00\x00\x01d",
        b"\x00\x00\x00\x02" + struct.pack(">ii", 7, -7),
        b"\x00\x00\x00\x01" + b"\x00\x00\x00\x09" + b"\x00\x01n",
    ]
)
V2 = b"".join(
    [
        b"i" * 16,
        b"\x00",
        b"\x03ab",
        b"\x02d",
        b"\x03" + struct.pack(">ii", 7, -7),
        b"\x02\x02s",
        b"\x02" + b"\x00\x00\x00\x09" + b"\x02n" + b"\x00",
        b"\x01" + b"\x00\x00\x00\x01" + b"\x02l" + b"\x00",
    ]
)


def test_the_source_reads_as_if_written_by_hand_for_the_version() -> None:
    class PingResponse(Response, api_key=901, versions="0-1", flexible="1+"):
        error_code: int = int16()
        node_ids: list[int] = array(int32())

    assert decoder_source(PingResponse, 0) == (
        """\
def decode(buffer, position=0):
    buffer = bytes(buffer)
    end = len(buffer)
    try:
        ping_response = new(PingResponse)
        ping_response.error_code, count = unpack_hi(buffer, position)
        position += 6
        if count < 0 or count * 4 > end - position:
            raise bad_length('node_ids', count, end - position)
        ping_response.node_ids = list(unpack_from(f'>{count}i', buffer, position))
        position += count * 4
    except ReadErrors as error:
        raise MalformedMessage(f'PingResponse version 0: {error}') from error
    return ping_response, position
"""
    )


def test_every_kind_of_field() -> None:
    items = [Item(index=9, name="n")]
    common: dict[str, Any] = {"id": b"i" * 16, "name": "ab", "data": b"d", "numbers": [7, -7]}

    assert decoder(Thing, 0)(V0) == (Thing(flag=True, items=items, **common), len(V0))
    assert decoder(Thing, 2)(V2 + b"\x00") == (
        Thing(names=["s"], items=items, place=Point(x=1, label="l"), **common),
        len(V2) + 1,
    )


def test_nulls() -> None:
    body = b"i" * 16 + b"\x00" + b"\xff\xff" + b"\xff" * 4 + bytes(4) + bytes(4) + b"\xff" * 4
    thing, _ = decoder(Thing, 1)(body)

    assert (thing.name, thing.data, thing.items) == (None, None, None)


class Loose(Request, api_key=903, versions="0", flexible="0+"):
    """Structs and arrays that may be null, tagged and not."""

    point: Point | None = nested(Point, nullable="0+", default=None)
    other: Point = nested(Point)
    tagged_point: Point | None = nested(Point, nullable="0+", tag=0)
    tagged_numbers: list[int] | None = array(int32(), nullable="0+", tag=1)


LOOSE_POINT = b"\x00\x00\x00\x02" + b"\x02l" + b"\x00"
LOOSE = [
    (Loose(), b"\xff" + b"\xff\xff\xff\xff" + b"\x01\x00" + b"\x00"),
    (
        Loose(
            point=Point(x=2, label="l"),
            other=Point(x=2, label="l"),
            tagged_point=Point(x=2, label="l"),
            tagged_numbers=[7],
        ),
        b"\x01" + LOOSE_POINT * 2 + b"\x02\x00\x08\x01" + LOOSE_POINT + b"\x01\x05\x02\0\0\0\x07",
    ),
    (
        Loose(tagged_point=None, tagged_numbers=None),
        b"\xff" + b"\xff\xff\xff\xff" + b"\x01\x00" + b"\x02\x00\x01\x00\x01\x01\x00",
    ),
]
"""With their bytes. A tagged field that is null unlike its default is written, as null."""


@pytest.mark.parametrize(("loose", "body"), LOOSE)
def test_structs_and_arrays_that_may_be_null(loose: Loose, body: bytes) -> None:
    assert decoder(Loose, 0)(body) == (loose, len(body))


def test_tagged_fields_known_and_unknown() -> None:
    point = b"\x00\x00\x00\x02" + b"\x01" + b"\x00"
    tags = b"\x04" + b"\x00\x01?" + b"\x01\x04" + b"\0\0\0\x06" + b"\x03\x06" + point + b"\x09\x00"

    thing, position = decoder(Thing, 2)(V2 + tags)

    assert thing.tagged_number == 6
    assert thing.tagged_point == Point(x=2)
    assert position == len(V2 + tags)


@pytest.mark.parametrize(
    ("version", "body", "complaint"),
    [
        (0, V0[:-1], "name of length 1 in 0 bytes"),
        (0, V0[:17] + b"\xff\xff" + V0[19:], "name is null"),
        (1, V0[:17] + b"\xff\xfe" + V0[19:], "name of length -2"),
        (0, V0[:17] + b"\x00\x02\xff\xff" + V0[21:], "utf-8"),
        (0, V0[:21] + b"\x80\x00\x00\x00", "data of length -2147483648"),
        (0, V0[:26] + b"\x00\x00\x00\x06" + V0[30:], "numbers of length 6 in 19 bytes"),
        (2, V2[:22] + b"\x00", "numbers is null"),
        (2, V2[:17] + b"\x81\x80\x02" + bytes(0x8000), "name of length 32768"),
        (2, V2 + b"\x01" + b"\x01\x05" + bytes(5), "tag 1 has a wrong size"),
        (2, V2 + b"\x01" + b"\x01\x03" + bytes(5), "tag 1 has a wrong size"),
        (2, V2 + b"\x02" + b"\x01\x04" + bytes(4) + b"\x01\x04" + bytes(4), "tag 1 after tag 1"),
        (2, V2 + b"\x02" + b"\x05\x00" + b"\x01\x04" + bytes(4), "tag 1 after tag 5"),
        (2, V2 + b"\x01" + b"\x01\x7f" + bytes(4), "tag 1 of 127 bytes where 4 are left"),
        (2, V2, "index out of range"),
    ],
)
def test_malformed(version: int, body: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        decoder(Thing, version)(body)


def test_a_request_has_a_limit_of_elements_over_all_its_arrays() -> None:
    # Topics without name and partitions, three bytes each.
    start = b"\x00" + b"\x00\x01" + b"\x00\x00\x00\x01"
    count = ELEMENTS_MAX + 2
    varint = bytes((count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14))

    with pytest.raises(MalformedMessage, match=f"more than {ELEMENTS_MAX} elements"):
        decoder(ProduceRequest, 9)(start + varint + b"\x01\x01\x00" * count)
