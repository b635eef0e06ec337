"""Commits of offsets, plain and within a transaction: who may, and what is written.

A commit within a transaction is asked for by a producer on behalf of a consumer. Since KIP-447 it
says which member of which generation that is, so that one whose partitions have gone to another
member is refused. It is milder than a plain commit: producers of before do not say it, and are
believed; and it is taken while the group completes a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.classic.protocol import ClassicProtocol
from ottla.coordinators.groups.committed_offset import NO_TIMESTAMP, CommittedOffset
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.protocol import (
    EPOCH_IN_COMMITS_SINCE,
    ConsumerProtocol,
    PartitionCheck,
)
from ottla.coordinators.groups.context import Client, GroupContext
from ottla.coordinators.groups.offsets import Offsets
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.kernel.slices import Slices, Steps
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NOT_FOUND_IS_TOLD_SINCE = 9


class OffsetCommits:
    """Owned by a group shard, and as old as it."""

    def __init__(
        self,
        context: GroupContext,
        classic: ClassicProtocol,
        consumer: ConsumerProtocol,
        offsets: Offsets,
    ) -> None:
        self._context = context
        self._classic = classic
        self._consumer = consumer
        self._offsets = offsets

    # -- plain ------------------------------------------------------------------------------

    def commit(
        self, request: OffsetCommitRequest, client: Client
    ) -> Steps[Result[OffsetCommitResponse]]:
        check_partition = self._check(request, client)
        now_ms = self._context.now_ms()
        expire_timestamp = NO_TIMESTAMP
        if request.retention_time_ms != NO_TIMESTAMP:
            expire_timestamp = now_ms + request.retention_time_ms
        records: list[CoordinatorRecord] = []
        response = OffsetCommitResponse()
        for topic in request.topics:
            answers: list[OffsetCommitResponsePartition] = []
            response.topics.append(
                OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=answers
                )
            )
            for asked in topic.partitions:
                answer = OffsetCommitResponsePartition(partition_index=asked.partition_index)
                answers.append(answer)
                committed = CommittedOffset(
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata or "",
                    now_ms,
                    expire_timestamp,
                    topic.topic_id,
                )
                at = TopicPartition(topic.name, asked.partition_index)
                try:
                    if check_partition is not None:
                        check_partition(topic.name, topic.topic_id, asked.partition_index)
                    records.append(self._offsets.commit(request.group_id, at, committed))
                except KafkaError as error:
                    answer.error_code = error.code
                yield
        return Result(response, records)

    def _check(self, request: OffsetCommitRequest, client: Client) -> PartitionCheck | None:
        """Raises KafkaError for one who may commit nothing; returns what each partition must
        pass besides."""
        group = self._context.groups.get(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        if group is None:
            not_found = ErrorCode.GROUP_ID_NOT_FOUND
            if client.api_version < NOT_FOUND_IS_TOLD_SINCE:
                not_found = ErrorCode.ILLEGAL_GENERATION
            self._check_memberless(request.group_id, generation_id, not_found)
            return None
        member_id, instance_id = request.member_id, request.group_instance_id
        if isinstance(group, ConsumerGroup):
            return self._consumer.check_commit(
                group, member_id, generation_id, instance_id, client.api_version
            )
        assert isinstance(group, ClassicGroup), "there are two kinds of groups"
        self._classic.check_commit(group, member_id, generation_id, instance_id)
        return None

    def _check_memberless(self, group_id: str, generation_id: int, not_found: ErrorCode) -> None:
        if generation_id < 0:
            return  # An offset store without members: an admin, or one by hand.
        if self._offsets.knows(group_id):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} has no members")
        raise KafkaError(not_found, f"there is no group {group_id!r}")

    # -- within a transaction ---------------------------------------------------------------

    def commit_transactional(
        self, request: TxnOffsetCommitRequest
    ) -> Steps[Result[TxnOffsetCommitResponse]]:
        """The records have no id of the topic: Kafka's have none either, and what reads them
        takes an offset without one for the topic of that name."""
        check_partition = self._check_transactional(request)
        now_ms = self._context.now_ms()
        records: list[CoordinatorRecord] = []
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            answers: list[TxnOffsetCommitResponsePartition] = []
            response.topics.append(
                TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers)
            )
            for asked in topic.partitions:
                yield
                answer = TxnOffsetCommitResponsePartition(partition_index=asked.partition_index)
                answers.append(answer)
                committed = CommittedOffset(
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata or "",
                    now_ms,
                )
                at = TopicPartition(topic.name, asked.partition_index)
                try:
                    records.append(self._offsets.commit(request.group_id, at, committed))
                except KafkaError as error:
                    answer.error_code = error.code
                    continue
                if check_partition is not None:
                    with _stale_as_illegal_generation():
                        check_partition(topic.name, NO_TOPIC_ID, asked.partition_index)
        return Result(response, records)

    def _check_transactional(self, request: TxnOffsetCommitRequest) -> PartitionCheck | None:
        group = self._context.groups.get(request.group_id)
        if group is None:
            self._check_memberless(
                request.group_id, request.generation_id, ErrorCode.ILLEGAL_GENERATION
            )
            return None
        member_id, instance_id = request.member_id, request.group_instance_id
        if isinstance(group, ConsumerGroup):
            if request.generation_id == -1 and not member_id and instance_id is None:
                return None  # It does not say for whom it acts.
            with _stale_as_illegal_generation():
                return self._consumer.check_commit(
                    group, member_id, request.generation_id, instance_id, EPOCH_IN_COMMITS_SINCE
                )
        assert isinstance(group, ClassicGroup), "there are two kinds of groups"
        self._classic.check_transactional_commit(
            group, member_id, request.generation_id, instance_id
        )
        return None


@contextmanager
def _stale_as_illegal_generation() -> Iterator[None]:
    """Producers do not know the other one: it came with the consumer protocol."""
    try:
        yield
    except KafkaError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error
        raise


async def error_for_all(
    request: OffsetCommitRequest, code: ErrorCode, slices: Slices
) -> OffsetCommitResponse:
    """The answer to a commit that was refused as a whole."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=asked.partition_index, error_code=code
                    )
                    async for asked in slices.of(topic.partitions)
                ],
            )
            async for topic in slices.of(request.topics)
        ]
    )


async def transactional_error_for_all(
    request: TxnOffsetCommitRequest, code: ErrorCode, slices: Slices
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=asked.partition_index, error_code=code
                    )
                    async for asked in slices.of(topic.partitions)
                ],
            )
            async for topic in slices.of(request.topics)
        ]
    )
