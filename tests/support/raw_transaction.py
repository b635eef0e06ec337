"""Requests of transactional producers, written by hand, to any broker."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


def txn_commit_request(
    group_id: str,
    offsets: dict[str, dict[int, int]],
    *,
    metadata: str | None = "",
    leader_epoch: int = -1,
    **fields: Any,
) -> TxnOffsetCommitRequest:
    """`offsets` are by topic and partition."""
    return TxnOffsetCommitRequest(
        group_id=group_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    )
                    for partition, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ],
        **fields,
    )
