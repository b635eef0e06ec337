"""Random structs of our wire classes, and the JSON that Apache Kafka's classes make of them."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ottla.wire.schema import (
    OWN_TAGS,
    Array,
    Bytes,
    Field,
    Fixed,
    Nested,
    Records,
    String,
    Struct,
    Type,
)

_INTEGERS = {
    format: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for format, bits in {"b": 8, "h": 16, "i": 32, "q": 64}.items()
}


@cache
def any_struct(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Whatever Kafka has in this version is random, all else has its default."""
    fields = [
        field
        for field in cls.FIELDS
        if version in field.versions and (field.tag is None or field.tag < OWN_TAGS)
    ]
    return st.builds(cls, **{field.name: _values_of(field, version) for field in fields})


def _values_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _values_of_type(field.type, version)
    if version in field.nullable:
        values = st.none() | values
    if field.tag is not None and not field.default_is_new_list:
        values = st.just(field.default) | values
    return values


def _values_of_type(type: Type, version: int) -> st.SearchStrategy[Any]:
    match type:
        case Array():
            return st.lists(_values_of_type(type.element, version), max_size=3)
        case Nested():
            return any_struct(type.struct, version)
        case String():
            return st.text("a.é漢😀", max_size=5) | st.just("t" * 127)
        case Bytes():
            return st.binary(max_size=10) | st.just(bytes(127))
        case Records():
            return st.binary(max_size=10).map(memoryview)
        case Fixed("?"):
            return st.booleans()
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
    return (first + "".join(word.capitalize() for word in rest)).replace("Kraft", "KRaft")
