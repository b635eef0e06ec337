"""InitProducerId: an identity for an idempotent producer. v3 lets a producer keep its id and
raise its epoch (KIP-360), v6 is for two-phase commit (KIP-939)."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(
    services: Services, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    if request.transactional_id == "" or (
        (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    ):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is not None:
        # Transactions need a coordinator, which this broker does not have yet. A retriable error
        # would let the client wait for one for ever.
        return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, producer_epoch=-1)
    try:
        producer_id = await services.producer_ids.next()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
