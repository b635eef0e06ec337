"""A fetch session as whoever fetches keeps it (KIP-227): the broker remembers the partitions, and a
request names only what has changed since the one before.

    full request ── answered with a session id ──▶ incremental requests, epochs 1, 2, 3 …
         ▲   │                                            │
         └───┘ answered without (no room for another)     │
         ▲                                                │
         └────────── an error, a lost connection ─────────┘
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.wire.messages.fetch import FetchResponse, ForgottenTopic

NO_SESSION = 0
_INITIAL_EPOCH = 0
_EPOCH_MAX = 0x7FFF_FFFF


class PartitionKey(NamedTuple):
    topic_id: TopicId
    partition: int


class SessionRequest(NamedTuple):
    """What the next Fetch says."""

    session_id: int
    session_epoch: int
    partitions: list[PartitionKey]
    """To be named, each with where it is to be read from now."""
    forgotten: list[PartitionKey]


class FetchSession:
    """Owned by one who fetches from one broker, over all connections to it."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._partitions: dict[PartitionKey, None] = {}
        self._changed: dict[PartitionKey, None] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    def __len__(self) -> int:
        """How many partitions are to be fetched."""
        return len(self._partitions)

    def put(self, key: PartitionKey) -> None:
        """It is to be fetched, from another place than before, or for the first time."""
        self._partitions[key] = None
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def remove(self, key: PartitionKey) -> None:
        if key in self._partitions:
            del self._partitions[key]
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def request(self) -> SessionRequest:
        if self._epoch == _INITIAL_EPOCH:
            named: Iterable[PartitionKey] = self._partitions
            forgotten: list[PartitionKey] = []  # The broker makes a new session, and knows of none.
        else:
            named, forgotten = self._changed, list(self._forgotten)
        request = SessionRequest(self._id, self._epoch, list(named), forgotten)
        self._changed.clear()
        self._forgotten.clear()
        return request

    def answered(self, response: FetchResponse) -> None:
        """With an error of its own the session has come to an end: the response has nothing in it,
        and the next request is a full one."""
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._epoch = _INITIAL_EPOCH
        elif response.session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, _INITIAL_EPOCH
        else:
            self._id = response.session_id
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1

    def lost(self) -> None:
        """Whether the broker has taken in the last request is not known. The next one names the
        session all the same: the broker can let go of it."""
        self._epoch = _INITIAL_EPOCH


def forgotten_topics(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[TopicId, ForgottenTopic] = {}
    for topic_id, partition in keys:
        topic = topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
        topic.partitions.append(partition)
    return list(topics.values())
