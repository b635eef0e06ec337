"""The in-sync replicas of a partition, as its leader keeps them, and how far they are.

What the controller said last is `committed`. A leader that wants another set proposes it
(AlterPartition). Until that is settled it does not know which of both sets the controller would
choose a new leader from, so the high watermark waits for the members of both (KIP-497):

    committed ── propose ──▶ committed + proposal ── answered, told ──▶ committed (another one)
                                      │
                                      └───────────── refused ─────────▶ committed (as before)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.replication.remote_replica import RemoteReplica

IsrChanged = Callable[[frozenset[BrokerId], frozenset[BrokerId]], None]
"""As it was, and as it is."""

BrokerEpochs = Callable[[BrokerId], int | None]
"""The epoch with which a broker is registered; None for one that is not alive."""


class Proposal(NamedTuple):
    isr: frozenset[BrokerId]
    partition_epoch: int
    """Of the state that it would replace: the controller refuses it once there is another."""
    broker_epochs: Mapping[BrokerId, int]
    """Of the followers in it, each as it fetched what it has. One that has come back since then is
    another: it may have lost that, and the controller is not to take it for this one (KIP-903)."""


class InSyncReplicas:
    """Owned by the leader of one partition, for one leader epoch. Nothing of it outlives a crash:
    the controller has the committed set, and followers tell their ends with their next fetch."""

    __slots__ = (
        "_broker_epochs",
        "_changed",
        "_lag_time_max_s",
        "committed",
        "epoch_start_offset",
        "followers",
        "own_id",
        "partition_epoch",
        "proposal",
    )

    def __init__(
        self,
        own_id: BrokerId,
        *,
        replicas: Iterable[BrokerId],
        isr: Iterable[BrokerId],
        partition_epoch: int,
        log_end_offset: int,
        lag_time_max_s: float,
        broker_epochs: BrokerEpochs,
        now_s: float,
        changed: IsrChanged | None = None,
    ) -> None:
        """`changed` hears of each other set that becomes the committed one."""
        self.own_id = own_id
        self._changed = changed
        self._lag_time_max_s = lag_time_max_s
        self._broker_epochs = broker_epochs
        # The high watermark that a leader begins with may be older than the one that its
        # predecessor told clients. All that was committed is below its log's end (KAFKA-7128).
        self.epoch_start_offset = log_end_offset
        self.committed = frozenset(isr)
        assert own_id in self.committed, f"{own_id} leads, and the ISR is {set(self.committed)}"
        self.proposal: Proposal | None = None
        self.partition_epoch = partition_epoch
        self.followers = {
            each: RemoteReplica(
                each,
                is_in_sync=each in self.committed,
                leader_end_offset=log_end_offset,
                now_s=now_s,
            )
            for each in replicas
            if each != own_id
        }

    # How far they are

    def follower(
        self, broker_id: BrokerId, broker_epoch: int, *, knows_leader_epoch: bool
    ) -> RemoteReplica:
        """Of which a fetch has come. Raises KafkaError where it is none, or not the broker that is
        registered; one that does not say which it is could be either (KIP-903)."""
        found = self.followers.get(broker_id)
        if found is None:
            # With the right leader epoch it may know more than this broker, of a reassignment.
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH
                if knows_leader_epoch
                else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} is no replica of the partition",
            )
        registered = self._broker_epochs(broker_id)
        if registered is None or broker_epoch < registered:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"a fetch of broker {broker_id} in epoch {broker_epoch}, which is "
                + ("not registered" if registered is None else f"registered in {registered}"),
            )
        return found

    def leader_gets_more(self, log_end_offset: int) -> None:
        """Than up to this offset."""
        for follower in self.followers.values():
            follower.leader_gets_more(log_end_offset)

    def high_watermark(
        self, current: int, *, log_end_offset: int, min_insync_replicas: int, now_s: float
    ) -> int:
        """The offset up to which all who count have all records; never below the current one. It
        stands still while fewer are in sync than acks=all asks for: records of such a set may be
        on a single disk (KIP-966)."""
        if len(self.committed) < min_insync_replicas:
            return current
        found = log_end_offset
        for follower in self.followers.values():
            if follower.log_end_offset < found and (
                self._counts(follower.broker_id)
                or self._is_about_to_join(follower, log_end_offset, now_s)
            ):
                found = follower.log_end_offset
        return max(found, current)

    def low_watermark(self, log_start_offset: int) -> int:
        """The offset before which no live replica has a record any more."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if self._broker_epochs(follower.broker_id) is not None
        ]
        return min([log_start_offset, *starts])

    def electable(self) -> list[RemoteReplica]:
        """Followers of which the controller may have made one the leader."""
        return [each for each in self.followers.values() if self._counts(each.broker_id)]

    def _counts(self, broker_id: BrokerId) -> bool:
        return broker_id in self.committed or (
            self.proposal is not None and broker_id in self.proposal.isr
        )

    def _is_about_to_join(self, follower: RemoteReplica, log_end_offset: int, now_s: float) -> bool:
        """Else the high watermark could stay a step ahead of a follower for ever, and keep it
        out."""
        return self._is_caught_up(follower, log_end_offset, now_s) and self._is_eligible(follower)

    def _is_caught_up(self, follower: RemoteReplica, log_end_offset: int, now_s: float) -> bool:
        return follower.is_caught_up(log_end_offset, now_s, self._lag_time_max_s)

    # Who is in sync

    def may_join(self, broker_id: BrokerId, high_watermark: int) -> bool:
        """Whether the follower has all that was ever committed. Not while a change is proposed."""
        follower = self.followers.get(broker_id)
        return (
            follower is not None
            and self.proposal is None
            and broker_id not in self.committed
            and follower.log_end_offset >= max(high_watermark, self.epoch_start_offset)
            and self._is_eligible(follower)
        )

    def joining(self, high_watermark: int, now_s: float) -> frozenset[BrokerId]:
        """Those that may join, and still fetch."""
        return frozenset(
            broker_id
            for broker_id, follower in self.followers.items()
            if self.may_join(broker_id, high_watermark)
            and now_s - follower.last_heard_s <= self._lag_time_max_s
        )

    def lagging(
        self, log_end_offset: int, now_s: float, *, since_s: float = -math.inf
    ) -> frozenset[BrokerId]:
        """Members of the ISR that have not caught up for too long, of the time since then. None
        while a change is proposed."""
        if self.proposal is not None or now_s - since_s <= self._lag_time_max_s:
            return frozenset()
        return frozenset(
            each
            for each in self.committed
            if each != self.own_id
            and not self._is_caught_up(self.followers[each], log_end_offset, now_s)
        )

    def _is_eligible(self, follower: RemoteReplica) -> bool:
        """The broker that fetched must be the one that is registered: one that came back with an
        empty disk does not have what it fetched before (KIP-903)."""
        return follower.broker_epoch == self._broker_epochs(follower.broker_id)

    # Changes

    def propose(self, isr: Iterable[BrokerId]) -> Proposal:
        assert self.proposal is None, "an AlterPartition is not settled"
        proposed = frozenset(isr)
        epochs = {each: self.followers[each].broker_epoch for each in proposed - {self.own_id}}
        self.proposal = Proposal(proposed, self.partition_epoch, epochs)
        return self.proposal

    def answered(self, proposal: Proposal, isr: Iterable[BrokerId], partition_epoch: int) -> None:
        """The controller's answer. It may come after LeaderAndIsr has told the same or more."""
        if proposal is self.proposal:
            self._commit(isr, partition_epoch)

    def told(self, isr: Iterable[BrokerId], partition_epoch: int) -> None:
        """By LeaderAndIsr, in the same leader epoch. A state that is newer than the one that a
        proposal would replace settles the proposal; the same state again does not."""
        if partition_epoch > self.partition_epoch:
            self._commit(isr, partition_epoch)

    def refused(self, proposal: Proposal) -> None:
        """The controller has not done it, and cannot do it any more. Not for answers that leave
        this open, INVALID_UPDATE_VERSION for one (an earlier try may have succeeded, its answer
        lost): then both sets count until LeaderAndIsr tells."""
        if proposal is self.proposal:
            self.proposal = None

    def _commit(self, isr: Iterable[BrokerId], partition_epoch: int) -> None:
        before, self.committed = self.committed, frozenset(isr)
        if self._changed is not None and before != self.committed:
            self._changed(before, self.committed)
        self.partition_epoch = partition_epoch
        self.proposal = None
