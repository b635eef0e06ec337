"""Against the bytes that Apache Kafka wrote: `tests/compat/test_coordinator_records.py` holds
those against its classes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.groups.records import RECORD_TYPES
from ottla.coordinators.record import RecordType, decode_record, encode_record
from tests.support.coordinator_records import (
    assert_damage_is_noticed,
    case_id,
    read_frozen,
    records,
    value_cases,
)
from tests.support.counts import count
from tests.support.group_records import FROZEN, samples

KAFKAS = read_frozen(FROZEN)


@pytest.mark.parametrize("name", KAFKAS)
def test_bytes_are_those_of_kafka(name: str) -> None:
    record, (key, value) = samples()[name], KAFKAS[name]

    assert encode_record(record) == (key, value)
    assert decode_record(RECORD_TYPES, key, value) == record


def test_samples_have_every_type_in_every_version() -> None:
    found = samples()
    assert found.keys() == KAFKAS.keys()
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


@pytest.mark.parametrize(("known", "version"), value_cases(RECORD_TYPES), ids=case_id)
@settings(max_examples=count(full=300))
@given(data=st.data())
def test_cut_and_damaged_bytes_are_malformed_or_another_record(
    known: RecordType, version: int, data: st.DataObject
) -> None:
    assert_damage_is_noticed(RECORD_TYPES, data.draw(records(known, version)), data)
