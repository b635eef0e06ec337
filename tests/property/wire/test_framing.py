"""However a stream is cut into reads, the same frames come out of it."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.framing import FrameReader, FrameTooLarge

_LIMIT = 3_000_000
_OTHER_LIMIT = 200

# Around the limit for other APIs, what is kept aside (16 KiB), the shared buffer (64 KiB), and the
# first size of an own buffer (1 MiB). All but the first kind begin with the API key of Produce.
_FRAMES = st.binary(max_size=_OTHER_LIMIT) | st.sampled_from(
    [0, 195, 196, 16_000, 16_384, 16_385, 50_000, 66_000, 1 << 20, (1 << 20) + 1, 2_500_000]
).map(lambda size: bytes((index * 7 + size) % 251 for index in range(256)) * (size // 256))
_READS = st.lists(
    st.integers(1, 10) | st.integers(1, 5000) | st.sampled_from([16_388, 65_536, 1 << 20]),
    min_size=1,
    max_size=40,
)


def receive(reader: FrameReader, stream: bytes, reads: list[int]) -> list[bytes]:
    """Feeds the stream in reads of these sizes, over and over, and copies the frames."""
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        # Many reads of one byte of a long stream would take minutes.
        size = reads[turn % len(reads)] if turn < 200 else 1 << 20
        turn += 1
        buffer = reader.get_buffer()
        assert len(buffer) > 0
        piece = stream[position : position + min(size, len(buffer))]
        buffer[: len(piece)] = piece
        position += len(piece)
        frames += map(bytes, reader.bytes_received(len(piece)))
    return frames


@given(st.lists(_FRAMES.map(lambda frame: b"\0\0" + frame), max_size=6), _READS)
def test_frames_come_out_as_they_went_in(frames: list[bytes], reads: list[int]) -> None:
    reader = FrameReader(memoryview(bytearray(64 * 1024)), _LIMIT, _OTHER_LIMIT)
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)

    assert receive(reader, stream, reads) == frames
    assert not reader.is_within_frame


@given(st.lists(st.binary(max_size=_OTHER_LIMIT), max_size=4), st.binary(max_size=30), _READS)
def test_a_stream_that_turns_bad_gives_all_frames_before(
    frames: list[bytes], rest: bytes, reads: list[int]
) -> None:
    reader = FrameReader(memoryview(bytearray(64 * 1024)), _LIMIT, _OTHER_LIMIT)
    good = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)

    assert receive(reader, good, reads) == frames
    for bad in (-1, -(2**31), _LIMIT + 1, 2**31 - 1):
        reader = FrameReader(memoryview(bytearray(64 * 1024)), _LIMIT, _OTHER_LIMIT)
        try:
            receive(reader, struct.pack(">i", bad) + rest, reads)
        except FrameTooLarge:
            continue
        raise AssertionError(f"a frame of {bad} bytes was accepted")
