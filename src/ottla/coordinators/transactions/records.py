"""The records of `__transaction_state`, in Kafka's own format: there is one type, by transactional
id.

Values are written in the version that `CoordinatorRecord` names, and read in all. Version 1 is
flexible, and is written where `transaction.version` is 1 or above. New fields come as tagged ones,
so that an older broker can still load what a newer one wrote (KIP-915).
"""

from __future__ import annotations

from ottla.coordinators.record import RecordType
from ottla.wire.schema import Message, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, api_key=0, versions="0"):
    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32())


class TransactionLogValue(Message, api_key=0, versions="0-1", flexible="1+"):
    """The tagged fields are what raising the epoch with every transaction needs (KIP-890).
    Version 0 refuses them: without them a retry of the last EndTxn would be fenced."""

    producer_id: int = int64()
    # Of the last transaction that ended, where it had another one.
    previous_producer_id: int = int64("1+", tag=0, default=-1, ignorable=False)
    # What the producer goes on with, when the epochs of this one are used up.
    next_producer_id: int = int64("1+", tag=1, default=-1, ignorable=False)
    producer_epoch: int = int16()
    # Of `next_producer_id`: for two-phase commit, which keeps a prepared transaction (KIP-939).
    next_producer_epoch: int = int16("1+", tag=3, default=-1, ignorable=False)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    # Kafka writes null in the state that cannot have any, Empty.
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    # -1 while no transaction is open.
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2, ignorable=False)


RECORD_TYPES: dict[int, RecordType] = {
    TransactionLogKey.API_KEY: RecordType(TransactionLogKey, TransactionLogValue)
}
"""What can be read, by type."""
