"""Produce requests with acks=all that have their place in the log and wait for the followers.

An answer comes when the records are committed. It is an error when the time that the producer has
for it is over, when too few replicas are left in sync, or when this broker leads no more. The
records may be committed all the same: the producer sends them again, and a repeat waits as the
first did.
"""

from __future__ import annotations

import asyncio
from functools import partial

from ottla.kernel.clock import Clock, Timer
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.replication.uncommitted import Parked, Uncommitted
from ottla.storage.pending_write import Appended


class DelayedProduces:
    """Owned by the leader of a partition, for one leader epoch. A crash loses them, and closes the
    connections on which their producers wait."""

    __slots__ = ("_clock", "_topic_partition", "_uncommitted", "_waiting")

    def __init__(
        self, topic_partition: TopicPartition, uncommitted: Uncommitted, clock: Clock
    ) -> None:
        self._topic_partition = topic_partition
        self._uncommitted = uncommitted
        self._clock = clock
        self._waiting: dict[_DelayedProduce, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, done: asyncio.Future[Appended], appended: Appended, timeout_ms: int | None
    ) -> None:
        """Settles `done` when all that has a place now is committed. The time for that counts from
        when it is written here, as in Kafka; None is for ever."""
        parked = self._uncommitted.when_committed(partial(settle, done, appended))
        if parked is None:
            return
        delayed = _DelayedProduce(done, parked, timeout_ms)
        self._waiting[delayed] = None
        done.add_done_callback(lambda _: self._leave(delayed))
        if timeout_ms is not None:
            self._uncommitted.when_written(lambda _: self._begin_timer(delayed))

    def too_few_in_sync(self, message: str) -> None:
        """The high watermark stands still until there are more: nobody is to wait for that."""
        for delayed in list(self._waiting):
            error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, message)
            _refuse(delayed.done, error)

    def _begin_timer(self, delayed: _DelayedProduce) -> None:
        if delayed in self._waiting and delayed.timeout_ms is not None:
            delayed.timer = self._clock.call_later(
                max(0, delayed.timeout_ms) / 1000, lambda: self._time_out(delayed)
            )

    def _time_out(self, delayed: _DelayedProduce) -> None:
        error = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"not all in-sync replicas of {self._topic_partition} had the records "
            f"after {delayed.timeout_ms} ms",
        )
        _refuse(delayed.done, error)

    def _leave(self, delayed: _DelayedProduce) -> None:
        """It is settled, or was cancelled: its client is gone."""
        del self._waiting[delayed]
        self._uncommitted.give_up(delayed.parked)
        if delayed.timer is not None:
            delayed.timer.cancel()


class _DelayedProduce:
    __slots__ = ("done", "parked", "timeout_ms", "timer")

    def __init__(
        self, done: asyncio.Future[Appended], parked: Parked, timeout_ms: int | None
    ) -> None:
        self.done = done
        self.parked = parked
        self.timeout_ms = timeout_ms
        self.timer: Timer | None = None


def settle(done: asyncio.Future[Appended], appended: Appended, error: KafkaError | None) -> None:
    """Unless it is, or nobody waits for it any more."""
    if error is not None:
        _refuse(done, error)
    elif not done.done():
        done.set_result(appended)


def _refuse(done: asyncio.Future[Appended], error: KafkaError) -> None:
    if not done.done():
        done.set_exception(error)
