"""Any record of a coordinator, to try formats with."""

from __future__ import annotations

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
from ottla.wire.schema import Struct
from tests.support.any_struct import any_struct


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


@cache
def records(known: RecordType, version: int) -> st.SearchStrategy[CoordinatorRecord]:
    values = st.none() | any_struct(known.value, version)
    return st.builds(
        lambda key, value: CoordinatorRecord(key, value, 0 if value is None else version),
        any_struct(known.key, 0),
        values,
    )


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
