"""All fetch sessions of the broker."""

from __future__ import annotations

import random

from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.fetch_sessions.session import NO_SESSION, FetchSession
from ottla.wire.messages.fetch import FetchRequest

INITIAL_EPOCH = 0
FINAL_EPOCH = -1

EPOCH_MAX = 0x7FFF_FFFF

PARTITION_COUNT_MAX = 1_000_000
"""In all sessions together, some 300 MB. Sessions are kept for clients that may be gone, and a
thousand of them could have half a million partitions each."""


class FetchSessionCache:
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
