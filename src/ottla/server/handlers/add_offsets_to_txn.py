"""AddOffsetsToTxn: a transaction will commit offsets of a group, so the group's partition of
`__consumer_offsets` is in it. v2 knows PRODUCER_FENCED, v3 brought flexible fields, v4
TRANSACTION_ABORTABLE. Clients of transactions version 2 do not send it (KIP-890)."""

from __future__ import annotations

from ottla.coordinators.transactions.transaction_coordinator import told_to_client
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.server.context import RequestContext
from ottla.server.internal_topics import coordinator_topic
from ottla.server.services import Services
from ottla.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


async def handle(
    services: Services, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    try:
        await coordinator_topic(services, CONSUMER_OFFSETS)
        number = services.groups.partition_of(request.group_id)
        await services.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [TopicPartition(CONSUMER_OFFSETS, number)],
            transaction_version=0,
        )
    except KafkaError as error:
        code = told_to_client(error.code, "add_offsets", context.api_version)
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse()
