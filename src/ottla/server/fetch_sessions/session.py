"""What one client reads, and which of it may have something new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter

from ottla.kernel.clock import Clock
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Slices
from ottla.replication.partition import Partition
from ottla.server.fetch_sessions.fetched_partition import FetchedPartition, TopicKey
from ottla.server.fetch_sessions.wait import Wait
from ottla.wire.messages.fetch import FetchRequest

NO_SESSION = 0

_A_LONG_TIME_S = 3600

_place = attrgetter("place")

Lookup = Callable[[TopicKey, int], Partition]
"""Raises KafkaError where there is no such partition to read."""


class FetchSession:
    """Lives from the client's first full fetch until it closes it, or its place in the cache
    is taken. A sessionless fetch has one of its own that ends with it. Gone in a crash: the
    client then hears that its session is unknown, and begins a new one.

    A fetch collects: it looks at the `candidates`. Where they have too little it waits
    (`begin_waiting`, `wait_for_bytes`) and collects anew. When it answers it says which were
    `served` and which `read_to_end`, and ends (`end_waiting`)."""

    def __init__(
        self, session_id: int, uses_topic_ids: bool, *, is_of_replica: bool = False
    ) -> None:
        self.id = session_id
        self.is_of_replica = is_of_replica
        """Of a broker that follows partitions of this one."""
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used_s = 0.0
        self.partitions: dict[tuple[TopicKey, int], FetchedPartition] = {}
        self._isolation_level = 0
        self._next_place = 0
        # These two are also for its partitions. Dirty are those which may have something to tell.
        self.dirty: dict[FetchedPartition, None] = {}
        self.wait: Wait | None = None

    def update(self, request: FetchRequest) -> None:
        if request.isolation_level != self._isolation_level:
            # Where one sees nothing new the other may.
            self._isolation_level = request.isolation_level
            self.dirty.update(dict.fromkeys(self.partitions.values()))
        for topic in request.topics:
            key: TopicKey = topic.topic_id if self.uses_topic_ids else topic.topic
            for asked in topic.partitions:
                fetched = self.partitions.get((key, asked.partition))
                if fetched is None:
                    fetched = FetchedPartition(key, asked.partition)
                    self.partitions[key, asked.partition] = fetched
                    self._put_last(fetched)
                fetched.update(asked)
                self.dirty[fetched] = None
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                gone = self.partitions.pop((key, index), None)
                if gone is not None:
                    gone.unwatch()
                    self.dirty.pop(gone, None)

    # To collect

    def candidate_count(self, is_incremental: bool) -> int:
        return len(self.dirty if is_incremental else self.partitions)

    def candidates(self, is_incremental: bool) -> list[FetchedPartition]:
        """Which partitions a fetch must look at, in their order: the first that has a batch gets
        it, whatever its size, and what is full leaves nothing to those behind."""
        if not is_incremental:
            return list(self.partitions.values())
        return sorted(self.dirty, key=_place)

    def find(self, fetched: FetchedPartition, lookup: Lookup) -> Partition:
        """The partition itself. A session that goes on watches it from now on, unless its client
        has closed it, or forgotten the partition, while a fetch was under way."""
        partition = lookup(fetched.topic, fetched.index)
        if self.id and self.partitions.get((fetched.topic, fetched.index)) is fetched:
            fetched.watch(partition, self)
        return partition

    def served(self, fetched: FetchedPartition) -> None:
        """It goes behind all others, and stays dirty: there may be more."""
        self._put_last(fetched)

    def _put_last(self, fetched: FetchedPartition) -> None:
        fetched.place = self._next_place
        self._next_place += 1

    def read_to_end(self, fetched: FetchedPartition) -> None:
        self.dirty.pop(fetched, None)

    # To wait

    @property
    def is_waiting(self) -> bool:
        return self.wait is not None

    @contextmanager
    def listening(self, clock: Clock) -> Iterator[Wait]:
        """For a fetch that collects in slices: a wait that the first byte ends."""
        wait = self.wait = Wait(clock, _A_LONG_TIME_S, 1, is_committed_only=False)
        try:
            yield wait
        finally:
            wait.finish()
            if self.wait is wait:
                self.wait = None

    async def begin_waiting(self, lookup: Lookup, slices: Slices) -> bool:
        """Whether there may be more than was collected: it took its time to watch for it."""
        if self.id:
            return False  # It watches what it has found.
        async for fetched in slices.of(list(self.partitions.values())):
            if fetched.partition is None:
                with suppress(KafkaError):  # It stays dirty, and each fetch tells the client.
                    fetched.watch(lookup(fetched.topic, fetched.index), self)
        return slices.has_paused

    async def wait_for_bytes(
        self, clock: Clock, max_wait_s: float, missing_byte_count: int, *, is_committed_only: bool
    ) -> None:
        """Returns when so many more bytes can be read, when there is another reason to look
        again, or when the time is over."""
        wait = self.wait = Wait(
            clock, max_wait_s, missing_byte_count, is_committed_only=is_committed_only
        )
        try:
            await wait.finished()
        finally:
            if self.wait is wait:  # else it is that of a fetch which came after this one
                self.wait = None

    def look_again(self) -> None:
        if self.wait is not None:
            self.wait.finish()

    def end_waiting(self) -> None:
        if not self.id:
            self.close()

    def close(self) -> None:
        for fetched in self.partitions.values():
            fetched.unwatch()
        self.partitions.clear()
        self.dirty.clear()
        self.look_again()
