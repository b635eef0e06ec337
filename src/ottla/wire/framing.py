"""From a stream of bytes to frames: four bytes of size, then as many bytes.

Sans-IO: a connection receives into `get_buffer()` and says how much came by `bytes_received()`.
Two ways, for two kinds of traffic:

- Many small frames: they are received into one large buffer that all connections of the
  process share, as many as a read brings, and handed out as slices of it. A short piece of a
  frame at its end is kept aside and put in front of the next read, so that a stream of frames
  costs one read for each filling of the buffer.
- One large frame over many reads: as soon as its size is known it gets a buffer of its own, and
  the rest is received straight into that, copied by nobody. That buffer grows as bytes arrive:
  a size prefix alone costs its sender four bytes, so it must not cost us a hundred megabytes.
"""

from __future__ import annotations

import struct

from ottla.wire.api import ApiKey

_SIZE = struct.Struct(">i")
_API_KEY = struct.Struct(">h")

# A piece of a frame up to this long is copied aside and back, which is cheaper than another read.
_KEPT_BYTES_MAX = 16 * 1024

# What a frame of unknown honesty gets at first: this, or so many times what came of it already,
# so that a producer's megabyte has its room in one step and a mere prefix costs little. Then it
# doubles. Whoever has asked for much gives it more (`own_bytes_at_first`).
_OWN_BUFFER_BYTES_AT_FIRST = 64 * 1024
_OWN_BUFFER_FACTOR_AT_FIRST = 4


class FrameTooLarge(ValueError):
    """A size that is negative or over the limit. There is no way on: close the connection. `head`
    is where the frame begins, with its size: maybe it is none."""

    def __init__(self, message: str, head: bytes) -> None:
        super().__init__(message)
        self.head = head


class FrameReader:
    """Cuts what one connection receives into frames. Owned by the connection, lives as long.

    `shared` is the receive buffer of the process: it belongs to a reader from `get_buffer` until
    the frames from `bytes_received` were handled, and to nobody in between. Frames are valid
    until the next `get_buffer` of any connection.

    `frame_bytes_max` limits all frames. Frames of other APIs than Produce have no reason to be
    large, and decode into many objects: `other_frame_bytes_max` limits those. A client, whose
    frames are responses and name no API, passes the same for both."""

    __slots__ = (
        "_filled",
        "_frame_bytes_max",
        "_kept",
        "_other_frame_bytes_max",
        "_own",
        "_own_bytes",
        "_own_bytes_at_first",
        "_shared",
    )

    def __init__(
        self,
        shared: memoryview,
        frame_bytes_max: int,
        other_frame_bytes_max: int,
        own_bytes_at_first: int = _OWN_BUFFER_BYTES_AT_FIRST,
    ) -> None:
        assert len(shared) >= 2 * _KEPT_BYTES_MAX, "a kept piece would leave no room to receive"
        self._shared = shared
        self._frame_bytes_max = frame_bytes_max
        self._other_frame_bytes_max = other_frame_bytes_max
        self._own_bytes_at_first = own_bytes_at_first
        self._kept = b""
        self._own: memoryview | None = None
        self._own_bytes = 0  # of the whole frame, of which `_own` has room for a part
        self._filled = 0

    @property
    def is_within_frame(self) -> bool:
        """Whether the stream may not end here."""
        return self._own is not None or bool(self._kept)

    @property
    def held_byte_count(self) -> int:
        """The size of the buffer that a frame has, or will have with the next `get_buffer`."""
        if self._own is None:
            return 0
        if self._filled == len(self._own):
            return min(2 * self._filled, self._own_bytes)
        return len(self._own)

    @property
    def received_byte_count(self) -> int:
        """What is there of the frame that has a buffer of its own."""
        return 0 if self._own is None else self._filled

    def forget(self) -> None:
        """Lets go of what was received. The connection is over, but may stay in memory until the
        garbage collector finds it."""
        self._own = None
        self._kept = b""

    def get_buffer(self) -> memoryview:
        own = self._own
        if own is not None:
            if self._filled == len(own):
                own = self._own = _grown(own, self._own_bytes)
            return own[self._filled :]
        kept = self._kept
        if not kept:
            return self._shared
        self._shared[: len(kept)] = kept
        return self._shared[len(kept) :]

    def bytes_received(self, count: int) -> list[memoryview]:
        """The frames that are complete now, without their sizes, in order."""
        if self._own is not None:
            return self._bytes_received_into_own(self._own, count)
        shared = self._shared
        end = len(self._kept) + count
        position = 0
        frames: list[memoryview] = []
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(shared, position)
            start = position + 4
            if not 0 <= size <= self._other_frame_bytes_max:
                if not 0 <= size <= self._frame_bytes_max:
                    raise FrameTooLarge(
                        f"{size} bytes; the limit is {self._frame_bytes_max}",
                        bytes(shared[position:start]),
                    )
                if end - start < 2:
                    break  # Its API decides whether it may be this large, and is not here yet.
                self._check_large_frame(start, size)
            if start + size > end:
                if size > _KEPT_BYTES_MAX:
                    self._move_to_own(start, end, size)
                    return frames
                break
            position = start + size
            frames.append(shared[start:position])
        self._kept = bytes(shared[position:end]) if position < end else b""
        return frames

    def _check_large_frame(self, start: int, size: int) -> None:
        (api_key,) = _API_KEY.unpack_from(self._shared, start)
        if api_key != ApiKey.PRODUCE:
            raise FrameTooLarge(
                f"{size} bytes for API key {api_key}; the limit is {self._other_frame_bytes_max}",
                bytes(self._shared[start - 4 : start]),
            )

    def _move_to_own(self, start: int, end: int, size: int) -> None:
        self._kept = b""
        self._own_bytes = size
        self._filled = end - start
        room = max(self._own_bytes_at_first, _OWN_BUFFER_FACTOR_AT_FIRST * self._filled)
        room = min(size, room)
        self._own = memoryview(bytearray(room))
        self._own[: self._filled] = self._shared[start:end]

    def _bytes_received_into_own(self, own: memoryview, count: int) -> list[memoryview]:
        self._filled += count
        if self._filled < self._own_bytes:
            return []
        self._own = None
        return [own]


def _grown(own: memoryview, size_max: int) -> memoryview:
    larger = memoryview(bytearray(min(2 * len(own), size_max)))
    larger[: len(own)] = own
    return larger
