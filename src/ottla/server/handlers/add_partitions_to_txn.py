"""AddPartitionsToTxn: partitions that a transaction writes to.

Up to v3 clients send it, of one transaction; v2 knows PRODUCER_FENCED, v3 brought flexible fields.
From v4 on brokers send it (KIP-890), of many transactions at once: to add what a client wrote to,
or to verify that it was added; v5 is said to bring TRANSACTION_ABORTABLE, but Kafka 4.3 answers v4
with it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.coordinators.transactions.transaction_coordinator import told_to_client
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BATCHED_SINCE = 4


async def handle(
    services: Services, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    version = context.api_version
    slices = Slices(services.clock)
    if version >= BATCHED_SINCE:
        response = AddPartitionsToTxnResponse()
        async for transaction in slices.of(request.transactions):
            response.results_by_transaction.append(
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=await _answer(services, transaction, version, slices),
                )
            )
        return response
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _answer(services, only, version, slices)
    )


async def _answer(
    services: Services,
    transaction: AddPartitionsToTxnTransaction,
    version: int,
    slices: Slices,
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = [
        TopicPartition(topic.name, number)
        async for topic in slices.of(transaction.topics)
        async for number in slices.of(topic.partitions)
    ]
    unknown = [at async for at in slices.of(partitions) if services.image.partition(*at) is None]
    if unknown:
        # All or none: those that exist were not added either.
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        codes.update(dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return await _results(transaction.topics, codes, slices)
    try:
        codes = await _carry_out(services, transaction, partitions, version)
    except KafkaError as error:
        code = told_to_client(error.code, "add_partitions", version)
        codes = dict.fromkeys(partitions, code)
    return await _results(transaction.topics, codes, slices)


async def _carry_out(
    services: Services,
    transaction: AddPartitionsToTxnTransaction,
    partitions: Sequence[TopicPartition],
    version: int,
) -> dict[TopicPartition, ErrorCode]:
    whose = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if not transaction.verify_only:
        transaction_version = 2 if version >= BATCHED_SINCE else 0
        await services.transactions.add_partitions(
            *whose, partitions, transaction_version=transaction_version
        )
        return dict.fromkeys(partitions, ErrorCode.NONE)
    return await services.transactions.verify_partitions(*whose, partitions)


async def _results(
    topics: Sequence[AddPartitionsToTxnTopic],
    codes: Mapping[TopicPartition, ErrorCode],
    slices: Slices,
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number,
                    partition_error_code=codes[TopicPartition(topic.name, number)],
                )
                async for number in slices.of(topic.partitions)
            ],
        )
        async for topic in slices.of(topics)
    ]
