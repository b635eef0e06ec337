"""The records of `__consumer_offsets` and of `__transaction_state` against the classes of Apache
Kafka's coordinators: equal records are equal bytes, both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.groups.records import RECORD_TYPES as GROUP_TYPES
from ottla.coordinators.record import CoordinatorRecord, RecordType, decode_record, encode_record
from ottla.coordinators.transactions.records import RECORD_TYPES as TRANSACTION_TYPES
from tests.support import group_records, transaction_records
from tests.support.any_struct import to_json
from tests.support.asked_program import PROGRAMS, AskedProgram
from tests.support.coordinator_records import case_id, records, value_cases
from tests.support.counts import count
from tests.support.need import need_apache_kafka
from tools.apache_kafka import quick_command


class KafkasRecords(AskedProgram):
    """The classes of one of Kafka's coordinators."""

    def __init__(self, coordinator: str) -> None:
        super().__init__(quick_command(str(PROGRAMS / "CoordinatorRecords.java"), coordinator))

    def encode(self, record: CoordinatorRecord) -> tuple[str, str]:
        key, value, version = record
        parts = ["encode", type(key).__name__, to_json(key, 0)]
        if value is not None:
            parts += [type(value).__name__, str(version), to_json(value, version)]
        key_hex, value_hex = self.ask(*parts)
        return key_hex, value_hex

    def decode(self, key: str, value: str) -> list[object]:
        """Names of classes, JSON, and the version of the value."""
        parts = self.ask("decode", key, value)
        return [json.loads(part) if part[0] in "{0123456789" else part for part in parts]


@pytest.fixture(scope="module")
def groups() -> Iterator[KafkasRecords]:
    yield from _program("group")


@pytest.fixture(scope="module")
def transactions() -> Iterator[KafkasRecords]:
    yield from _program("transaction")


def _program(coordinator: str) -> Iterator[KafkasRecords]:
    need_apache_kafka()
    program = KafkasRecords(coordinator)
    yield program
    program.close()


def check(kafka: KafkasRecords, types: Mapping[int, RecordType], record: CoordinatorRecord) -> None:
    key, value = encode_record(record)
    hex = key.hex(), "null" if value is None else value.hex()

    assert hex == kafka.encode(record)

    expected: list[object] = [type(record.key).__name__, json.loads(to_json(record.key, 0))]
    if record.value is not None:
        expected += [type(record.value).__name__, record.value_version]
        expected += [json.loads(to_json(record.value, record.value_version))]
    assert kafka.decode(*hex) == expected

    assert decode_record(types, key, value) == record


@pytest.mark.parametrize("name", group_records.samples())
def test_sample_of_a_group(groups: KafkasRecords, name: str) -> None:
    check(groups, GROUP_TYPES, group_records.samples()[name])


@pytest.mark.parametrize("name", transaction_records.samples())
def test_sample_of_a_transaction(transactions: KafkasRecords, name: str) -> None:
    check(transactions, TRANSACTION_TYPES, transaction_records.samples()[name])


def test_the_frozen_bytes_are_those_of_kafka(
    groups: KafkasRecords, transactions: KafkasRecords
) -> None:
    """`test_records.py` of both, in tests/unit, hold ours against them, without Java."""
    assert json.loads(group_records.FROZEN.read_text()) == {
        name: list(groups.encode(record)) for name, record in group_records.samples().items()
    }
    assert json.loads(transaction_records.FROZEN.read_text()) == {
        name: list(transactions.encode(record))
        for name, record in transaction_records.samples().items()
    }


@pytest.mark.parametrize(("known", "version"), value_cases(GROUP_TYPES), ids=case_id)
@settings(max_examples=count(full=200))
@given(data=st.data())
def test_any_record_of_a_group(
    groups: KafkasRecords, known: RecordType, version: int, data: st.DataObject
) -> None:
    check(groups, GROUP_TYPES, data.draw(records(known, version)))


@pytest.mark.parametrize(("known", "version"), value_cases(TRANSACTION_TYPES), ids=case_id)
@settings(max_examples=count(full=200))
@given(data=st.data())
def test_any_record_of_a_transaction(
    transactions: KafkasRecords, known: RecordType, version: int, data: st.DataObject
) -> None:
    check(transactions, TRANSACTION_TYPES, data.draw(records(known, version)))
