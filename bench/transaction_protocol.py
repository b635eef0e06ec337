"""Frames of transactions version 2 (KIP-890), made by hand like those of `protocol.py`.

What changes from one transaction to the next is written into a frame that was built before: the
producer id, the epoch, and the CRC of each batch.
"""

from __future__ import annotations

import struct

import crc32c

from bench.protocol import (
    Reader,
    compact_array,
    compact_string,
    record_batch,
    request_frame,
    uvarint,
)

FIND_COORDINATOR, INIT_PRODUCER_ID, END_TXN = 10, 22, 26
_FIND_COORDINATOR_VERSION = 4
_INIT_PRODUCER_ID_VERSION = 5
PRODUCE_VERSION = 12
END_TXN_VERSION = 5

NONE = 0
UNKNOWN_TOPIC, NOT_LEADER_OR_FOLLOWER = 3, 6
COORDINATOR_LOADING, NO_COORDINATOR, NOT_COORDINATOR = 14, 15, 16
CONCURRENT_TRANSACTIONS = 51

_ALL = -1
_TIMEOUT_MS = 60_000
_TRANSACTION = 1
_TRANSACTIONAL_FLAG = 0x10
_NO_TAGS = b"\0"

# In a batch, and in a frame before its body.
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT, _SEQUENCE_AT = 17, 21, 43, 53
_PRODUCER = struct.Struct(">qh")

# A partition in an answer: number, error code, three offsets, no record errors, message or tags.
_ANSWER_BYTES = 33


def find_coordinator(transactional_id: str) -> bytes:
    body = bytes([_TRANSACTION]) + compact_array([compact_string(transactional_id)]) + _NO_TAGS
    return request_frame(FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, body)


def found_error(frame: memoryview) -> int:
    reader = Reader(frame, 4)
    reader.skip_tags()
    reader.number(">i")
    reader.uvarint()
    reader.text()
    reader.number(">i")
    reader.text()
    reader.number(">i")
    return reader.number(">h")


def init_producer_id(transactional_id: str) -> bytes:
    body = compact_string(transactional_id) + struct.pack(">iqh", _TIMEOUT_MS, -1, -1) + _NO_TAGS
    return request_frame(INIT_PRODUCER_ID, _INIT_PRODUCER_ID_VERSION, body)


def producer(frame: memoryview | bytes) -> tuple[int, int, int]:
    """Error code, producer id and epoch: of InitProducerId and EndTxn, which answer alike."""
    error_code, producer_id, epoch = struct.unpack_from(">hqh", frame, 9)
    return error_code, producer_id, epoch


class EndFrame:
    """Commits a transaction."""

    def __init__(self, transactional_id: str) -> None:
        name = compact_string(transactional_id)
        body = name + _PRODUCER.pack(-1, -1) + b"\1" + _NO_TAGS
        self._frame = bytearray(request_frame(END_TXN, END_TXN_VERSION, body))
        self._at = len(self._frame) - len(body) + len(name)

    def of(self, producer_id: int, epoch: int) -> bytearray:
        _PRODUCER.pack_into(self._frame, self._at, producer_id, epoch)
        return self._frame


class ProduceFrame:
    """All records of a transaction in one request, a batch for each partition."""

    def __init__(
        self, transactional_id: str, topic: str, record_counts: dict[int, int], value: bytes
    ) -> None:
        """`record_counts` are by partition."""
        batches = [_batch(value, count) for count in record_counts.values()]
        data = [
            struct.pack(">i", partition) + uvarint(len(batch) + 1) + batch + _NO_TAGS
            for partition, batch in zip(record_counts, batches, strict=True)
        ]
        body = (
            compact_string(transactional_id)
            + struct.pack(">hi", _ALL, 30_000)
            + compact_array([compact_string(topic) + compact_array(data) + _NO_TAGS])
            + _NO_TAGS
        )
        self._frame = bytearray(request_frame(0, PRODUCE_VERSION, body))
        self._batches: list[tuple[int, int]] = []
        start = 0
        for batch in batches:
            start = self._frame.index(batch, start)
            self._batches.append((start, start + len(batch)))
            start += len(batch)
        first = 4 + 1 + 1 + len(compact_string(topic)) + 1 + 4
        self._error_places = [first + _ANSWER_BYTES * each for each in range(len(batches))]

    def of(self, producer_id: int, epoch: int) -> bytearray:
        """Each transaction has an epoch of its own, in which sequences begin with 0."""
        frame = self._frame
        view = memoryview(frame)
        for start, end in self._batches:
            _PRODUCER.pack_into(frame, start + _PRODUCER_AT, producer_id, epoch)
            crc = crc32c.crc32c(view[start + _ATTRIBUTES_AT : end])
            struct.pack_into(">I", frame, start + _CRC_AT, crc)
        return frame

    def error(self, answer: memoryview | bytes) -> int:
        """The first that is none. Up to it the answer has the length of a success."""
        for place in self._error_places:
            (code,) = struct.unpack_from(">h", answer, place)
            if code != NONE:
                return int(code)
        return NONE


def _batch(value: bytes, count: int) -> bytes:
    batch = bytearray(record_batch(value, count))
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, _TRANSACTIONAL_FLAG)
    struct.pack_into(">i", batch, _SEQUENCE_AT, 0)
    return bytes(batch)
