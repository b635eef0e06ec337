"""DescribeTransactions: what its coordinator knows of a transactional id (KIP-664)."""

from __future__ import annotations

from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


async def handle(
    services: Services, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    slices = Slices(services.clock)
    return DescribeTransactionsResponse(
        transaction_states=[
            await services.transactions.describe(transactional_id)
            # Each once: a short question must not make a long answer.
            async for transactional_id in slices.of(
                await slices.distinct(request.transactional_ids)
            )
        ]
    )
