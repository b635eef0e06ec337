"""TxnOffsetCommit: how far a group has read, to count from the end of a transaction on.

v2 brought leader epochs, v3 flexible fields and the member on whose behalf this is (KIP-447), v4
knows TRANSACTION_ABORTABLE. v5 is of transactions version 2: the group's partition of
`__consumer_offsets` is added to the transaction now. Before, AddOffsetsToTxn has done that, and
here it is verified (KIP-890).
"""

from __future__ import annotations

from ottla.coordinators.groups.offset_commits import transactional_error_for_all
from ottla.coordinators.shard import as_coordinator_error
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.kernel.slices import Slices
from ottla.records.batch import NO_SEQUENCE
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id
from ottla.server.services import Services
from ottla.server.transaction_verification import Question
from ottla.storage.verification import VerificationGuard
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_IS_TOLD_SINCE = 2
ABORTABLE_IS_TOLD_SINCE = 4
IMPLICIT_ADD_SINCE = 5


async def handle(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    slices = Slices(services.clock)
    asked = request.topics
    request.topics = [
        known
        async for topic in slices.of(asked)
        if (known := await _known(services, topic, slices)).partitions
    ]
    if not request.topics:
        return await _answer(asked, TxnOffsetCommitResponse(), slices)
    try:
        check_group_id(request.group_id)
        response = await _commit(services, request, context.api_version)
    except KafkaError as error:
        code = as_coordinator_error(error).code
        if (
            code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            and context.api_version < LOADING_IS_TOLD_SINCE
        ):
            # Producers of before Kafka 2.0 crash on the other one (KAFKA-7296).
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        response = await transactional_error_for_all(request, code, slices)
    return await _answer(asked, response, slices)


async def _commit(
    services: Services, request: TxnOffsetCommitRequest, version: int
) -> TxnOffsetCommitResponse:
    at = TopicPartition(CONSUMER_OFFSETS, services.groups.partition_of(request.group_id))
    guard = services.replicas.partition(at.topic, at.partition).leader.begin_verification(
        request.producer_id,
        request.producer_epoch,
        NO_SEQUENCE,
        supports_epoch_bump=version >= IMPLICIT_ADD_SINCE,
    )
    if guard is not None:
        await _ask_coordinator(services, request, at, version)
    return await _write(services, request, guard)


async def _ask_coordinator(
    services: Services, request: TxnOffsetCommitRequest, at: TopicPartition, version: int
) -> None:
    """Raises KafkaError unless the transaction is open and has the partition: offsets that no
    marker follows would keep those who ask for stable ones waiting for ever."""
    is_added = version >= IMPLICIT_ADD_SINCE
    if not is_added and not services.config.transaction_partition_verification_enable:
        return
    question = Question(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        [at],
        is_verified_only=not is_added,
    )
    code = (await services.verification.ask(question))[at]
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_IS_TOLD_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    elif code is ErrorCode.NETWORK_EXCEPTION:
        # Clients do not expect it. This one they try again, and look for no other coordinator.
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is not ErrorCode.NONE:
        raise KafkaError(code)


async def _write(
    services: Services, request: TxnOffsetCommitRequest, guard: VerificationGuard | None
) -> TxnOffsetCommitResponse:
    return await services.groups.write_transactional(
        request.group_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        lambda shard: shard.commit_transactional_offsets(request),
        guard=guard,
    )


async def _known(
    services: Services, topic: TxnOffsetCommitRequestTopic, slices: Slices
) -> TxnOffsetCommitRequestTopic:
    """With the partitions that exist: the coordinator is left with those."""
    image = services.image.topics.get(topic.name)
    count = 0 if image is None else len(image.partitions)
    return TxnOffsetCommitRequestTopic(
        name=topic.name,
        partitions=[
            one async for one in slices.of(topic.partitions) if 0 <= one.partition_index < count
        ],
    )


async def _answer(
    asked: list[TxnOffsetCommitRequestTopic], response: TxnOffsetCommitResponse, slices: Slices
) -> TxnOffsetCommitResponse:
    """In the order of the request. What the coordinator has not answered does not exist."""
    codes = {
        (topic.name, one.partition_index): one.error_code
        async for topic in slices.of(response.topics)
        async for one in slices.of(topic.partitions)
    }
    answer = TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=codes.get(
                            (topic.name, one.partition_index),
                            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        ),
                    )
                    async for one in slices.of(topic.partitions)
                ],
            )
            async for topic in slices.of(asked)
            if topic.partitions
        ]
    )
    await slices.empty(codes)
    return answer
