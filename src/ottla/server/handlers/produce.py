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
from ottla.kernel.slices import Slices
from ottla.records.errors import NotOneBatch, RecordsRejected
from ottla.records.validation import check_is_a_batch, check_is_one_batch
from ottla.replication.partition import Partition
from ottla.server.context import RequestContext
from ottla.server.errors import BadRequest
from ottla.server.leader_hints import LeaderHints
from ottla.server.produce_rules import ACKS_NONE, refusal, topic_name
from ottla.server.services import Services
from ottla.server.transactional_produce import Admission, is_transactional
from ottla.storage.pending_write import Appended
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
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
            raise _no_transactional_id()
    except KafkaError as error:
        return _acknowledged(request, _refused(request, error))
    return _append(services, request, context, None)


async def handle_large(
    services: Services, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | None:
    """The same for any number of partitions, in slices. Its records stay where they are."""
    slices = Slices(services.clock)
    try:
        admission = await _admit_large(services, request, context.api_version, slices)
    except KafkaError as error:
        response = ProduceResponse()
        async for topic in slices.of(request.topic_data):
            response.responses += _refused(ProduceRequest(topic_data=[topic]), error).responses
        return _acknowledged(request, response)
    append = _Append(services, request, context, admission)
    async for topic in slices.of(request.topic_data):
        append.begin_topic(topic)
        async for data in slices.of(topic.partition_data):
            append.add(data)
    return await append.answer_later()


async def _admit_large(
    services: Services, request: ProduceRequest, version: int, slices: Slices
) -> Admission | None:
    """Raises KafkaError for what is refused as a whole."""
    batches: dict[TopicPartition, memoryview] = {}
    async for topic in slices.of(request.topic_data):
        name = topic_name(services.replicas, topic.name, topic.topic_id)
        async for data in slices.of(topic.partition_data):
            if data.records is not None:
                check_is_a_batch(data.records)
                if is_transactional(data.records):
                    batches[TopicPartition(name, data.index)] = data.records
    if not batches:
        return None
    if request.transactional_id is None:
        raise _no_transactional_id()
    admitted = services.transactional_produce.admit(request.transactional_id, batches, version)
    return admitted.value if isinstance(admitted, Done) else await admitted


def _no_transactional_id() -> KafkaError:
    return KafkaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a transactional batch in a request without a transactional id",
    )


def _refused(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """All of it."""
    return ProduceResponse(
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
    append = _Append(services, request, context, admission)
    for topic in request.topic_data:
        append.begin_topic(topic)
        for data in topic.partition_data:
            append.add(data)
    return append.answer_later() if append.is_pending else append.answer()


class _Append:
    """One request's appends, partition after partition, on their way to an answer."""

    __slots__ = (
        "_acks",
        "_admission",
        "_answers",
        "_client_id",
        "_hints",
        "_later",
        "_listener_name",
        "_name",
        "_refused",
        "_request",
        "_responses",
        "_services",
        "_version",
    )

    def __init__(
        self,
        services: Services,
        request: ProduceRequest,
        context: RequestContext,
        admission: Admission | None,
    ) -> None:
        self._services = services
        self._request = request
        self._admission = admission
        self._acks = request.acks
        self._version = context.api_version
        self._client_id = context.client_id
        self._listener_name = context.listener_name
        self._hints: LeaderHints | None = None
        self._responses: list[TopicProduceResponse] = []
        self._later: list[tuple[PartitionProduceResponse, Partition, asyncio.Future[Appended]]] = []

    @property
    def is_pending(self) -> bool:
        return bool(self._later)

    def begin_topic(self, topic: TopicProduceData) -> None:
        """To which the partitions belong that are added from now on."""
        self._name = name = topic_name(self._services.replicas, topic.name, topic.topic_id)
        self._answers: list[PartitionProduceResponse] = []
        self._responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=self._answers
            )
        )
        self._refused = refusal(name, self._acks, self._client_id)

    def add(self, data: PartitionProduceData) -> None:
        name = self._name
        answer = PartitionProduceResponse(index=data.index)
        self._answers.append(answer)
        partition: Partition | None = None
        try:
            if not name:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            found = self._services.replicas.partition(name, data.index)
            records = _records(data)
            if self._refused is not None:
                check_is_one_batch(records, self._version)  # As in Kafka, that is said first.
                raise self._refused
            guard = None
            if self._admission is not None:
                guard = self._admission.guard_for(TopicPartition(name, data.index))
            partition = found
            appended = partition.leader.append(
                records,
                acks=self._acks,
                produce_version=self._version,
                guard=guard,
                timeout_ms=self._request.timeout_ms,
            )
        except KafkaError as error:
            self._refuse(answer, error, partition, name)
            return
        if isinstance(appended, Appended):
            _set_appended(answer, partition, appended)
        else:
            self._later.append((answer, partition, appended))

    def answer(self) -> ProduceResponse | None:
        response = ProduceResponse(responses=self._responses)
        if self._hints is not None:
            response.node_endpoints = [NodeEndpoint(**node._asdict()) for node in self._hints.nodes]
        return _acknowledged(self._request, response)

    def _refuse(
        self,
        answer: PartitionProduceResponse,
        error: KafkaError,
        partition: Partition | None,
        topic: str,
    ) -> None:
        _set_error(answer, error, partition)
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            if self._hints is None:
                services = self._services
                self._hints = LeaderHints(services.image, services.replicas, self._listener_name)
            hint = self._hints.leader_of(topic, answer.index)
            if hint is not None:
                answer.current_leader = LeaderIdAndEpoch(**hint._asdict())

    async def answer_later(self) -> ProduceResponse | None:
        try:
            for answer, partition, future in self._later:
                try:
                    _set_appended(answer, partition, await future)
                except KafkaError as error:
                    self._refuse(answer, error, partition, partition.topic_partition.topic)
        finally:  # Where its client is gone, nobody waits for the others, either.
            for _, _, future in self._later:
                future.cancel()
        return self.answer()


def _records(data: PartitionProduceData) -> memoryview:
    records = data.records
    if not records:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "no record batch for the partition")
    return records


def _acknowledged(request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
    """With acks=0 the client waits for no answer. All it can be told of an error is a closed
    connection: then it fetches metadata anew and finds where to send."""
    if request.acks != ACKS_NONE:
        return response
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise BadRequest(
                    f"produce with acks=0 to {topic.name}-{answer.index}: "
                    f"{ErrorCode(answer.error_code).name}"
                )
    return None


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
