"""Produce requests that begin like one before them.

What a producer sends to a partition differs from one request to the next in its correlation id and
its records. The rest, here called the head, comes again and again:

    api key, version | correlation id | client id ... partition | size | records | no tagged fields
           4         |       4        |        the head         |      |         |        3

So a head is decoded once, and found by its bytes from then on; with it goes the answer, in which
only three numbers are new. Of the 13 µs that a request of one record took this saved 6. Equal bytes
mean the same in every request, so nothing has to be looked at but what follows the head.

Only the common form has a head: version 9 or later, one partition, and an answer wanted. Everything
else goes the general way, through `codec`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable

from ottla.kernel.ids import TopicId
from ottla.kernel.transport import Part
from ottla.wire.codec import decode, encoder
from ottla.wire.header import append_response, decode_request_header
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.primitives import MalformedMessage, read_unsigned_varint

HEADS_SINCE = 9
_TOPIC_IDS_SINCE = 13
_RESPONSE_HEADER_VERSION = 1

# Where a head ends, and what it tells of its shape, counted from the end of the client id: a byte
# for no tagged fields, one for no transactional id, acks and timeout, then topics and partitions. A
# transactional id moves what comes after it.
_TRANSACTIONAL_ID_AT = 1
_TOPIC_COUNT_AT = 8
_NAME_AT = 9
_TOPIC_ID_BYTES = 16
_PARTITION_COUNT_AND_INDEX_BYTES = 5
_ONE = 2  # A compact count is one more than what it counts; so are compact lengths.
_NULL = 0
_EMPTY = 1
_ONE_BYTE_MAX = 127

_ANSWERED_ACKS = (-1, 1)
_TAIL_BYTES = 3  # The partition, the topic and the request end in tagged fields, of which are none.

HEAD_BYTES_MAX = 512
"""A longer one is decoded each time: client ids can have 32 KB, and heads are kept."""
HEAD_COUNT_MAX = 4096
"""With all that hangs on them, 2 MB. When there are more they are learnt anew."""

_unpack_ids = struct.Struct(">ih").unpack_from
_OFFSETS = struct.Struct(">qqq")
_MARKS = (0x0123456789ABCDEF, 0x1123456789ABCDEF, 0x2123456789ABCDEF)
"""Not UTF-8, and longer than a topic id: in an answer they are the numbers and nothing else."""


class ProduceHead:
    """What a head says, and how its successes are answered."""

    __slots__ = (
        "_after",
        "_before",
        "_pack",
        "_size",
        "acks",
        "has_transactional_id",
        "index",
        "name",
        "topic_id",
    )

    def __init__(
        self,
        version: int,
        acks: int,
        name: str,
        topic_id: TopicId,
        index: int,
        *,
        has_transactional_id: bool,
    ) -> None:
        self.acks = acks
        self.has_transactional_id = has_transactional_id
        self.name = name
        self.topic_id = topic_id
        self.index = index
        # An answer is encoded once, and cut where its numbers are.
        topic = _answer(name, topic_id, index)
        parts: list[Part] = []
        encode = encoder(ProduceResponse, version)
        append_response(
            0, _RESPONSE_HEADER_VERSION, encode, ProduceResponse(responses=[topic]), parts
        )
        (frame,) = parts
        assert isinstance(frame, bytes)
        self._before, self._after = frame[8:].split(_OFFSETS.pack(*_MARKS))
        self._size = len(frame) - 4
        self._pack = _reply_struct(len(self._before), len(self._after)).pack

    def reply(
        self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
    ) -> bytes:
        """A whole frame, the same as `ProduceResponse` makes."""
        return self._pack(
            self._size,
            correlation_id,
            self._before,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            self._after,
        )


@functools.cache
def _reply_struct(before_bytes: int, after_bytes: int) -> struct.Struct:
    """One for all partitions of a topic: with a thousand of them that stays in the processor's
    cache. There are no more than lengths of names."""
    return struct.Struct(f">ii{before_bytes}sqqq{after_bytes}s")


def _answer(name: str, topic_id: TopicId, index: int) -> TopicProduceResponse:
    base_offset, log_append_time_ms, log_start_offset = _MARKS
    partition = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    return TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[partition])


class ProduceHeads:
    """The heads of one version of Produce that were decoded so far, of all connections. Owned by
    the dispatcher, lives as long as the broker."""

    __slots__ = ("_has_topic_ids", "_heads", "_version")

    def __init__(self, version: int) -> None:
        assert version >= HEADS_SINCE, "older ones are not flexible, and have another shape"
        self._version = version
        self._has_topic_ids = version >= _TOPIC_IDS_SINCE
        self._heads: dict[bytes, ProduceHead] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, frame: memoryview) -> tuple[ProduceHead, int, memoryview] | None:
        """The head, the correlation id and the records; None where the general way must be gone.
        Takes a frame of any content."""
        try:
            correlation_id, client_id_bytes = _unpack_ids(frame, 4)
            end = 10 + client_id_bytes if client_id_bytes > 0 else 10
            id_size = frame[end + _TRANSACTIONAL_ID_AT]
            if id_size:
                end += id_size - _EMPTY
            if self._has_topic_ids:
                end += _NAME_AT + _TOPIC_ID_BYTES + _PARTITION_COUNT_AND_INDEX_BYTES
            else:
                end += _NAME_AT + frame[end + _NAME_AT] + _PARTITION_COUNT_AND_INDEX_BYTES
            head = self._heads.get(bytes(frame[8:end]))
            if head is None:
                return None
            # The size as varint: a small batch has two bytes of it.
            size = frame[end]
            second = frame[end + 1]
            if size > 127 and second < 128:
                size += (second - 1) << 7
                start = end + 2
            else:
                size, start = read_unsigned_varint(frame, end)
            stop = start + size - 1
            if frame[stop] or frame[stop + 1] or frame[stop + 2]:
                return None
        except (struct.error, IndexError, MalformedMessage):
            return None
        if size == _NULL or stop + _TAIL_BYTES != len(frame):
            return None
        return head, correlation_id, frame[start:stop]

    def learn(self, frame: memoryview, is_kept: Callable[[ProduceHead, str | None], bool]) -> None:
        """From a request that the general way has answered, unless nothing like it, by a client of
        this id, is to be kept."""
        end = self._head_end(frame)
        if end is None or end - 8 > HEAD_BYTES_MAX:
            return
        key = bytes(frame[8:end])
        if key in self._heads:
            return
        header, position = decode_request_header(frame)
        request, _ = decode(ProduceRequest, self._version, frame, position)
        if request.acks not in _ANSWERED_ACKS:
            return
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        head = ProduceHead(
            self._version,
            request.acks,
            topic.name,
            topic.topic_id,
            partition.index,
            has_transactional_id=request.transactional_id is not None,
        )
        if not is_kept(head, header.client_id):
            return
        if len(self._heads) >= HEAD_COUNT_MAX:
            self._heads.clear()
        self._heads[key] = head

    def _head_end(self, frame: memoryview) -> int | None:
        """None where the request has not the form of which heads are kept."""
        client_id_bytes: int = _unpack_ids(frame, 4)[1]
        start = 10 + max(client_id_bytes, 0)
        if frame[start]:
            return None
        id_size = frame[start + _TRANSACTIONAL_ID_AT]
        if id_size > _ONE_BYTE_MAX:
            return None
        start += max(id_size - _EMPTY, 0)
        if frame[start + _TOPIC_COUNT_AT] != _ONE:
            return None
        name = start + _NAME_AT
        name_bytes = _TOPIC_ID_BYTES if self._has_topic_ids else frame[name]
        if name_bytes > _ONE_BYTE_MAX or frame[name + name_bytes] != _ONE:
            return None
        return name + name_bytes + _PARTITION_COUNT_AND_INDEX_BYTES
