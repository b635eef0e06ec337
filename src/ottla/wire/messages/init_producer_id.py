"""InitProducerId: an id and epoch for an idempotent or transactional producer.

- Version 2 is flexible.
- 3 lets a producer bump its own epoch after an error, by sending what it has (KIP-360).
- 4 may answer PRODUCER_FENCED, 5 TRANSACTION_ABORTABLE (KIP-890).
- 6 is for two-phase commit (KIP-939). Kafka 4.3 holds it to be unstable and does not list it.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, boolean, int16, int32, int64, string


class InitProducerIdRequest(Request, api_key=22, versions="0-6", flexible="2+"):
    # Null for a producer that is idempotent only.
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1, ignorable=False)
    producer_epoch: int = int16("3+", default=-1, ignorable=False)
    enable_2pc: bool = boolean("6+", ignorable=False)
    keep_prepared_txn: bool = boolean("6+", ignorable=False)


class InitProducerIdResponse(Response, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
