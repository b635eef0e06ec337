"""Kafka frames made by hand.

On purpose nothing of `ottla.wire`: a benchmark client that shares the broker's codecs would
share its mistakes. One version of each request is enough here.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import crc32c

PRODUCE_VERSION = 11
FETCH_VERSION = 12
METADATA_VERSION = 12

NOT_LEADER_OR_FOLLOWER = 6

_CLIENT_ID = b"ottla-bench"
_NO_TAGS = b"\0"
_CONTROL_FLAG = 0x20


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def compact_string(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def compact_array(items: list[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def request_frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 7, len(_CLIENT_ID)) + _CLIENT_ID + _NO_TAGS
    return struct.pack(">i", len(header) + len(body)) + header + body


def record_batch(value: bytes, count: int = 1) -> bytes:
    """`count` records without key, all of the same value; no producer id."""
    records = bytearray()
    for delta in range(count):
        body = b"\0\0" + varint(delta) + varint(-1) + varint(len(value)) + value + b"\0"
        records += varint(len(body)) + body
    # Of today: retention goes by it, and would take the data away in the middle of a run.
    now_ms = time.time_ns() // 1_000_000
    covered = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    crc = crc32c.crc32c(covered)
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc) + covered


def produce_request(topic: str, partition: int, batch: bytes, acks: int = 1) -> bytes:
    partition_data = struct.pack(">i", partition) + uvarint(len(batch) + 1) + batch + _NO_TAGS
    topic_data = compact_string(topic) + compact_array([partition_data]) + _NO_TAGS
    body = b"\0" + struct.pack(">hi", acks, 30_000) + compact_array([topic_data]) + _NO_TAGS
    return request_frame(0, PRODUCE_VERSION, body)


def produce_answer(topic: str) -> bytes:
    """Of partition 0, after the header: as Apache Kafka 4 has it, byte for byte but for the
    offset."""
    partition = struct.pack(">ihqqq", 0, 0, 0, -1, 0) + compact_array([]) + b"\0" + _NO_TAGS
    topic_data = compact_string(topic) + compact_array([partition]) + _NO_TAGS
    return compact_array([topic_data]) + struct.pack(">i", 0) + _NO_TAGS


@dataclass(frozen=True, slots=True)
class FetchPosition:
    partition: int
    offset: int
    max_bytes: int


def fetch_request(
    topic: str,
    positions: list[FetchPosition],
    *,
    session_id: int = 0,
    session_epoch: int = -1,
    max_bytes: int = 50 * 1024 * 1024,
    is_committed_only: bool = False,
) -> bytes:
    partitions = [
        struct.pack(">iiqiqi", p.partition, -1, p.offset, -1, -1, p.max_bytes) + _NO_TAGS
        for p in positions
    ]
    topics = [compact_string(topic) + compact_array(partitions) + _NO_TAGS] if positions else []
    isolation = 1 if is_committed_only else 0
    fixed = struct.pack(">iiiibii", -1, 500, 1, max_bytes, isolation, session_id, session_epoch)
    body = fixed + compact_array(topics) + compact_array([]) + compact_string("") + _NO_TAGS
    return request_frame(1, FETCH_VERSION, body)


def metadata_request(topic: str) -> bytes:
    item = bytes(16) + compact_string(topic) + _NO_TAGS
    return request_frame(3, METADATA_VERSION, compact_array([item]) + b"\0\0" + _NO_TAGS)


class Reader:
    """Walks a response. Lives for one frame."""

    __slots__ = ("buffer", "position")

    def __init__(self, buffer: memoryview | bytes, position: int) -> None:
        self.buffer = buffer
        self.position = position

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.buffer, self.position)
        self.position += struct.calcsize(form)
        return int(value)

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.buffer[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str | None:
        length = self.uvarint() - 1
        if length < 0:
            return None
        start = self.position
        self.position += length
        return bytes(self.buffer[start : self.position]).decode()

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            size = self.uvarint()
            self.position += size


def produce_error(frame: memoryview | bytes) -> int:
    """The error code of the only partition. `frame` is without its length."""
    reader = Reader(frame, 4)
    reader.skip_tags()
    reader.uvarint()
    reader.text()
    reader.uvarint()
    reader.number(">i")
    return reader.number(">h")


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    partition: int
    error_code: int
    records: memoryview

    def next_offset(self) -> int | None:
        """After the last whole batch; None when there is none."""
        found = None
        for position in self._batches():
            (base_offset,) = struct.unpack_from(">q", self.records, position)
            (last_delta,) = struct.unpack_from(">i", self.records, position + 23)
            found = base_offset + last_delta + 1
        return found

    def record_count(self) -> int:
        """In whole batches, without those that end transactions."""
        count = 0
        for position in self._batches():
            if not self.records[position + 22] & _CONTROL_FLAG:
                count += struct.unpack_from(">i", self.records, position + 57)[0]
        return count

    def _batches(self) -> Iterator[int]:
        """Where whole ones begin."""
        position = 0
        while position + 61 <= len(self.records):
            (length,) = struct.unpack_from(">i", self.records, position + 8)
            if position + 12 + length > len(self.records):
                return
            yield position
            position += 12 + length


@dataclass(frozen=True, slots=True)
class Fetched:
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]


def parse_fetch(frame: memoryview) -> Fetched:
    """`frame` is without its length, and holds one topic at most."""
    reader = Reader(frame, 4)
    reader.skip_tags()
    reader.number(">i")
    error_code, session_id = reader.number(">h"), reader.number(">i")
    partitions: list[FetchedPartition] = []
    for _ in range(reader.uvarint() - 1):
        reader.text()
        for _ in range(reader.uvarint() - 1):
            partitions.append(_parse_partition(reader, frame))
        reader.skip_tags()
    return Fetched(error_code, session_id, partitions)


def _parse_partition(reader: Reader, frame: memoryview) -> FetchedPartition:
    partition, error_code = reader.number(">i"), reader.number(">h")
    reader.position += 24  # high watermark, last stable offset, log start offset
    for _ in range(reader.uvarint() - 1):
        reader.position += 16  # an aborted transaction
        reader.skip_tags()
    reader.number(">i")
    length = max(reader.uvarint() - 1, 0)
    records = frame[reader.position : reader.position + length]
    reader.position += length
    reader.skip_tags()
    return FetchedPartition(partition, error_code, records)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    leader: int
    """-1 where there is none."""
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True, slots=True)
class Metadata:
    brokers: list[int]
    controller: int
    partitions: dict[int, PartitionMetadata]
    """Of the only topic that was asked for; empty where it is not there."""


def parse_metadata(frame: memoryview) -> Metadata:
    """`frame` is without its length."""
    reader = Reader(frame, 4)
    reader.skip_tags()
    reader.number(">i")
    brokers: list[int] = []
    for _ in range(reader.uvarint() - 1):
        brokers.append(reader.number(">i"))
        reader.text()
        reader.number(">i")
        reader.text()
        reader.skip_tags()
    reader.text()
    controller = reader.number(">i")
    partitions: dict[int, PartitionMetadata] = {}
    if reader.uvarint() == 2 and reader.number(">h") == 0:
        reader.text()
        reader.position += 17  # topic id, is internal
        for _ in range(reader.uvarint() - 1):
            error_code, index, leader, _epoch = (reader.number(form) for form in _PARTITION_HEAD)
            replicas, in_sync, _offline = ([*_numbers(reader)] for _ in range(3))
            reader.skip_tags()
            if error_code:
                leader = -1
            partitions[index] = PartitionMetadata(leader, replicas, in_sync)
    return Metadata(brokers, controller, partitions)


_PARTITION_HEAD = (">h", ">i", ">i", ">i")


def _numbers(reader: Reader) -> Iterator[int]:
    for _ in range(reader.uvarint() - 1):
        yield reader.number(">i")


def describe_quorum_request() -> bytes:
    partition = struct.pack(">i", 0) + _NO_TAGS
    topic = compact_string("__cluster_metadata") + compact_array([partition]) + _NO_TAGS
    return request_frame(55, 0, compact_array([topic]) + _NO_TAGS)


def quorum_leader(frame: memoryview) -> int:
    """`frame` is without its length."""
    reader = Reader(frame, 4)
    reader.skip_tags()
    reader.number(">h")
    reader.uvarint()
    reader.text()
    reader.uvarint()
    reader.number(">i")
    reader.number(">h")
    return reader.number(">i")
