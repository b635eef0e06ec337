"""ListTransactions: the transactional ids whose coordinator is here (KIP-664). v1 filters by
duration (KIP-994), v2 by a pattern (KIP-1152)."""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


async def handle(
    services: Services, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    try:
        return await services.transactions.list(request)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
