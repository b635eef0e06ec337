"""The records of `__consumer_offsets` against the classes of Apache Kafka's group coordinator:
equal records are equal bytes, both ways."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.groups.records import RECORD_TYPES
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from ottla.wire.schema import Message
from tests.support.coordinator_records import FROZEN, VALUE_CASES, records, samples, to_json
from tests.support.counts import count
from tests.support.need import need_apache_kafka
from tools.apache_kafka import java_command

_PROGRAM = Path(__file__).parent.parent / "support/java/CoordinatorRecords.java"


class KafkasRecords:
    """One JVM with Kafka's classes, asked line by line. Ends with its standard input."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(str(_PROGRAM), options=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def encode(self, record: CoordinatorRecord) -> tuple[str, str]:
        key, value, version = record
        parts = ["encode", type(key).__name__, to_json(key, 0)]
        if value is not None:
            parts += [type(value).__name__, str(version), to_json(value, version)]
        key_hex, value_hex = self._ask(parts)
        return key_hex, value_hex

    def decode(self, key: str, value: str) -> list[object]:
        """Names of classes, JSON, and the version of the value."""
        parts = self._ask(["decode", key, value])
        return [json.loads(part) if part[0] in "{0123456789" else part for part in parts]

    def _ask(self, parts: list[str]) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(parts) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program ended over {parts}"
        return line.rstrip("\n").split("\t")


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkasRecords]:
    need_apache_kafka()
    program = KafkasRecords()
    yield program
    program.close()


def check(kafka: KafkasRecords, record: CoordinatorRecord) -> None:
    key, value = encode_record(record)
    hex = key.hex(), "null" if value is None else value.hex()

    assert hex == kafka.encode(record)

    expected: list[object] = [type(record.key).__name__, json.loads(to_json(record.key, 0))]
    if record.value is not None:
        expected += [type(record.value).__name__, record.value_version]
        expected += [json.loads(to_json(record.value, record.value_version))]
    assert kafka.decode(*hex) == expected

    assert decode_record(RECORD_TYPES, key, value) == record


@pytest.mark.parametrize("name", samples())
def test_sample(kafka: KafkasRecords, name: str) -> None:
    check(kafka, samples()[name])


def test_the_frozen_bytes_are_those_of_kafka(kafka: KafkasRecords) -> None:
    """`tests/unit/coordinators/groups/test_records.py` holds ours against them, without Java."""
    written = {name: list(kafka.encode(record)) for name, record in samples().items()}
    assert json.loads(FROZEN.read_text()) == written


@pytest.mark.parametrize(
    ("value", "version"), VALUE_CASES, ids=lambda case: getattr(case, "__name__", f"v{case}")
)
@settings(max_examples=count(full=200))
@given(data=st.data())
def test_any_record(
    kafka: KafkasRecords, value: type[Message], version: int, data: st.DataObject
) -> None:
    check(kafka, data.draw(records(value, version)))
