"""The few encodings that the generated codecs call rather than contain, and what bad bytes raise.

Everything here sits on the slow side of a branch: a varint of more than one byte, a tagged
field, an array of integers. What happens for every field of every message is in the generated
code itself (`compile_decode`, `compile_encode`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ottla.kernel.disk import FileSlice
from ottla.kernel.transport import Part

# Kafka's strings are at most this long in both encodings, although the compact one has room for
# more: its own reader and writer refuse longer ones.
STRING_BYTES_MAX = 0x7FFF

# A struct that may be null has a byte before it (KIP-893). Null is below zero, but zero in a tagged
# field: Kafka's generated code differs there.
PRESENT_STRUCT = b"\x01"
NULL_STRUCT = b"\xff"
NULL_TAGGED_STRUCT = b"\x00"

_VARINT_BYTES_MAX = 5
_VARINT_MAX = 0xFFFF_FFFF


class MalformedMessage(ValueError):
    """Bytes from outside that are not the message they claim to be. The only exception that
    decoding raises, whatever the bytes."""


def read_unsigned_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """Value and the position behind it. Past the end of the buffer it raises IndexError, which
    the generated decoders turn into MalformedMessage once for the whole message."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > _VARINT_MAX:
                break
            return value, position + index + 1
    raise MalformedMessage("a varint of more than 32 bits")


def unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return UNSIGNED_VARINTS[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


UNSIGNED_VARINTS = tuple(bytes((value,)) for value in range(0x80))
"""The varints of one byte, which nearly all lengths, counts and tags are."""


def skip_tagged_fields(buffer: bytes | memoryview, position: int, end: int) -> int:
    """Steps over a whole section of tagged fields (KIP-482) that this version knows none of,
    its count included. They must be in ascending order, which rules out duplicates too."""
    count, position = read_unsigned_varint(buffer, position)
    previous = -1
    for _ in range(count):
        tag, size, position = read_tag(buffer, position, end, previous)
        previous = tag
        position += size
    return position


def read_tag(
    buffer: bytes | memoryview, position: int, end: int, previous: int
) -> tuple[int, int, int]:
    """Tag, size of its content and where that begins. `previous` is the tag before it, or -1."""
    tag, position = read_unsigned_varint(buffer, position)
    if tag <= previous:
        raise MalformedMessage(f"tag {tag} after tag {previous}")
    size, position = read_unsigned_varint(buffer, position)
    if size > end - position:
        raise MalformedMessage(f"tag {tag} of {size} bytes where {end - position} are left")
    return tag, size, position


def tagged_fields(fields: Sequence[tuple[int, list[bytes]]]) -> bytes:
    """The section of tagged fields, from tags in ascending order with the pieces of each."""
    pieces = [unsigned_varint(len(fields))]
    for tag, content in fields:
        encoded = b"".join(content)
        pieces += (unsigned_varint(tag), unsigned_varint(len(encoded)), encoded)
    return b"".join(pieces)


def compact_bytes(content: bytes) -> bytes:
    return unsigned_varint(len(content) + 1) + content


def compact_string(content: bytes) -> bytes:
    if len(content) > STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(content)} bytes; Kafka's end at {STRING_BYTES_MAX}")
    return unsigned_varint(len(content) + 1) + content


def fixed_array(format_character: str, values: Sequence[object]) -> bytes:
    """The elements of an array of one fixed-width type, without their count."""
    return struct.pack(f">{len(values)}{format_character}", *values)


def records_size(records: Part | Sequence[FileSlice] | None) -> int:
    """In bytes; -1 for null, as the uncompact length is written."""
    if records is None:
        return -1
    if type(records) is list:
        return sum(map(len, records))
    return len(records)


def append_records(records: Part | list[FileSlice], chunks: list[bytes], out: list[Part]) -> None:
    """Records are parts of their own, never copied: what was written so far becomes one part in
    front of them."""
    out.append(b"".join(chunks))
    chunks.clear()
    if type(records) is list:
        out.extend(records)
    else:
        out.append(records)  # type: ignore[arg-type]  # mypy does not narrow by `type() is`
