"""The requests between brokers that went with Kafka 4, against the classes of Kafka 3.9: equal
messages are equal bytes, both ways, and what a version has no place for is refused by both."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.transport import Part
from ottla.wire.codec import codec
from ottla.wire.schema import Message
from tests.support.any_struct import any_struct, to_json
from tests.support.asked_program import PROGRAMS, AskedProgram
from tests.support.counts import count
from tests.support.message_cases import KAFKA_3_CASES, case_id
from tests.support.need import need_kafka_3_clients
from tools.kafka_3_clients import program_command

_UNSUPPORTED = "unsupported"


class KafkasMessages(AskedProgram):
    """The classes of Kafka's messages."""

    def __init__(self) -> None:
        super().__init__(program_command(PROGRAMS / "InterBrokerMessages.java"))

    def read_and_write(
        self, cls: type[Message], version: int, hex: str, other_version: int
    ) -> tuple[object, str]:
        """JSON of what these bytes say, and the bytes of another version that say it."""
        text, other_hex = self.ask(cls.__name__, str(version), hex, str(other_version))
        return json.loads(text), other_hex


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkasMessages]:
    need_kafka_3_clients()
    program = KafkasMessages()
    yield program
    program.close()


@pytest.mark.parametrize(("cls", "version"), KAFKA_3_CASES, ids=case_id)
@settings(max_examples=count(full=200))
@given(data=st.data())
def test_bytes_are_those_of_kafka(
    kafka: KafkasMessages, cls: type[Message], version: int, data: st.DataObject
) -> None:
    message = data.draw(any_struct(cls, version))
    other_version = data.draw(st.just(version) | st.sampled_from(cls.VERSIONS))
    ours = encoded(message, version)

    json_of_kafka, other_of_kafka = kafka.read_and_write(cls, version, ours, other_version)

    assert json_of_kafka == json.loads(to_json(message, version))
    assert other_of_kafka == encoded(message, other_version)
    # Not at the start of the buffer, and with something behind it.
    frame = b"\xff" + bytes.fromhex(ours) + b"\xff"
    assert codec(cls, version).decode(frame, 1) == (message, len(frame) - 1)


def encoded(message: Message, version: int) -> str:
    out: list[Part] = []
    try:
        codec(type(message), version).encode(message, out)
    except ValueError:
        return _UNSUPPORTED
    return b"".join(part for part in out if isinstance(part, bytes)).hex()
