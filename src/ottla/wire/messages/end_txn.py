"""EndTxn: commits or aborts a transaction.

- 2 may answer PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE (KIP-890).
- Version 3 is flexible.
- 5 raises the epoch with every transaction and answers what the producer goes on with (KIP-890).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, boolean, int16, int32, int64, string


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    # False aborts.
    committed: bool = boolean()


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
