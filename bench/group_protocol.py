"""Frames of group requests, made by hand like those of `protocol.py`, in the last versions before
flexible fields: they say all that is needed here."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

JOIN, HEARTBEAT, SYNC, COMMIT, FETCH_OFFSETS, FIND = 11, 12, 14, 8, 9, 10
_VERSIONS = {JOIN: 5, HEARTBEAT: 3, SYNC: 3, COMMIT: 7, FETCH_OFFSETS: 5, FIND: 2}

NONE = 0
LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, MEMBER_ID_REQUIRED = 22, 25, 27, 79

_CLIENT_ID = b"ottla-bench"
_NULL_STRING = struct.pack(">h", -1)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _bytes(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _frame(api_key: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, _VERSIONS[api_key], 7, len(_CLIENT_ID)) + _CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


def find_coordinator(group: str) -> bytes:
    return _frame(FIND, _string(group) + b"\0")


def join(group: str, member: str, session_ms: int, topic: str) -> bytes:
    subscription = struct.pack(">h", 0) + _array([_string(topic)]) + struct.pack(">i", -1)
    protocol = _string("range") + _bytes(subscription)
    body = _string(group) + struct.pack(">ii", session_ms, 60_000) + _string(member)
    return _frame(JOIN, body + _NULL_STRING + _string("consumer") + _array([protocol]))


def sync(group: str, generation: int, member: str, assignments: dict[str, bytes]) -> bytes:
    items = [_string(to) + _bytes(assignment) for to, assignment in assignments.items()]
    body = _string(group) + struct.pack(">i", generation) + _string(member) + _NULL_STRING
    return _frame(SYNC, body + _array(items))


def heartbeat(group: str, generation: int, member: str) -> bytes:
    body = _string(group) + struct.pack(">i", generation) + _string(member) + _NULL_STRING
    return _frame(HEARTBEAT, body)


def commit(group: str, topic: str, partitions: range, offset: int) -> bytes:
    """By nobody in particular: the group has no members."""
    items = [struct.pack(">iqi", each, offset, -1) + _string("") for each in partitions]
    body = _string(group) + struct.pack(">i", -1) + _string("") + _NULL_STRING
    return _frame(COMMIT, body + _array([_string(topic) + _array(items)]))


def fetch_offset(group: str, topic: str, partition: int) -> bytes:
    asked = _string(topic) + _array([struct.pack(">i", partition)])
    return _frame(FETCH_OFFSETS, _string(group) + _array([asked]))


def assignment(topic: str, partitions: list[int]) -> bytes:
    numbers = _array([struct.pack(">i", each) for each in partitions])
    return struct.pack(">h", 0) + _array([_string(topic) + numbers]) + struct.pack(">i", -1)


class _Reader:
    def __init__(self, frame: bytes | memoryview, position: int) -> None:
        self._frame = frame
        self.position = position

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._frame, self.position)
        self.position += struct.calcsize(form)
        return int(value)

    def string(self) -> str:
        length = self.number(">h")
        if length < 0:
            return ""
        self.position += length
        return bytes(self._frame[self.position - length : self.position]).decode()


@dataclass(frozen=True, slots=True)
class Joined:
    error_code: int
    generation: int
    leader: str
    member: str
    members: list[str] = field(default_factory=list)


def joined(frame: bytes) -> Joined:
    reader = _Reader(frame, 8)  # correlation id, throttle time
    error_code, generation = reader.number(">h"), reader.number(">i")
    reader.string()
    leader, member = reader.string(), reader.string()
    members = []
    for _ in range(reader.number(">i")):
        members.append(reader.string())
        reader.string()
        metadata_bytes = reader.number(">i")
        reader.position += metadata_bytes
    return Joined(error_code, generation, leader, member, members)


def error_code(frame: bytes | memoryview) -> int:
    """Of SyncGroup, Heartbeat or FindCoordinator."""
    return _Reader(frame, 8).number(">h")


def commit_error_code(frame: bytes | memoryview) -> int:
    """Of the first partition."""
    reader = _Reader(frame, 12)
    reader.string()
    reader.position += 8
    return reader.number(">h")


def fetched_offset(frame: bytes | memoryview) -> tuple[int, int]:
    """The error code, and the one offset that was asked for."""
    reader = _Reader(frame, 8)
    offset = -1
    for _ in range(reader.number(">i")):
        reader.string()
        for _ in range(reader.number(">i")):
            reader.number(">i")
            offset = reader.number(">q")
            reader.number(">i")
            reader.string()
            reader.number(">h")
    return reader.number(">h"), offset
