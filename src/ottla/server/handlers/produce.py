"""Produce: record batches, appended as they are.

v3 brought record batches of today's format, v5 the log's start, v7 zstd, v8 errors of single
records (KIP-467), v9 flexible fields, v10 the new leader in an error (KIP-951), v12 implicit
transaction partitions (KIP-890), v13 topic ids instead of names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.kernel.eager import Done
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.errors import NotOneBatch, RecordsRejected
from ottla.records.validation import check_is_a_batch, check_is_one_batch
from ottla.replication.partition import Partition
from ottla.server.context import RequestContext
from ottla.server.errors import BadRequest
from ottla.server.produce_rules import ACKS_NONE, refusal, topic_name
from ottla.server.services import Services
from ottla.server.transactional_produce import Admission, is_transactional
from ottla.storage.pending_write import Appended
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

START_IS_NOT_TOLD = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""With all other errors of a partition Kafka says where its log begins."""


def handle(
    services: Services, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    batches = [
        data.records
        for topic in request.topic_data
        for data in topic.partition_data
        if data.records is not None
    ]
    try:
        for batch in batches:
            check_is_a_batch(batch)
        if request.transactional_id is not None:
            return _handle_transactional(services, request, context, request.transactional_id)
        if any(map(is_transactional, batches)):
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch in a request without a transactional id",
            )
    except KafkaError as error:
        return _refused(request, error)
    return _append(services, request, context, None)


def _refused(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    """All of it."""
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=error.code,
                        error_message=error.message,
                        base_offset=-1,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == ACKS_NONE:
        _check_unacknowledged(response)
        return None
    return response


def _handle_transactional(
    services: Services, request: ProduceRequest, context: RequestContext, transactional_id: str
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    batches = {
        TopicPartition(
            topic_name(services.replicas, topic.name, topic.topic_id), data.index
        ): data.records
        for topic in request.topic_data
        for data in topic.partition_data
        if data.records is not None and is_transactional(data.records)
    }
    if not batches:
        return _append(services, request, context, None)
    admitted = services.transactional_produce.admit(transactional_id, batches, context.api_version)
    if isinstance(admitted, Done):
        return _append(services, request, context, admitted.value)
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                # The receive buffer is reused before the coordinator has answered.
                data.records = memoryview(bytearray(data.records))
    return _append_when_admitted(services, request, context, admitted)


async def _append_when_admitted(
    services: Services,
    request: ProduceRequest,
    context: RequestContext,
    admitted: asyncio.Task[Admission],
) -> ProduceResponse | None:
    response = _append(services, request, context, await admitted)
    return await response if isinstance(response, Awaitable) else response


def _append(
    services: Services,
    request: ProduceRequest,
    context: RequestContext,
    admission: Admission | None,
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    version = context.api_version
    acks = request.acks
    responses: list[TopicProduceResponse] = []
    later: list[tuple[PartitionProduceResponse, Partition, asyncio.Future[Appended]]] = []
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        name = topic_name(services.replicas, topic.name, topic.topic_id)
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
        refused = refusal(name, acks, context.client_id)
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index)
            answers.append(answer)
            partition: Partition | None = None
            try:
                if not name:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                found = services.replicas.partition(name, data.index)
                records = _records(data)
                if refused is not None:
                    check_is_one_batch(records, version)  # As in Kafka, that is said first.
                    raise refused
                guard = None
                if admission is not None:
                    guard = admission.guard_for(TopicPartition(name, data.index))
                partition = found
                appended = partition.leader.append(
                    records, acks=acks, produce_version=version, guard=guard
                )
            except KafkaError as error:
                _set_error(answer, error, partition)
                continue
            if isinstance(appended, Appended):
                _set_appended(answer, partition, appended)
            else:
                later.append((answer, partition, appended))
    response = ProduceResponse(responses=responses)
    if later:
        return _answer_later(response, later, acks)
    if acks == ACKS_NONE:
        _check_unacknowledged(response)
        return None
    return response


def _records(data: PartitionProduceData) -> memoryview:
    records = data.records
    if not records:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "no record batch for the partition")
    return records


async def _answer_later(
    response: ProduceResponse,
    later: list[tuple[PartitionProduceResponse, Partition, asyncio.Future[Appended]]],
    acks: int,
) -> ProduceResponse | None:
    for answer, partition, future in later:
        try:
            _set_appended(answer, partition, await future)
        except KafkaError as error:
            _set_error(answer, error, partition)
    if acks == ACKS_NONE:
        _check_unacknowledged(response)
        return None
    return response


def _check_unacknowledged(response: ProduceResponse) -> None:
    """The client waits for no answer. All it can be told of an error is a closed connection:
    then it fetches metadata anew and finds where to send."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise BadRequest(
                    f"produce with acks=0 to {topic.name}-{answer.index}: "
                    f"{ErrorCode(answer.error_code).name}"
                )


def _set_appended(
    answer: PartitionProduceResponse, partition: Partition, appended: Appended
) -> None:
    answer.base_offset = appended.first_offset
    answer.log_append_time_ms = appended.log_append_time_ms
    answer.log_start_offset = partition.log.log_start_offset


def _set_error(
    answer: PartitionProduceResponse, error: KafkaError, partition: Partition | None
) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.base_offset = -1
    is_told = not isinstance(error, NotOneBatch) and error.code not in START_IS_NOT_TOLD
    if is_told and partition is not None:
        answer.log_start_offset = partition.log.log_start_offset
    if isinstance(error, RecordsRejected):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in error.record_errors
        ]
