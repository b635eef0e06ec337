"""One partition as one session reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.ids import TopicId
from ottla.replication.partition import Partition
from ottla.replication.remote_replica import RemoteReplica
from ottla.wire.messages.fetch import FetchPartition

if TYPE_CHECKING:
    from ottla.server.fetch_sessions.session import FetchSession

TopicKey = str | TopicId
"""The topic as the client names it: by name before v13, by id since."""


class FetchedPartition:
    """Owned by its session. Watches the partition for it, from the first read or wait on until
    the client forgets the partition or the session ends."""

    __slots__ = (
        "_replica",
        "_sent_high_watermark",
        "_sent_log_start_offset",
        "_session",
        "_stable_offset",
        "_was_held_back",
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "is_position_new",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "place",
        "topic",
    )

    _session: FetchSession
    """Only while it watches: most fetches without a session never do, and the two would be a cycle
    that is left behind (see `kernel.garbage`)."""

    place: int
    """Among the others of its session, which gives it out."""

    def __init__(self, topic: TopicKey, index: int) -> None:
        self.topic = topic
        self.index = index
        self.partition: Partition | None = None
        self._replica: RemoteReplica | None = None
        self._sent_high_watermark = -1
        self._sent_log_start_offset = -1
        self._stable_offset = -1
        self._was_held_back = False

    def update(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset
        self.is_position_new = True

    # What the client knows

    def is_told(self, high_watermark: int, log_start_offset: int) -> bool:
        return (
            self._sent_high_watermark == high_watermark
            and self._sent_log_start_offset == log_start_offset
        )

    def tell(self, high_watermark: int, log_start_offset: int) -> None:
        self._sent_high_watermark = high_watermark
        self._sent_log_start_offset = log_start_offset

    # As a watcher of the partition

    def watch(self, partition: Partition, session: FetchSession) -> None:
        self._session = session
        self.partition = partition
        if session.is_of_replica:
            partition.replica_watchers[self] = None
        else:
            partition.watchers[self] = None

    def unwatch(self) -> None:
        if self.partition is not None:
            self.partition.watchers.pop(self, None)
            self.partition.replica_watchers.pop(self, None)
            self._leave()

    def _leave(self) -> None:
        self.partition = None
        if self._replica is not None:
            if self._replica.session is self._session:
                self._replica.session = None
            self._replica = None
        del self._session

    def count_for(self, replica: RemoteReplica, session: FetchSession) -> None:
        """The fetches of this session, from now on."""
        if self.partition is not None:
            self._replica = replica
            replica.session = session

    def records_added(self, partition: Partition, byte_count: int) -> None:
        session = self._session
        session.dirty[self] = None
        wait = session.wait
        if wait is None:
            return
        if wait.is_committed_only and self._is_held_back(partition):
            return
        wait.bytes_added(byte_count)

    def offsets_moved(self, partition: Partition) -> None:
        session = self._session
        session.dirty[self] = None
        session.look_again()

    def answer(self, partition: Partition) -> None:
        self._sent_high_watermark = -1
        self.offsets_moved(partition)

    def note_stable(self, partition: Partition) -> None:
        """For a reader of committed records: how far it can see, and whether there is more."""
        self._stable_offset = partition.last_stable_offset
        self._was_held_back = self._stable_offset < partition.high_watermark

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether an open transaction hides the bytes that were added. With its end, who knows how
        many more can be seen: enough to look again."""
        stable_offset, was_held_back = self._stable_offset, self._was_held_back
        self.note_stable(partition)
        if was_held_back and self._stable_offset > stable_offset:
            self._session.look_again()
        return was_held_back or self._was_held_back

    def partition_closed(self, partition: Partition) -> None:
        session = self._session
        self._leave()
        session.dirty[self] = None
        session.look_again()
