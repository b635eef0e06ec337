"""Fetch sessions (KIP-227): a client names its partitions once, then only what changed.

A session also knows which of its partitions may have something new, because it watches them:
a fetch costs by what happened, not by how many partitions the client reads. Kafka's own broker
looks at every partition of the session each time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.replication.partition import Partition
from ottla.wire.messages.fetch import FetchPartition, FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

EPOCH_MAX = 0x7FFF_FFFF

PARTITION_COUNT_MAX = 1_000_000
"""In all sessions together, some 300 MB. Sessions are kept for clients that may be gone, and a
thousand of them could have half a million partitions each."""

TopicKey = str | TopicId
"""The topic as the client names it: by name before v13, by id since."""

Lookup = Callable[[TopicKey, int], Partition]
"""Raises KafkaError where there is no such partition to read."""


class Wait:
    """A fetch that waits until enough bytes came, or its time is over."""

    def __init__(
        self,
        clock: Clock,
        max_wait_s: float,
        missing_byte_count: int,
        *,
        is_committed_only: bool = False,
    ) -> None:
        self.is_committed_only = is_committed_only
        self._missing_byte_count = missing_byte_count
        self._future = asyncio.get_running_loop().create_future()
        self._timer = clock.call_later(max_wait_s, self.finish)
        self.is_over = False

    def bytes_added(self, byte_count: int) -> None:
        self._missing_byte_count -= byte_count
        if self._missing_byte_count <= 0:
            self.finish()

    def finish(self) -> None:
        self._timer.cancel()
        if not self._future.done():
            self._future.set_result(None)

    async def finished(self) -> None:
        try:
            await self._future
        finally:
            self._timer.cancel()


class FetchedPartition:
    """One partition as one session reads it; watches that partition for the session."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
        "stable_offset",
        "topic",
        "was_held_back",
    )

    def __init__(self, session: FetchSession, topic: TopicKey, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.partition: Partition | None = None
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.stable_offset = -1
        self.was_held_back = False

    def update(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def watch(self, partition: Partition) -> None:
        self.partition = partition
        partition.watchers[self] = None

    def unwatch(self) -> None:
        if self.partition is not None:
            self.partition.watchers.pop(self, None)
            self.partition = None

    def records_added(self, partition: Partition, byte_count: int) -> None:
        session = self.session
        session.dirty[self] = None
        wait = session.wait
        if wait is None:
            return
        if wait.is_committed_only and self._is_held_back(partition):
            return
        wait.bytes_added(byte_count)

    def note_stable(self, partition: Partition) -> None:
        """For a reader of committed records: how far it can see, and whether there is more."""
        self.stable_offset = partition.last_stable_offset
        self.was_held_back = self.stable_offset < partition.high_watermark

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether an open transaction hides the bytes that were added. With its end, who knows how
        many more can be seen: enough to look again."""
        stable_offset, was_held_back = self.stable_offset, self.was_held_back
        self.note_stable(partition)
        if was_held_back and self.stable_offset > stable_offset and self.session.wait is not None:
            self.session.wait.finish()
        return was_held_back or self.was_held_back

    def partition_closed(self, partition: Partition) -> None:
        self.partition = None
        self.session.dirty[self] = None
        if self.session.wait is not None:
            self.session.wait.finish()


class FetchSession:
    """Lives from the client's first full fetch until it closes it, or its place in the cache
    is taken. A sessionless fetch has one of its own that ends with it. Gone in a crash: the
    client then hears that its session is unknown, and begins a new one."""

    def __init__(self, session_id: int, uses_topic_ids: bool) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.isolation_level = 0
        self.last_used_s = 0.0
        self.partitions: dict[tuple[TopicKey, int], FetchedPartition] = {}
        # Which may have something to tell, the longest unserved first.
        self.dirty: dict[FetchedPartition, None] = {}
        self.wait: Wait | None = None

    def update(self, request: FetchRequest) -> None:
        if request.isolation_level != self.isolation_level:
            # Where one sees nothing new the other may.
            self.isolation_level = request.isolation_level
            self.dirty.update(dict.fromkeys(self.partitions.values()))
        for topic in request.topics:
            key: TopicKey = topic.topic_id if self.uses_topic_ids else topic.topic
            for asked in topic.partitions:
                fetched = self.partitions.get((key, asked.partition))
                if fetched is None:
                    fetched = FetchedPartition(self, key, asked.partition)
                    self.partitions[key, asked.partition] = fetched
                fetched.update(asked)
                self.dirty[fetched] = None
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                gone = self.partitions.pop((key, index), None)
                if gone is not None:
                    gone.unwatch()
                    self.dirty.pop(gone, None)

    def watch_all(self, lookup: Lookup, partitions: Iterable[FetchedPartition]) -> None:
        for fetched in partitions:
            if fetched.partition is None:
                try:
                    fetched.watch(lookup(fetched.topic, fetched.index))
                except KafkaError:
                    continue  # It stays dirty, and each fetch tells the client.

    def close(self) -> None:
        for fetched in self.partitions.values():
            fetched.unwatch()
        self.partitions.clear()
        self.dirty.clear()
        if self.wait is not None:
            self.wait.finish()


class FetchSessions:
    """The broker's sessions, at most so many; the one unused for longest gives way, if it was
    unused for long enough."""

    def __init__(
        self, clock: Clock, rng: random.Random, *, slot_count: int, eviction_ms: int = 120_000
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._slot_count = slot_count
        self._eviction_s = eviction_ms / 1000
        self._sessions: dict[int, FetchSession] = {}  # the longest unused first
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, uses_topic_ids: bool) -> tuple[FetchSession, bool]:
        """The session of a fetch, brought up to date with it, and whether the client wants only
        what changed. Raises KafkaError when the client must begin anew."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id)
            asked_count = sum(len(topic.partitions) for topic in request.topics)
            if (
                request.session_epoch == FINAL_EPOCH
                or self._partition_count + asked_count > PARTITION_COUNT_MAX
            ):
                session = FetchSession(NO_SESSION, uses_topic_ids)
            else:
                session = FetchSession(self._new_id(), uses_topic_ids)
            session.update(request)
            if session.id != NO_SESSION:
                self._partition_count += len(session.partitions)
                session.last_used_s = self._clock.monotonic_s()
                self._sessions[session.id] = session
            return session, False
        session = self._resume(request, uses_topic_ids)
        if not session.partitions:
            self._close(session.id)  # There is nothing left to remember.
            return FetchSession(NO_SESSION, uses_topic_ids), False
        return session, True

    def _resume(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.last_used_s = self._clock.monotonic_s()
        self._sessions[session.id] = self._sessions.pop(session.id)
        self._partition_count -= len(session.partitions)
        session.update(request)
        self._partition_count += len(session.partitions)
        if self._partition_count > PARTITION_COUNT_MAX:
            self._close(session.id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return session

    def _close(self, session_id: int) -> None:
        if session := self._sessions.pop(session_id, None):
            self._partition_count -= len(session.partitions)
            session.close()

    def _new_id(self) -> int:
        """NO_SESSION when every place is taken: the client then fetches without one."""
        if len(self._sessions) >= self._slot_count:
            if not self._sessions:
                return NO_SESSION
            oldest = next(iter(self._sessions.values()))
            if self._clock.monotonic_s() - oldest.last_used_s < self._eviction_s:
                return NO_SESSION
            self._close(oldest.id)
        while True:
            session_id = self._rng.randrange(1, 1 << 31)
            if session_id not in self._sessions:
                return session_id
