"""This broker as a follower of a partition: what it asks for, and what it does with the answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.ids import BrokerId
from ottla.kernel.slices import Slices
from ottla.records.batch import iter_headers
from ottla.replication.truncation import truncation_offset
from ottla.replication.uncommitted import Step, add_step

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class FetchPosition(NamedTuple):
    """Where a follower's next fetch begins, which tells the leader what the follower has."""

    offset: int
    last_fetched_epoch: int
    log_start_offset: int
    leader_epoch: int


class Follower:
    """Owned by its partition, for one leader epoch: what was asked for in an earlier one is not
    taken. A crash leaves a prefix of what the leader had; the next fetch finds out which."""

    def __init__(
        self,
        partition: Partition,
        leader_id: BrokerId,
        leader_epoch: int,
        *,
        checkpoint: Callable[[], Awaitable[None]],
        truncated: Callable[[int, int], None],
    ) -> None:
        """`checkpoint` queues the recovery points of all logs to be written. `truncated` is told
        where the log ended, and where it ends when it has lost records."""
        self.partition = partition
        self.log = partition.log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self._checkpoint = checkpoint
        self._truncated = truncated
        self._uncommitted: deque[Step] = deque()
        """What came with each answer, as long as it is not known to be committed."""

    @property
    def position(self) -> FetchPosition:
        log = self.log
        return FetchPosition(
            log.log_end_offset,
            log.leader_epochs.latest_epoch,
            log.log_start_offset,
            self.leader_epoch,
        )

    async def append(
        self, records: memoryview, *, leader_high_watermark: int, leader_log_start_offset: int
    ) -> None:
        """What the leader has from `position` on, and how far it and its readers are. Returns when
        the next fetch may say that the records are here: synced, where `flush.messages` asks for
        it."""
        log, partition = self.log, self.partition
        if records:
            if log.log_start_offset == log.log_end_offset:
                await self._begin_at_a_batch(records)
                if partition.follower is not self:
                    return
            if not await self._append(records):
                return
            add_step(self._uncommitted, Step(log.log_end_offset, len(records)))
        self._advance_high_watermark(min(leader_high_watermark, log.log_end_offset))
        if leader_log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(min(leader_log_start_offset, partition.high_watermark))
        if log.is_flush_due:
            await log.flush()

    async def _append(self, records: memoryview) -> bool:
        """False where another role has begun meanwhile: a thousand small batches take as many
        microseconds, and others go first now and then."""
        slices = Slices(self.log.folder.clock)
        while appended := self.log.append_as_follower(records):
            records = records[appended:]
            if records:
                await slices.step()
                if self.partition.follower is not self:
                    return False
        return True

    def _advance_high_watermark(self, high_watermark: int) -> None:
        """Consumers that read here wait for a number of bytes, which mostly came with an earlier
        answer: the leader commits what its followers have."""
        partition, uncommitted = self.partition, self._uncommitted
        before = partition.high_watermark
        if high_watermark <= before:
            return
        byte_count = 0
        while uncommitted and uncommitted[0].end_offset <= high_watermark:
            byte_count += uncommitted.popleft().byte_count
        # What was fetched in an earlier epoch is of a size unknown here.
        partition.advance_high_watermark(high_watermark, byte_count or high_watermark - before)

    async def _begin_at_a_batch(self, records: memoryview) -> None:
        """The leader's log may begin in the midst of a batch (DeleteRecords), which comes whole. An
        empty log that begins there too has to make room for what comes before."""
        _, first = next(iter_headers(records))
        if first.base_offset < self.log.log_end_offset <= first.last_offset:
            await self._cut(lambda: first.base_offset, drops_all=True)

    async def truncate(self, leader_epoch: int, leader_end_offset: int) -> None:
        """The leader's log parts from this one: `leader_epoch` ends there. `position` is where to
        ask again."""
        await self._cut(lambda: truncation_offset(self.log, leader_epoch, leader_end_offset))

    async def start_over(self, leader_log_start_offset: int, leader_log_end_offset: int) -> None:
        """The leader has nothing at `position`: it begins after it, or ends before it, as after an
        unclean election."""
        if self.log.log_end_offset > leader_log_end_offset:
            await self._cut(lambda: leader_log_end_offset)
        else:
            await self._cut(lambda: leader_log_start_offset, drops_all=True)

    async def _cut(self, to: Callable[[], int], *, drops_all: bool = False) -> None:
        partition, log = self.partition, self.log
        async with partition.lane:
            await log.folder.drain()
            if partition.follower is not self:
                return  # Another epoch has begun, with another leader's log to compare with.
            end_offset = log.log_end_offset
            if drops_all:
                log.truncate_fully_and_start_at(to())
            else:
                log.truncate_to(to())
            self._uncommitted.clear()
            partition.log_truncated()
            if log.log_end_offset < end_offset:
                self._truncated(end_offset, log.log_end_offset)
            # Before the next append: recovery must not take it for what was synced here before.
            await self._checkpoint()
            await log.folder.drain()
