from __future__ import annotations

import struct

import pytest

from ottla.wire.framing import FrameReader, FrameTooLarge

PRODUCE = b"\x00\x00"
FETCH = b"\x00\x01"
SHARED_BYTES = 64 * 1024


def new_reader(limit: int = 100_000_000, other_limit: int = 1_000_000) -> FrameReader:
    return FrameReader(memoryview(bytearray(SHARED_BYTES)), limit, other_limit)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def receive(reader: FrameReader, piece: bytes) -> list[bytes]:
    reader.get_buffer()[: len(piece)] = piece
    return [bytes(frame) for frame in reader.bytes_received(len(piece))]


def test_many_frames_in_one_read() -> None:
    reader = new_reader()

    assert receive(reader, framed(b"one") + framed(b"") + framed(b"three")) == [
        b"one",
        b"",
        b"three",
    ]
    assert not reader.is_within_frame


def test_small_frames_are_slices_of_the_shared_buffer() -> None:
    shared = bytearray(SHARED_BYTES)
    reader = FrameReader(memoryview(shared), 1000, 1000)
    reader.get_buffer()[:7] = framed(b"one")

    (frame,) = reader.bytes_received(7)

    frame[:] = b"ONE"
    assert shared[4:7] == b"ONE"


def test_a_piece_of_a_frame_waits_for_the_rest() -> None:
    reader = new_reader()

    assert receive(reader, framed(b"one") + framed(b"second")[:6]) == [b"one"]
    assert reader.is_within_frame
    assert receive(reader, b"con") == []
    assert receive(reader, b"d" + framed(b"three")) == [b"second", b"three"]


def test_another_connection_may_use_the_shared_buffer_in_between() -> None:
    shared = memoryview(bytearray(SHARED_BYTES))
    one, other = FrameReader(shared, 1000, 1000), FrameReader(shared, 1000, 1000)

    assert receive(one, framed(b"first")[:6]) == []
    assert receive(other, framed(b"X" * 500)) == [b"X" * 500]
    assert receive(one, b"rst") == [b"first"]


def test_a_large_frame_is_received_into_its_own_buffer() -> None:
    reader = new_reader()
    frame = PRODUCE + bytes(range(256)) * 400
    receive(reader, framed(frame)[:50_000])

    rest = reader.get_buffer()

    assert len(rest) == len(frame) + 4 - 50_000, "not a byte of the next frame is taken"
    rest[:] = framed(frame)[50_000:]
    (received,) = reader.bytes_received(len(rest))
    assert received == frame
    assert len(reader.get_buffer()) == SHARED_BYTES
    assert received == frame, "it does not lie in the shared buffer"


def test_a_claimed_size_is_not_allocated_before_bytes_arrive() -> None:
    reader = new_reader()
    receive(reader, struct.pack(">i", 50_000_000) + PRODUCE)

    assert len(reader.get_buffer()) <= 64 * 1024
    assert reader.held_byte_count <= 64 * 1024


def test_an_own_buffer_grows_up_to_the_frame() -> None:
    reader = new_reader()
    frame = PRODUCE + bytes(3_000_001)
    receive(reader, framed(frame)[:1000])
    assert reader.received_byte_count == 996
    sizes = []
    frames: list[memoryview] = []
    while not frames:
        buffer = reader.get_buffer()
        sizes.append(len(buffer))
        frames = reader.bytes_received(len(buffer))

    assert sum(sizes) == len(frame) - 996
    assert len(sizes) == 7, "it doubles"
    assert len(frames[0]) == len(frame)


def test_a_shared_buffer_that_is_larger_than_an_own_one_at_first() -> None:
    reader = FrameReader(memoryview(bytearray(4_000_000)), 100_000_000, 1_000_000)
    frame = PRODUCE + bytes(range(250)) * 60_000
    assert receive(reader, framed(frame)[:2_500_000]) == []

    half = reader.get_buffer()
    half[:] = framed(frame)[2_500_000 : 2_500_000 + len(half)]
    assert reader.bytes_received(len(half)) == []
    assert receive(reader, framed(frame)[2_500_000 + len(half) :]) == [frame]


@pytest.mark.parametrize("size", [-1, -(2**31), 100_000_001, 2**31 - 1])
def test_an_impossible_size(size: int) -> None:
    with pytest.raises(FrameTooLarge, match=str(size)) as caught:
        receive(new_reader(), struct.pack(">i", size) + b"more")
    assert caught.value.head == struct.pack(">i", size)


def test_only_produce_may_be_large() -> None:
    size = struct.pack(">i", 1_000_001)

    assert receive(new_reader(), size + PRODUCE) == []
    assert receive(new_reader(), size) == []
    with pytest.raises(FrameTooLarge, match="API key 1; the limit is 1000000"):
        receive(new_reader(), size + FETCH)
    assert receive(new_reader(), struct.pack(">i", 1_000_000) + FETCH) == []


def test_the_api_of_a_large_frame_may_arrive_late() -> None:
    reader = new_reader()
    for byte in struct.pack(">i", 1_000_001) + FETCH[:1]:
        assert receive(reader, bytes((byte,))) == []

    with pytest.raises(FrameTooLarge):
        receive(reader, FETCH[1:])


def test_a_client_passes_one_limit_for_all() -> None:
    reader = new_reader(2000, 2000)

    assert receive(reader, framed(FETCH + bytes(1998))) == [FETCH + bytes(1998)]
    with pytest.raises(FrameTooLarge):
        receive(reader, struct.pack(">i", 2001))
