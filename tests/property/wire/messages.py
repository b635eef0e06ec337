"""Random messages of our classes, and the same as entities of kio and back, field by field.

kio names a duration or a time without the `_ms` of Kafka's schema, holds it in a `timedelta` or
`datetime`, and an error code in an enum. So random values stay within what those can hold."""

from __future__ import annotations

import dataclasses
import importlib
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial._introspect import classify_field, is_optional

from ottla.wire.schema import Array, Bytes, Field, Fixed, Message, Nested, Records, String, Struct
from ottla.wire.source import snake_case

_EPOCH = datetime.fromtimestamp(0, UTC)
_LAST_TIME_S = 253_402_300_799  # The end of the year 9999, which is datetime's.

_INTEGERS = {
    format: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for format, bits in {"b": 8, "h": 16, "i": 32, "q": 64}.items()
}
_ERROR_CODES = st.sampled_from([code.value for code in ErrorCode])
# Short, of all lengths in UTF-8, and of lengths whose varint has two bytes.
_TEXTS = st.text("a.é漢😀", max_size=5) | st.sampled_from(["", "t" * 126, "t" * 127, "é" * 100])
_BINARIES = st.binary(max_size=10) | st.sampled_from([bytes(126), bytes(127), bytes(16384)])


@cache
def kio_twin(cls: type[Message], version: int) -> Any:
    name, direction = snake_case(cls.__name__).rsplit("_", 1)
    module = importlib.import_module(f"kio.schema.{name}.v{version}.{direction}")
    return getattr(module, cls.__name__)


def fields_in(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.FIELDS if version in field.versions]


@cache
def field_pairs(
    cls: type[Struct], twin: Any, version: int
) -> list[tuple[Field, dataclasses.Field[Any]]]:
    """Our fields of this version with kio's, which must be the same, in the same order of the
    wire; tagged fields may stand anywhere."""
    ours = fields_in(cls, version)
    theirs = list(dataclasses.fields(twin))
    assert [_plain(field.name) for field in ours] == [_plain(field.name) for field in theirs]
    assert [field.tag for field in ours] == [field.metadata.get("tag") for field in theirs]
    return list(zip(ours, theirs, strict=True))


def _plain(name: str) -> str:
    return name.removesuffix("_ms").replace("_", "")


def _element_twin(theirs: dataclasses.Field[Any]) -> Any:
    return classify_field(theirs).type_


# --- random messages ---------------------------------------------------------------------------


@cache
def messages(cls: type[Struct], twin: Any, version: int) -> st.SearchStrategy[Any]:
    values = {
        ours.name: _values(ours, theirs, version)
        for ours, theirs in field_pairs(cls, twin, version)
    }
    return st.builds(cls, **values)


def _values(ours: Field, theirs: dataclasses.Field[Any], version: int) -> st.SearchStrategy[Any]:
    values = _values_of_type(ours.type, theirs, version)
    # kio cannot write null in a tagged field, except by leaving out one that is null by default.
    may_be_null = version in ours.nullable and (ours.tag is None or ours.default is None)
    if may_be_null:
        values = st.none() | values
    if ours.tag is not None:
        values = st.just(ours.default) | values if not ours.default_is_new_list else values
    return values


def _values_of_type(
    type: object, theirs: dataclasses.Field[Any], version: int
) -> st.SearchStrategy[Any]:
    match type:
        case Array():
            return st.lists(_values_of_type(type.element, theirs, version), max_size=3)
        case Nested():
            return messages(type.struct, _element_twin(theirs), version)
        case String():
            return _TEXTS
        case Bytes():
            return _BINARIES
        case Records():
            return _BINARIES.map(memoryview)
        case Fixed("?"):
            return st.booleans()
        case Fixed("16s"):
            return st.binary(min_size=16, max_size=16) | st.just(bytes(16))
        case Fixed():
            return _integers(type.format, theirs)
    raise AssertionError(type)


def _integers(format: str, theirs: dataclasses.Field[Any]) -> st.SearchStrategy[int]:
    kafka_type = theirs.metadata["kafka_type"]
    if kafka_type == "error_code":
        return _ERROR_CODES
    if kafka_type == "datetime_i64":
        # Whole seconds: kio's reader goes through floats, and is off by a microsecond otherwise.
        times = st.integers(0, _LAST_TIME_S).map(lambda time_s: time_s * 1000)
        return st.just(-1) | times if is_optional(theirs) else times
    if kafka_type == "timedelta_i64":
        # It writes through floats, which cannot hold every one of 64 bits.
        return _INTEGERS["i"]
    return _INTEGERS[format]


# --- ours to kio's and back ----------------------------------------------------------------------


def to_kio(message: Struct, twin: Any, version: int) -> Any:
    return twin(
        **{
            theirs.name: _to_kio_value(getattr(message, ours.name), ours.type, theirs, version)
            for ours, theirs in field_pairs(type(message), twin, version)
        }
    )


def _to_kio_value(value: Any, type: object, theirs: dataclasses.Field[Any], version: int) -> object:
    if value is None:
        return None
    if isinstance(type, Array):
        return tuple(_to_kio_value(item, type.element, theirs, version) for item in value)
    if isinstance(type, Nested):
        return to_kio(value, _element_twin(theirs), version)
    match theirs.metadata["kafka_type"]:
        case "uuid":
            return uuid.UUID(bytes=value) if any(value) else None
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else _EPOCH + timedelta(milliseconds=value)
        case "records":
            return bytes(value)
    return value


def from_kio(entity: Any, cls: type[Struct], version: int) -> Any:
    return cls(
        **{
            ours.name: _from_kio_value(getattr(entity, theirs.name), ours.type, theirs, version)
            for ours, theirs in field_pairs(cls, entity.__class__, version)
        }
    )


def _from_kio_value(
    value: Any, type: object, theirs: dataclasses.Field[Any], version: int
) -> object:
    kafka_type = theirs.metadata.get("kafka_type")
    if value is None:
        return {"uuid": bytes(16), "datetime_i64": -1}.get(str(kafka_type))
    if isinstance(type, Array):
        return [_from_kio_value(item, type.element, theirs, version) for item in value]
    if isinstance(type, Nested):
        return from_kio(value, type.struct, version)
    match kafka_type:
        case "uuid":
            return value.bytes
        case "error_code":
            return value.value
        case "timedelta_i32" | "timedelta_i64":
            return value // timedelta(milliseconds=1)
        case "datetime_i64":
            return (value - _EPOCH) // timedelta(milliseconds=1)
        case "records":
            return memoryview(value)
    return value
