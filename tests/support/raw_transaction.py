"""Transactional producers that speak the protocol by hand, to any broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.schema import Request

TIMEOUT_S = 30
TRANSACTION = 1
IMPLICIT_ADD_SINCE = 5
"""TxnOffsetCommit of transactions version 2."""

_WAIT_FOR = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class RawProducer:
    """Of one transactional id. It knows its epoch; what it is told it returns."""

    def __init__(
        self, ask: Callable[[Request, int], Any], transactional_id: str, *, is_version_2: bool
    ) -> None:
        self._ask = ask
        self.transactional_id = transactional_id
        self.is_version_2 = is_version_2
        self.producer_id = self.producer_epoch = -1

    def init(self) -> None:
        """Apache Kafka makes the topic of the coordinators in the background."""
        find = FindCoordinatorRequest(
            key_type=TRANSACTION, coordinator_keys=[self.transactional_id]
        )
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=60_000
        )
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self._ask(find, 4).coordinators[0].error_code == ErrorCode.NONE:
                answer = self._ask(request, 4)
                if answer.error_code not in _WAIT_FOR:
                    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
                    self.producer_id = answer.producer_id
                    self.producer_epoch = answer.producer_epoch
                    return
            time.sleep(0.05)
        raise TimeoutError(f"no producer id for {self.transactional_id}")

    def add_offsets(self, group_id: str, version: int = 4) -> Any:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group_id,
        )
        while True:
            answer = self._ask(request, version)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                return answer
            time.sleep(0.02)

    def commit_offsets(
        self, group_id: str, offsets: dict[str, dict[int, int]], version: int, **fields: Any
    ) -> Any:
        """Again while the transaction before is being ended, as clients do."""
        request = txn_commit_request(
            group_id,
            offsets,
            **{
                "transactional_id": self.transactional_id,
                "producer_id": self.producer_id,
                "producer_epoch": self.producer_epoch,
                **fields,
            },
        )
        while True:
            answer = self._ask(request, version)
            codes = {one.error_code for topic in answer.topics for one in topic.partitions}
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes:
                return answer
            time.sleep(0.02)

    def end(self, *, is_commit: bool) -> Any:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )
        answer = self._ask(request, 5 if self.is_version_2 else 4)
        if self.is_version_2 and answer.error_code == ErrorCode.NONE:
            self.producer_id = answer.producer_id
            self.producer_epoch = answer.producer_epoch
        return answer


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
