"""Records of the transaction coordinator to try formats with."""

from __future__ import annotations

from pathlib import Path

from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.transactions.records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from tests.support.coordinator_records import as_of

FROZEN = Path(__file__).parent.parent / "unit/coordinators/transactions/data/records.json"
"""What Apache Kafka wrote for each of the samples: {name: [key, value]} in hexadecimal digits."""


def samples() -> dict[str, CoordinatorRecord]:
    """By name: in every version, with values in every field and with none."""
    key = TransactionLogKey(transactional_id="Zahlungen für Zürich")
    found = {"tombstone": CoordinatorRecord(key, None)}
    for name, value in _values().items():
        for version in value.VERSIONS:
            found[f"{name} {version}"] = CoordinatorRecord(key, as_of(value, version), version)
    return found


def _values() -> dict[str, TransactionLogValue]:
    return {
        "all defaults": TransactionLogValue(),
        "empty": TransactionLogValue(
            producer_id=1000,
            transaction_timeout_ms=60_000,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=1_700_000_000_000,
            transaction_start_timestamp_ms=-1,
            client_transaction_version=2,
        ),
        "prepared": TransactionLogValue(
            producer_id=2**62 + 1,
            previous_producer_id=2**62,
            next_producer_id=2**62 + 2,
            producer_epoch=2**15 - 1,
            next_producer_epoch=3,
            transaction_timeout_ms=2**31 - 1,
            transaction_status=2,
            transaction_partitions=[
                PartitionsSchema(topic="clicks", partition_ids=[0, 7, 2**31 - 1]),
                PartitionsSchema(topic="__consumer_offsets", partition_ids=[49]),
                PartitionsSchema(),
            ],
            transaction_last_update_timestamp_ms=1_700_000_000_001,
            transaction_start_timestamp_ms=1_700_000_000_000,
            client_transaction_version=2,
        ),
    }
