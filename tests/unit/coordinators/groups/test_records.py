"""Against the bytes that Apache Kafka wrote: `tests/compat/test_coordinator_records.py` holds
those against its classes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.groups.records import RECORD_TYPES
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from ottla.wire.codec import MalformedMessage
from ottla.wire.schema import Message
from tests.support.coordinator_records import FROZEN, VALUE_CASES, records, samples
from tests.support.counts import count


def frozen() -> dict[str, tuple[bytes, bytes | None]]:
    return {
        name: (bytes.fromhex(key), None if value == "null" else bytes.fromhex(value))
        for name, (key, value) in json.loads(FROZEN.read_text()).items()
    }


@pytest.mark.parametrize("name", frozen())
def test_bytes_are_those_of_kafka(name: str) -> None:
    record, (key, value) = samples()[name], frozen()[name]

    assert encode_record(record) == (key, value)
    assert decode_record(RECORD_TYPES, key, value) == record


def test_samples_have_every_type_in_every_version() -> None:
    found = samples()
    assert found.keys() == frozen().keys()
    assert {
        (type(record.key), type(record.value), record.value_version) for record in found.values()
    } == {
        (known.key, value, version)
        for known in RECORD_TYPES.values()
        for value, version in [
            (type(None), 0),
            *((known.value, version) for version in known.value.VERSIONS),
        ]
    }


def test_types_are_those_of_their_key_and_value() -> None:
    for type_id, known in RECORD_TYPES.items():
        assert known.key.API_KEY == known.value.API_KEY == type_id
        assert list(known.key.VERSIONS) == [0]
        assert not known.key.is_flexible(0)


@pytest.mark.parametrize(
    ("value", "version"), VALUE_CASES, ids=lambda case: getattr(case, "__name__", f"v{case}")
)
@settings(max_examples=count(full=300))
@given(data=st.data())
def test_cut_and_damaged_bytes_are_malformed_or_another_record(
    value: type[Message], version: int, data: st.DataObject
) -> None:
    record = data.draw(records(value, version))
    key, encoded = encode_record(record)
    assert decode_record(RECORD_TYPES, key, encoded) == record
    for whole in filter(None, (key, encoded)):
        position = data.draw(st.integers(0, len(whole) - 1))
        damaged = whole[:position] + data.draw(st.binary(max_size=3))
        try:
            found = decode_record(
                RECORD_TYPES,
                damaged if whole is key else key,
                damaged if whole is encoded else encoded,
            )
        except MalformedMessage:
            continue
        assert found is None or isinstance(found, CoordinatorRecord)
