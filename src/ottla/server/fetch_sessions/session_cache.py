"""All fetch sessions of the broker."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.fetch_sessions.session import NO_SESSION, FetchSession
from ottla.server.fetching_replica import FetchingReplica
from ottla.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic

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

    def begin(
        self, request: FetchRequest, uses_topic_ids: bool, *, more_count: int = 0
    ) -> tuple[FetchSession, bool]:
        """The session of a fetch, brought up to date with it, and whether the client wants only
        what changed. Raises KafkaError when the client must begin anew. So many partitions more
        are to follow."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id)
            asked_count = more_count + sum(len(topic.partitions) for topic in request.topics)
            is_of_replica = FetchingReplica.of(request) is not None
            session_id = NO_SESSION
            if (
                request.session_epoch != FINAL_EPOCH
                and self._partition_count + asked_count <= PARTITION_COUNT_MAX
            ):
                session_id = self._new_id(is_of_replica)
            session = FetchSession(session_id, uses_topic_ids, is_of_replica=is_of_replica)
            session.update(request)
            if session.id != NO_SESSION:
                self._partition_count += len(session.partitions)
                session.last_used_s = self._clock.monotonic_s()
                self._sessions[session.id] = session
            return session, False
        return self._unless_empty(self._resume(request, uses_topic_ids))

    async def begin_large(
        self, request: FetchRequest, uses_topic_ids: bool, slices: Slices
    ) -> tuple[FetchSession, bool]:
        """The same, a few partitions at a time: the client waits meanwhile, and nobody else knows
        of its session."""
        asked_count = 0
        async for topic in slices.of(request.topics):
            asked_count += len(topic.partitions)
        session, is_incremental = self.begin(
            _piece(request), uses_topic_ids, more_count=asked_count
        )
        async for piece in slices.of(_pieces(request)):
            if session.id == NO_SESSION:
                session.update(piece)
            elif self._sessions.get(session.id) is session:
                self._update(session, piece)
            else:  # Its client has closed it meanwhile, by another connection.
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return self._unless_empty(session) if is_incremental else (session, False)

    def _unless_empty(self, session: FetchSession) -> tuple[FetchSession, bool]:
        if not session.partitions:
            self._close(session.id)  # There is nothing left to remember.
            return (
                FetchSession(
                    NO_SESSION, session.uses_topic_ids, is_of_replica=session.is_of_replica
                ),
                False,
            )
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
        self._update(session, request)
        return session

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        """Raises KafkaError where that is too much; then the client must begin anew."""
        self._partition_count -= len(session.partitions)
        session.update(request)
        self._partition_count += len(session.partitions)
        if self._partition_count > PARTITION_COUNT_MAX:
            self._close(session.id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _close(self, session_id: int) -> None:
        if session := self._sessions.pop(session_id, None):
            self._partition_count -= len(session.partitions)
            session.close()

    def _new_id(self, is_of_replica: bool) -> int:
        """NO_SESSION when every place is taken: the client then fetches without one."""
        if len(self._sessions) >= self._slot_count:
            giving_way = self._giving_way(is_of_replica)
            if giving_way is None:
                return NO_SESSION
            self._close(giving_way.id)
        while True:
            session_id = self._rng.randrange(1, 1 << 31)
            if session_id not in self._sessions:
                return session_id

    def _giving_way(self, is_for_replica: bool) -> FetchSession | None:
        """One that was unused for long enough; for a replica, which has thousands of partitions
        and fetches all day, any of a consumer."""
        for oldest in self._sessions.values():
            if self._clock.monotonic_s() - oldest.last_used_s >= self._eviction_s:
                return oldest
            if not is_for_replica:
                return None
            if not oldest.is_of_replica:
                return oldest
        return None


_PIECE = 64


def _pieces(request: FetchRequest) -> Iterator[FetchRequest]:
    """The same request, as several with few partitions each."""
    for topic in request.topics:
        for first in range(0, len(topic.partitions), _PIECE):
            piece = _piece(request)
            some = topic.partitions[first : first + _PIECE]
            piece.topics = [FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=some)]
            yield piece
    for gone in request.forgotten_topics_data:
        for first in range(0, len(gone.partitions), _PIECE):
            piece = _piece(request)
            indexes = gone.partitions[first : first + _PIECE]
            piece.forgotten_topics_data = [
                ForgottenTopic(topic=gone.topic, topic_id=gone.topic_id, partitions=indexes)
            ]
            yield piece


def _piece(request: FetchRequest) -> FetchRequest:
    """Without any partitions."""
    return FetchRequest(
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        replica_id=request.replica_id,
        replica_state=request.replica_state,
    )
