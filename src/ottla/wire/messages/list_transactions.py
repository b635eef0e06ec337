"""ListTransactions: the transactional ids that a coordinator knows (KIP-664). All versions are
flexible.

- 1 filters by how long a transaction has been running (KIP-994).
- 2 filters by a regular expression for the transactional id (KIP-1152).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+"):
    # Empty filters let all pass.
    state_filters: list[str] = array(string())
    producer_id_filters: list[int] = array(int64())
    # In milliseconds; negative lets all pass.
    duration_filter: int = int64("1+", default=-1, ignorable=False)
    transactional_id_pattern: str | None = string(
        "2+", nullable="2+", default=None, ignorable=False
    )


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string())
    transaction_states: list[TransactionState] = array(TransactionState)
