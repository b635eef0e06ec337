"""EndTxn: commits or aborts a producer's transaction.

v2 knows PRODUCER_FENCED, v3 brought flexible fields, v4 TRANSACTION_ABORTABLE. v5 is of
transactions version 2 (KIP-890): every end raises the producer's epoch, and the answer says to
what.
"""

from __future__ import annotations

from ottla.coordinators.transactions.transaction_coordinator import told_to_client
from ottla.kernel.errors import KafkaError
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

VERSION_2_SINCE = 5


async def handle(
    services: Services, request: EndTxnRequest, context: RequestContext
) -> EndTxnResponse:
    version = context.api_version
    try:
        next_producer = await services.transactions.end(
            request, transaction_version=2 if version >= VERSION_2_SINCE else 0
        )
    except KafkaError as error:
        return EndTxnResponse(error_code=told_to_client(error.code, "end", version))
    return EndTxnResponse(
        producer_id=next_producer.producer_id, producer_epoch=next_producer.producer_epoch
    )
