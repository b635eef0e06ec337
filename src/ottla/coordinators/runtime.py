"""The shards of one coordinator: which of its partitions this broker leads."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.coordinators.result import Planned
from ottla.coordinators.shard import Shard, ShardTimers, State, Transaction
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.kernel.java import abs_hash
from ottla.records.errors import CorruptRecord
from ottla.replication.leader import Leader
from ottla.replication.leadership_check import check_leadership
from ottla.storage.errors import StorageFailure
from ottla.storage.verification import VerificationGuard

logger = logging.getLogger(__name__)

_MANY_RECORDS = 1000
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0

_CORRUPT = (
    "%s cannot be loaded, its log in %s is damaged: %s. The clients whose state it keeps are "
    "refused until it is repaired. `ottla dump-log --check` names the segment; stop the broker, "
    "restore that from a backup, or delete it and those after it (what they say is lost), and "
    "start again."
)

S = TypeVar("S", bound=State)
T = TypeVar("T")


class Runtime(Generic[S]):
    """Owned by the broker. `partition_count` is that of the coordinator's topic, known once it
    exists."""

    def __init__(
        self, make_state: Callable[[ShardTimers], S], clock: Clock, answer_timeout_ms: int
    ) -> None:
        self._make_state = make_state
        self._clock = clock
        self._answer_timeout_ms = answer_timeout_ms
        self._shards: dict[int, Shard[S]] = {}
        self._epochs: dict[int, int] = {}
        """The newest leader epoch that was heard of, by partition."""
        self._loading: dict[asyncio.Task[None], None] = {}
        # One after another: slices of many shards would add up before the loop serves anyone.
        self._load_turn = asyncio.Lock()
        self.partition_count = 0

    def partition_of(self, key: str) -> int:
        """Which partition keeps what belongs to this group or transactional id."""
        if self.partition_count == 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return abs_hash(key) % self.partition_count

    def leads(self, number: int) -> bool:
        """Whether this broker has the shard, be it that it is still loaded. Not one that is lost:
        its clients would be sent back here again and again."""
        shard = self._shards.get(number)
        return shard is not None and not shard.is_closed

    def become_leader(self, leader: Leader) -> None:
        """Begins to load the shard; until it is loaded its clients wait. Its coordinator epoch is
        the leader's. One that is older than what was heard of is left alone."""
        number = leader.topic_partition.partition
        if leader.leader_epoch < self._epochs.get(number, leader.leader_epoch):
            return
        self._epochs[number] = leader.leader_epoch
        self._unload(number)
        shard = self._new_shard(leader)
        if leader.log.log_start_offset == leader.log.next_offset:
            shard.serve()
            return
        task = asyncio.get_running_loop().create_task(self._load(shard))
        self._loading[task] = None
        task.add_done_callback(self._loading.pop)

    def _new_shard(self, leader: Leader) -> Shard[S]:
        shard = Shard(leader, self._make_state, self._clock, self._answer_timeout_ms)
        self._shards[leader.topic_partition.partition] = shard
        return shard

    async def _load(self, shard: Shard[S]) -> None:
        """A disk that cannot be read has failed, and the shard with it; so has one that gave back
        other bytes than were written. Whatever else ends the loading may pass: it begins anew after
        a pause, and is told of once."""
        pause_s = _FIRST_PAUSE_S
        told = ""
        leader = shard.leader
        number = leader.topic_partition.partition
        while self._shards.get(number) is shard and not leader.is_closed:
            try:
                if await shard.load(self._load_turn) >= _MANY_RECORDS:
                    # What was loaded stays: looking through a million offsets for garbage
                    # would stall the loop for a tenth of a second, again and again.
                    gc.freeze()
                return
            except StorageFailure as error:
                logger.error("%s cannot be loaded: %s", leader.topic_partition, error)
                shard.close()
                return
            except CorruptRecord as error:
                logger.error(_CORRUPT, leader.topic_partition, leader.log.path, error)
                shard.close()
                return
            except Exception as error:
                if repr(error) != told:
                    told = repr(error)
                    logger.exception(
                        "loading %s failed; trying again until it succeeds",
                        leader.topic_partition,
                    )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            if self._shards.get(number) is shard:
                shard.close()  # What it has replayed is replayed again.
                shard = self._new_shard(leader)

    def resign(self, number: int, leader_epoch: int | None = None) -> None:
        """In this epoch another broker leads the partition; without one, it is gone for good. All
        who wait hear NOT_COORDINATOR. Of an epoch that is not newer than the shard's this is old
        news: it leads since then."""
        if leader_epoch is None:
            self._epochs.pop(number, None)
            self._unload(number)
        elif leader_epoch > self._epochs.get(number, -1):
            self._epochs[number] = leader_epoch
            self._unload(number)

    def log_failed(self, number: int) -> None:
        """Its disk has. Nobody is told from here any more what is in memory: when the controller
        has heard of the disk, another broker coordinates."""
        shard = self._shards.get(number)
        if shard is not None and not shard.is_closed:
            shard.close()

    def _unload(self, number: int) -> None:
        shard = self._shards.pop(number, None)
        if shard is not None:
            shard.close()

    async def write(self, key: str, operation: Callable[[S], Planned[T]]) -> T:
        return await self._shard_of(key).write(operation)

    async def write_transactional(
        self,
        key: str,
        producer: ProducerIdAndEpoch,
        operation: Callable[[S], Planned[T]],
        *,
        guard: VerificationGuard | None,
    ) -> T:
        """The records become part of the producer's transaction, which the transaction
        coordinator must know of: else nobody ends it. It was asked with this guard in hand
        (`Leader.begin_verification`), or there was none, and no need to."""
        return await self._shard_of(key).write(operation, Transaction(producer, guard))

    def transaction_ended(self, number: int, producer_id: int, is_commit: bool) -> None:
        """The marker is in the log of this partition. A shard that this broker does not lead
        reads it there when it is loaded."""
        shard = self._shards.get(number)
        if shard is not None:
            shard.transaction_ended(producer_id, is_commit)

    async def read(self, key: str, operation: Callable[[S], T]) -> T:
        return await self._shard_of(key).read(operation)

    async def read_as_leader(self, key: str, operation: Callable[[S], T]) -> T:
        """As `read`, by one that leads still when it has read: nobody has changed since then what
        it tells. Kafka does not ask; there a coordinator that was paused may answer with offsets
        that its successor has replaced."""
        shard = self._shard_of(key)
        found = await shard.read(operation)
        try:
            await check_leadership(shard.leader, self._clock, self._answer_timeout_ms)
        except KafkaError as error:
            # Also where it cannot say: the client is to look for another one.
            raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message) from error
        return found

    async def read_all(self, operation: Callable[[S], T]) -> list[T]:
        """From every shard. Raises KafkaError while one is loading, or is lost: a list that leaves
        out what it kept would look like all there is. One that moves to another broker meanwhile is
        left out: that one is asked too."""
        for number, shard in self._shards.items():
            if shard.is_closed and not shard.leader.is_closed:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"{shard.leader.topic_partition.topic}-{number} is offline: "
                    "the broker's log says why",
                )
        found: list[T] = []
        for number, shard in list(self._shards.items()):
            try:
                found.append(await shard.read(operation))
            except KafkaError:
                if self._shards.get(number) is shard and not shard.leader.is_closed:
                    raise
        return found

    def tell_all(self, operation: Callable[[S], None]) -> None:
        """News of the world outside: no records, no answer. A shard that is being loaded sees the
        world when it is done."""
        for shard in self._shards.values():
            if shard.is_serving:
                shard.tell(operation)

    async def write_all(self, operation: Callable[[S], Planned[Any]]) -> None:
        for shard in self._live_shards():
            try:
                await shard.write(operation)
            except KafkaError as error:
                logger.info("%s: %s", shard.leader.topic_partition, error)

    async def close(self) -> None:
        for number in list(self._shards):
            self.resign(number)
        for task in list(self._loading):
            task.cancel()
        if self._loading:
            await asyncio.wait(list(self._loading))

    def _live_shards(self) -> list[Shard[S]]:
        return [shard for shard in self._shards.values() if not shard.is_closed]

    def _shard_of(self, key: str) -> Shard[S]:
        shard = self._shards.get(self.partition_of(key))
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard
