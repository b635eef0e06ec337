"""Every API, version and direction that kio has against kio: equal messages are equal bytes, both
ways."""

from __future__ import annotations

import asyncio
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from ottla.kernel.slices import let_others_run
from ottla.kernel.transport import Part
from ottla.wire.codec import codec, sliced_decoder, sliced_encoder
from ottla.wire.schema import Message
from tests.property.wire import messages as twins
from tests.support.counts import count
from tests.support.message_cases import KIO_CASES, case_id


def encoded(message: Message, version: int) -> bytes:
    out: list[Part] = []
    codec(type(message), version).encode(message, out)
    return b"".join(part for part in out if not hasattr(part, "file"))


@pytest.mark.parametrize(("cls", "version"), KIO_CASES, ids=case_id)
@settings(max_examples=count(full=200))
@given(data=st.data())
def test_bytes_are_those_of_kio(cls: type[Message], version: int, data: st.DataObject) -> None:
    twin = twins.kio_twin(cls, version)
    message = data.draw(twins.messages(cls, twin, version))

    ours = encoded(message, version)

    entity = twins.to_kio(message, twin, version)
    with io.BytesIO() as buffer:
        entity_writer(twin)(buffer, entity)
        theirs = buffer.getvalue()
    assert ours == theirs

    read_by_kio, size = entity_reader(twin)(ours, 0)
    assert read_by_kio == entity
    assert size == len(ours)

    # Not at the start of the buffer, and with something behind it.
    read_by_us, position = codec(cls, version).decode(b"\xff" + theirs + b"\xff", 1)
    assert read_by_us == message == twins.from_kio(read_by_kio, cls, version)
    assert position == len(theirs) + 1
    assert asyncio.run(there_and_back_in_slices(message, version)) == message


async def there_and_back_in_slices(message: Message, version: int) -> Message:
    out: list[Part] = []
    await sliced_encoder(type(message), version)(message, out, let_others_run)
    content = b"".join(part for part in out if not hasattr(part, "file"))
    assert content == encoded(message, version)
    decode = sliced_decoder(type(message), version)
    decoded, position = await decode(b"\xff" + content + b"\xff", 1, let_others_run)
    assert position == len(content) + 1
    return decoded
