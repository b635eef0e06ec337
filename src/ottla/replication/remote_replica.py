"""A follower of a partition, as its leader knows it from the follower's fetches."""

from __future__ import annotations

import math
from typing import Protocol

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1


class FetchesInSession(Protocol):
    """A follower's fetch session. Its fetches name only partitions of which something changed."""

    last_used_s: float
    epoch: int
    """Greater by one with each fetch."""

    @property
    def is_waiting(self) -> bool:
        """Whether its last fetch has not been answered yet."""
        ...


class RemoteReplica:
    """Owned by the leader's `InSyncReplicas`, for one leader epoch: what this broker knew of the
    follower in an earlier one says nothing about the log that it has now. Gone in a crash; then
    somebody else leads, or this broker in a new epoch.

    Times are the monotonic clock's: setting the wall clock throws nobody out of the ISR."""

    __slots__ = (
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "broker_id",
        "fetch_count",
        "last_caught_up_s",
        "last_fetch_s",
        "log_end_offset",
        "log_start_offset",
        "session",
    )

    def __init__(
        self, broker_id: BrokerId, *, is_in_sync: bool, leader_end_offset: int, now_s: float
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        """Where its last fetch began: it has all records before that. Unknown until its first
        fetch, which is less than any offset."""
        # A member of the ISR has the whole time of `replica.lag.time.max.ms` for its first fetch.
        since_s = now_s if is_in_sync else -math.inf
        self.last_caught_up_s = since_s
        self.last_fetch_s = since_s
        self._leader_end_at_last_fetch = leader_end_offset
        self.fetch_count = 0
        """Of those that named the partition."""
        self.session: FetchesInSession | None = None
        """That has the partition, while it has it."""

    def fetched(
        self,
        fetch_offset: int,
        *,
        log_start_offset: int,
        broker_epoch: int,
        leader_end_offset: int,
        now_s: float,
    ) -> None:
        """It asked for records from there on, so it has what comes before.

        Under constant load a follower never has all that the leader has at the moment of a fetch.
        It had caught up at its last fetch if it has now what the leader had then.

        Raises KafkaError for what the broker has sent before it was started anew: it may not have
        that any more (KIP-903)."""
        if broker_epoch < self.broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"a fetch of broker {self.broker_id} in epoch {broker_epoch}, which has come back "
                f"in epoch {self.broker_epoch}",
            )
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_s = now_s
        elif fetch_offset >= self._leader_end_at_last_fetch:
            self.last_caught_up_s = max(self.last_caught_up_s, self.last_fetch_s)
        self.fetch_count += 1
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.broker_epoch = broker_epoch
        self.last_fetch_s = now_s
        self._leader_end_at_last_fetch = leader_end_offset

    def leader_gets_more(self, leader_end_offset: int) -> None:
        """Than this. A follower that has all of it did not name the partition in the fetches of its
        session, and had caught up at each of them. To count them one by one would cost every fetch
        by all partitions of its session."""
        if (
            self.session is not None
            and self.log_end_offset == leader_end_offset
            and self.session.last_used_s > self.last_fetch_s
        ):
            self.last_fetch_s = self.last_caught_up_s = self.session.last_used_s
            self._leader_end_at_last_fetch = leader_end_offset

    @property
    def last_heard_s(self) -> float:
        """When it last fetched, whatever it named."""
        if self.session is None:
            return self.last_fetch_s
        return max(self.last_fetch_s, self.session.last_used_s)

    def is_caught_up(self, leader_end_offset: int, now_s: float, lag_time_max_s: float) -> bool:
        """A replica that has everything lags behind nobody, however long ago it asked."""
        return (
            self.log_end_offset == leader_end_offset
            or now_s - self.last_caught_up_s <= lag_time_max_s
        )
