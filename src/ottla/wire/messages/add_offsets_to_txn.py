"""AddOffsetsToTxn: a group whose offsets a transaction is about to commit.

- 2 may answer PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE (KIP-890).
- Version 3 is flexible.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
