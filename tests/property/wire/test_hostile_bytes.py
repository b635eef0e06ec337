"""No bytes do harm: decoding any of them raises MalformedMessage or nothing, and allocates in
proportion to the bytes that are there, not to the counts that they claim."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.transport import Part
from ottla.wire.codec import MalformedMessage, decoder, encoder
from ottla.wire.header import decode_request_header
from ottla.wire.schema import Message
from tests.support.any_struct import any_struct
from tests.support.counts import count
from tests.support.message_cases import ALL_CASES, case_id

# The largest that four bytes, two bytes and a varint can claim, and the smallest.
_HOSTILE_LENGTHS = [
    b"\x7f\xff\xff\xff",
    b"\x00\x10\x00\x00",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x10",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
]

# What one byte of a message may cost at most: a struct of an empty string and an empty array is
# three bytes on the wire, and 120 as two objects and their place in a list.
_ALLOCATED_PER_BYTE_MAX = 80
_ALLOCATED_ALWAYS_MAX = 100_000


def decode_whatever(cls: type[Message], version: int, frame: bytes) -> None:
    try:
        _, position = decoder(cls, version)(frame)
    except MalformedMessage:
        return
    assert 0 <= position <= len(frame)


def encoded(message: Message, version: int) -> bytes:
    out: list[Part] = []
    encoder(type(message), version)(message, out)
    return b"".join(part for part in out if not hasattr(part, "file"))


@st.composite
def mutated(draw: st.DrawFn, frames: st.SearchStrategy[bytes]) -> bytes:
    frame = bytearray(draw(frames))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(frame)))
        stop = draw(st.integers(start, min(len(frame), start + 8)))
        piece = st.binary(max_size=8) | st.sampled_from(_HOSTILE_LENGTHS)
        frame[start:stop] = draw(piece)
    return bytes(frame)


@pytest.mark.parametrize(("cls", "version"), ALL_CASES, ids=case_id)
@settings(max_examples=count(full=150))
@given(data=st.data())
def test_damaged_messages_and_noise(cls: type[Message], version: int, data: st.DataObject) -> None:
    messages = any_struct(cls, version)
    frames = messages.map(lambda message: encoded(message, version))
    decode_whatever(cls, version, data.draw(mutated(frames) | st.binary(max_size=100)))


@pytest.mark.parametrize(("cls", "version"), ALL_CASES, ids=case_id)
@settings(max_examples=count(full=50))
@given(data=st.data())
def test_claims_cost_nothing(cls: type[Message], version: int, data: st.DataObject) -> None:
    messages = any_struct(cls, version)
    frame = data.draw(messages.map(lambda message: encoded(message, version)))
    position = data.draw(st.integers(0, len(frame)))
    filler = data.draw(st.sampled_from([b"\x00", b"\x01", b"\x01\x01\x00", b"\x02\x00", b"\xff"]))
    claim = data.draw(st.sampled_from(_HOSTILE_LENGTHS))
    hostile = frame[:position] + claim + filler * (4096 // len(filler))
    decode_whatever(cls, version, hostile)  # So that the codec is compiled.

    tracemalloc.start()
    try:
        decode_whatever(cls, version, hostile)
        _, allocated_max = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert allocated_max < _ALLOCATED_ALWAYS_MAX + _ALLOCATED_PER_BYTE_MAX * len(hostile)


@given(frame=st.binary(max_size=40))
def test_any_header(frame: bytes) -> None:
    try:
        _, position = decode_request_header(frame)
    except MalformedMessage:
        return
    assert 0 <= position <= len(frame)
