"""One offset that a group has committed for a partition."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordinators.groups.records import OffsetCommitValue
from ottla.kernel.ids import NO_TOPIC_ID, TopicId

NO_OFFSET = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp: int = NO_TIMESTAMP
    expire_timestamp: int = NO_TIMESTAMP
    """Set by the client (OffsetCommit v2 to v4); otherwise the broker's retention counts."""
    topic_id: TopicId = NO_TOPIC_ID

    @staticmethod
    def from_record(value: OffsetCommitValue) -> CommittedOffset:
        return CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
