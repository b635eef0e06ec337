"""Whether this broker still leads a partition: asked of those who could have been elected since.

A broker that was paused, or cut off, does not know that another one leads by now, and what it would
tell may be out of date. Whoever could have been elected is in the ISR, and a follower that has
become the leader fetches no more. So the leader waits until each of them fetches once more. That
fetch must be younger than the question: one that lay in a socket's buffer, while this broker was
paused, proves nothing. It is, if it follows an answer that was given after the question.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.replication.leader import Leader
from ottla.replication.remote_replica import FetchesInSession, RemoteReplica

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


class _Mark(NamedTuple):
    """The fetch that proves it. A fetch within a session need not name the partition; a follower
    that leaves the session, or begins another one, is counted anew."""

    session: FetchesInSession | None
    fetch_number: int

    @classmethod
    def now(cls, follower: RemoteReplica) -> _Mark:
        session = follower.session
        if session is None:
            # The next one may be on its way.
            return cls(None, follower.fetch_count + 2)
        # One that waits here for its answer is the last that was sent.
        return cls(session, session.epoch + (1 if session.is_waiting else 2))

    def is_reached(self, follower: RemoteReplica) -> bool:
        number = follower.fetch_count if self.session is None else self.session.epoch
        return number >= self.fetch_number


async def check_leadership(leader: Leader, clock: Clock, timeout_ms: int) -> None:
    """Raises NOT_LEADER_OR_FOLLOWER where this broker leads no more, and REQUEST_TIMED_OUT where it
    cannot say. Takes two ways over the network; no time where nobody else is in sync."""
    marks = {follower.broker_id: _Mark.now(follower) for follower in leader.in_sync.electable()}
    if not marks:
        return
    pause_s = _FIRST_PAUSE_S
    give_up_s = clock.monotonic_s() + timeout_ms / 1000
    while _someone_is_awaited(leader, marks):
        if clock.monotonic_s() >= give_up_s:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The followers of {leader.topic_partition} have not fetched for {timeout_ms} ms: "
                "another broker may lead it.",
            )
        leader.partition.answer_followers()
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    if leader.is_closed:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"This broker no longer leads {leader.topic_partition}.",
        )


def _someone_is_awaited(leader: Leader, marks: dict[BrokerId, _Mark]) -> bool:
    if leader.is_closed:
        return False
    awaited = False
    # Who was taken in or left out meanwhile was so by the controller, for this leader.
    for follower in leader.in_sync.electable():
        mark = marks.get(follower.broker_id)
        if mark is None or mark.session is not follower.session:
            mark = marks[follower.broker_id] = _Mark.now(follower)
        awaited |= not mark.is_reached(follower)
    return awaited
