"""Records of coordinators: a typed key and a typed value, each behind two bytes of version.

The version of a key is its type (what kind of record this is); that of a value is the version of
its schema. A record without a value is a tombstone: it takes back what has the same key.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Hashable, Mapping
from functools import cache
from types import coroutine
from typing import NamedTuple

from ottla.kernel.slices import Steps
from ottla.kernel.transport import Part
from ottla.wire.codec import MalformedMessage, decoder, encoder, sliced_encoder
from ottla.wire.schema import Array, Message

_VERSION = struct.Struct(">h")
_MANY = 128


class CoordinatorRecord(NamedTuple):
    key: Message
    """Its `API_KEY` is the type of the record, as in Kafka's schemas."""
    value: Message | None
    value_version: int = 0


class EncodedRecord(NamedTuple):
    """One that its operation has made into bytes itself, and whose effect it brings about itself,
    in `Result.on_replayed`: it has in its hand what decoding the bytes would give. For
    transactions, whose every step is a record. Loaded from the log it is replayed like all others.
    """

    key: bytes
    value: bytes


AnyRecord = CoordinatorRecord | EncodedRecord


class RecordType(NamedTuple):
    key: type[Message]
    value: type[Message]


def encode_record(record: AnyRecord) -> tuple[bytes, bytes | None]:
    if isinstance(record, EncodedRecord):
        return record
    key = _encode(record.key, record.key.API_KEY, 0)
    if record.value is None:
        return key, None
    return key, _encode(record.value, record.value_version, record.value_version)


def is_long(record: AnyRecord) -> bool:
    """Whether to encode it takes milliseconds."""
    names = _arrays_of(record.value.__class__)  # type: ignore[arg-type]
    return bool(names) and any(len(getattr(record.value, name) or ()) > _MANY for name in names)


@cache
def _arrays_of(cls: Hashable) -> tuple[str, ...]:
    """None, where the value is bytes or none at all."""
    fields = getattr(cls, "FIELDS", ())
    return tuple(field.name for field in fields if isinstance(field.type, Array))


def encode_long_record(record: AnyRecord) -> Steps[tuple[bytes, bytes | None]]:
    assert isinstance(record, CoordinatorRecord), "others are encoded"
    key, value, version = record
    assert value is not None, "a tombstone is short"
    parts: list[Part] = [_VERSION.pack(version)]
    yield from sliced_encoder(type(value), version)(value, parts, _pause).__await__()
    return _encode(key, key.API_KEY, 0), _joined(parts)


@coroutine
def _pause() -> Generator[None, None, None]:
    yield


def decode_record(
    types: Mapping[int, RecordType], key: bytes, value: bytes | None
) -> CoordinatorRecord | None:
    """None for a type that this broker does not know: a newer one wrote it. Raises
    MalformedMessage."""
    if len(key) < _VERSION.size:
        raise MalformedMessage("the key of a coordinator's record has no version")
    (type_id,) = _VERSION.unpack_from(key)
    known = types.get(type_id)
    if known is None:
        return None
    decoded_key, _ = decoder(known.key, 0)(key, _VERSION.size)
    if value is None:
        return CoordinatorRecord(decoded_key, None)
    if len(value) < _VERSION.size:
        raise MalformedMessage("the value of a coordinator's record has no version")
    (version,) = _VERSION.unpack_from(value)
    if version not in known.value.VERSIONS:
        raise MalformedMessage(f"{known.value.__name__} has no version {version}")
    decoded_value, _ = decoder(known.value, version)(value, _VERSION.size)
    return CoordinatorRecord(decoded_key, decoded_value, version)


def _encode(message: Message, prefix: int, version: int) -> bytes:
    parts: list[Part] = [_VERSION.pack(prefix)]
    encoder(type(message), version)(message, parts)
    return _joined(parts)


def _joined(parts: list[Part]) -> bytes:
    return b"".join(part for part in parts if isinstance(part, bytes))
