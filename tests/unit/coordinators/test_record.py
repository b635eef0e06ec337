from __future__ import annotations

import pytest

from ottla.coordinators.record import (
    CoordinatorRecord,
    EncodedRecord,
    RecordType,
    decode_record,
    encode_long_record,
    encode_record,
    is_long,
)
from ottla.kernel.slices import at_once
from ottla.wire.codec import MalformedMessage
from ottla.wire.schema import Message, array, int32, string


class ColorKey(Message, api_key=5, versions="0"):
    name: str = string()


class ColorValue(Message, api_key=5, versions="0-1", flexible="1+"):
    rgb: int = int32()
    depth: int = int32("1+", tag=0, default=8)


TYPES = {5: RecordType(ColorKey, ColorValue)}
RED = ColorKey(name="red")
RED_KEY = b"\x00\x05" + b"\x00\x03red"


class ShadesValue(Message, api_key=5, versions="0-1", flexible="1+"):
    names: list[str] = array(string())


@pytest.mark.parametrize("version", [0, 1])
def test_a_record_of_many_things_is_encoded_in_steps(version: int) -> None:
    names = [str(number) for number in range(2000)]
    long = CoordinatorRecord(RED, ShadesValue(names=names), version)
    assert is_long(long)
    steps = encode_long_record(long)
    next(steps)
    assert at_once(steps) == encode_record(long)
    for short in (
        CoordinatorRecord(RED, ShadesValue(names=names[:10]), version),
        CoordinatorRecord(RED, None),
        EncodedRecord(b"key", b"value"),
    ):
        assert not is_long(short)


def test_the_type_stands_before_the_key_and_the_version_before_the_value() -> None:
    value = ColorValue(rgb=0xFF0000, depth=24)

    assert encode_record(CoordinatorRecord(RED, value)) == (
        RED_KEY,
        b"\x00\x00" + b"\x00\xff\x00\x00",
    )
    assert encode_record(CoordinatorRecord(RED, value, value_version=1)) == (
        RED_KEY,
        b"\x00\x01" + b"\x00\xff\x00\x00" + b"\x01\x00\x04\x00\x00\x00\x18",
    )


@pytest.mark.parametrize(
    "record",
    [
        CoordinatorRecord(RED, ColorValue(rgb=7)),
        CoordinatorRecord(RED, ColorValue(rgb=7, depth=24), value_version=1),
        CoordinatorRecord(RED, None),
    ],
    ids=["version 0", "version 1", "tombstone"],
)
def test_what_was_encoded_is_decoded(record: CoordinatorRecord) -> None:
    assert decode_record(TYPES, *encode_record(record)) == record


def test_a_tombstone_has_no_value() -> None:
    assert encode_record(CoordinatorRecord(RED, None)) == (RED_KEY, None)


def test_a_type_that_only_newer_brokers_know_is_none() -> None:
    assert decode_record(TYPES, b"\x00\x06" + b"whatever it holds", b"\x00\x09?") is None


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (b"", None, "key .* no version"),
        (b"\x00", None, "key .* no version"),
        (RED_KEY[:-1], None, "name of length 3"),
        (RED_KEY, b"", "value .* no version"),
        (RED_KEY, b"\x00\x02\x00\x00\x00\x07", "ColorValue has no version 2"),
        (RED_KEY, b"\xff\xff\x00\x00\x00\x07", "ColorValue has no version -1"),
        (RED_KEY, b"\x00\x00\x00\x00\x07", "ColorValue version 0"),
    ],
)
def test_malformed(key: bytes, value: bytes | None, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        decode_record(TYPES, key, value)
