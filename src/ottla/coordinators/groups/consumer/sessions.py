"""How long members of consumer groups may take, and what happens when they take longer.

All of them end in the same way: the member is put out of its group. If it is still alive, it
hears UNKNOWN_MEMBER_ID, gives up what it has and joins again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.member import ConsumerMember, MemberState
from ottla.coordinators.groups.context import GroupContext
from ottla.coordinators.result import Planned, Result

Expire = Callable[[ConsumerGroup, ConsumerMember, str], Planned[Any]]


class ConsumerSessions:
    """Owned by the ConsumerProtocol of a shard. In memory only: after a crash all begin anew."""

    def __init__(self, context: GroupContext, expire: Expire) -> None:
        self._context = context
        self._expire = expire

    def extend(self, group_id: str, member: ConsumerMember) -> None:
        """It was heard of."""
        if member.classic is None:
            timeout_ms = self._context.group_config(group_id).consumer_session_timeout_ms
        else:
            timeout_ms = member.classic_session_timeout_ms
        self._schedule("session", group_id, member, timeout_ms, "it was not heard of in time")

    def await_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """It has its rebalance time-out to give up what it shall no longer have; until then
        nobody else can have that."""
        epoch = member.member_epoch

        def is_late(now: ConsumerMember) -> bool:
            return now.member_epoch == epoch and now.state is MemberState.UNREVOKED_PARTITIONS

        self._schedule(
            "revocation",
            group_id,
            member,
            member.rebalance_timeout_ms,
            "it did not give up its partitions in time",
            is_late,
        )

    def end_revocation(self, group_id: str, member_id: str) -> None:
        self._context.timers.cancel(_timer("revocation", group_id, member_id))

    def await_join(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member was told to join again. The time counts from when it was told first."""
        if not self._context.timers.is_scheduled(_timer("join", group_id, member.member_id)):
            self._schedule(
                "join",
                group_id,
                member,
                member.rebalance_timeout_ms,
                "it did not join again in time",
            )

    def await_sync(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member has joined."""
        self._context.timers.cancel(_timer("join", group_id, member.member_id))
        self._schedule(
            "sync", group_id, member, member.rebalance_timeout_ms, "it did not sync in time"
        )

    def end_sync(self, group_id: str, member_id: str) -> None:
        self._context.timers.cancel(_timer("sync", group_id, member_id))

    def end(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "revocation", "join", "sync"):
            self._context.timers.cancel(_timer(kind, group_id, member_id))

    def _schedule(
        self,
        kind: str,
        group_id: str,
        member: ConsumerMember,
        timeout_ms: int,
        reason: str,
        is_late: Callable[[ConsumerMember], bool] = lambda _: True,
    ) -> None:
        member_id = member.member_id

        def expire() -> Planned[Any]:
            group = self._context.groups.get(group_id)
            if not isinstance(group, ConsumerGroup):
                return Result(None)
            now = group.members.get(member_id)
            if now is None or not is_late(now):
                return Result(None)
            return self._expire(group, now, reason)

        self._context.timers.schedule(_timer(kind, group_id, member_id), timeout_ms, expire)


def _timer(kind: str, group_id: str, member_id: str) -> str:
    # Ids come from clients and may hold anything: quoted, no two names can be the same.
    return f"consumer {kind} {group_id!r} {member_id!r}"
