"""Producer ids are given out to brokers in blocks, of which each id is used once (KIP-730)."""

from __future__ import annotations

from ottla.coordination.znodes import ProducerIdBlock
from ottla.kernel.errors import ErrorCode, KafkaError

BLOCK_SIZE = 1_000
_PRODUCER_ID_MAX = 2**63 - 1


def next_block(last: ProducerIdBlock | None, broker_id: int) -> ProducerIdBlock:
    """The one after the last that was given out, for this broker. Raises KafkaError."""
    first = last.last_producer_id + 1 if last else 0
    if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are given out.")
    return ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
