"""Any record of a coordinator, to try formats with, and the JSON that Apache Kafka's classes make
of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ottla.coordinators.record import (
    CoordinatorRecord,
    RecordType,
    decode_record,
    encode_record,
)
from ottla.wire.codec import MalformedMessage
from ottla.wire.schema import Array, Bytes, Field, Fixed, Nested, String, Struct, Type


def read_frozen(path: Path) -> dict[str, tuple[bytes, bytes | None]]:
    """Samples by name, as bytes of key and value, from a file that Apache Kafka's classes filled
    with {name: [key, value]} in hexadecimal digits."""
    return {
        name: (bytes.fromhex(key), None if value == "null" else bytes.fromhex(value))
        for name, (key, value) in json.loads(path.read_text()).items()
    }


# --- what a version leaves of a message --------------------------------------------------------


def as_of(message: Any, version: int) -> Any:
    """With the default in every field that the version lacks."""
    kept = {
        field.name: _value_as_of(getattr(message, field.name), version)
        for field in message.FIELDS
        if version in field.versions
    }
    return type(message)(**kept)


def _value_as_of(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return as_of(value, version)
    if isinstance(value, list):
        return [_value_as_of(item, version) for item in value]
    return value


# --- any record --------------------------------------------------------------------------------


def value_cases(types: Mapping[int, RecordType]) -> list[tuple[RecordType, int]]:
    """Every type in every version of its value."""
    return [(known, version) for known in types.values() for version in known.value.VERSIONS]


def case_id(case: object) -> str:
    return case.value.__name__ if isinstance(case, RecordType) else f"v{case}"


_INTEGERS = {
    format: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for format, bits in {"b": 8, "h": 16, "i": 32, "q": 64}.items()
}


@cache
def records(known: RecordType, version: int) -> st.SearchStrategy[CoordinatorRecord]:
    values = st.none() | _structs(known.value, version)
    return st.builds(
        lambda key, value: CoordinatorRecord(key, value, 0 if value is None else version),
        _structs(known.key, 0),
        values,
    )


def _structs(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    fields = [field for field in cls.FIELDS if version in field.versions]
    return st.builds(cls, **{field.name: _values_of(field, version) for field in fields})


def _values_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _values_of_type(field.type, version)
    return st.none() | values if version in field.nullable else values


def _values_of_type(type: Type, version: int) -> st.SearchStrategy[Any]:
    match type:
        case Array():
            return st.lists(_values_of_type(type.element, version), max_size=3)
        case Nested():
            return _structs(type.struct, version)
        case String():
            return st.text("a.é漢😀", max_size=5) | st.just("t" * 127)
        case Bytes():
            return st.binary(max_size=10) | st.just(bytes(127))
        case Fixed("16s"):
            return st.binary(min_size=16, max_size=16) | st.just(bytes(16))
        case Fixed():
            return _INTEGERS[type.format]
    raise AssertionError(type)


# --- JSON --------------------------------------------------------------------------------------


def to_json(message: Struct, version: int) -> str:
    """As Kafka's generated converters write it: tagged fields only where they are set."""
    return json.dumps(_json_of(message, version))


def _json_of(message: Struct, version: int) -> dict[str, Any]:
    return {
        _camel_case(field.name): _json_of_value(getattr(message, field.name), field.type, version)
        for field in message.FIELDS
        if version in field.versions
        and (field.tag is None or _is_set(getattr(message, field.name), field))
    }


def _is_set(value: Any, field: Field) -> bool:
    return bool(value != ([] if field.default_is_new_list else field.default))


def _json_of_value(value: Any, type: Type, version: int) -> Any:
    if value is None:
        return None
    match type:
        case Array():
            return [_json_of_value(item, type.element, version) for item in value]
        case Nested():
            return _json_of(value, version)
        case Bytes():
            return base64.b64encode(value).decode()
        case Fixed("16s"):
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# --- damaged bytes -----------------------------------------------------------------------------


def assert_damage_is_noticed(
    types: Mapping[int, RecordType], record: CoordinatorRecord, data: st.DataObject
) -> None:
    """Cut and damaged bytes of it are malformed, or another record."""
    key, encoded = encode_record(record)
    assert decode_record(types, key, encoded) == record
    for whole in filter(None, (key, encoded)):
        position = data.draw(st.integers(0, len(whole) - 1))
        damaged = whole[:position] + data.draw(st.binary(max_size=3))
        try:
            found = decode_record(
                types,
                damaged if whole is key else key,
                damaged if whole is encoded else encoded,
            )
        except MalformedMessage:
            continue
        assert found is None or isinstance(found, CoordinatorRecord)
