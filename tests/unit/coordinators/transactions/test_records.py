"""Against the bytes that Apache Kafka wrote: `tests/compat/test_coordinator_records.py` holds
those against its classes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.record import CoordinatorRecord, RecordType, decode_record, encode_record
from ottla.coordinators.transactions.records import (
    RECORD_TYPES,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    by_topic,
    encode_key,
    encode_value,
)
from ottla.kernel.ids import TopicPartition
from tests.support.coordinator_records import (
    assert_damage_is_noticed,
    case_id,
    read_frozen,
    records,
    value_cases,
)
from tests.support.counts import count
from tests.support.transaction_records import FROZEN, samples

KAFKAS = read_frozen(FROZEN)


@pytest.mark.parametrize("name", KAFKAS)
def test_bytes_are_those_of_kafka(name: str) -> None:
    record, (key, value) = samples()[name], KAFKAS[name]

    assert encode_record(record) == (key, value)
    assert decode_record(RECORD_TYPES, key, value) == record


def test_samples_have_every_version() -> None:
    assert samples().keys() == KAFKAS.keys()
    assert {record.value_version for record in samples().values() if record.value} == {0, 1}


PRODUCER_IDS = st.sampled_from([-1, 0, 2**63 - 1])
TIMESTAMPS = st.sampled_from([-1, 0, 1_700_000_000_000])
PARTITIONS = st.builds(
    TopicPartition,
    st.sampled_from(["a", "ä" * 30, "t" * 125, "t" * 126, "t" * 249]),
    st.integers(0, 200),
)


@settings(max_examples=count(full=300))
@given(
    transactional_id=st.text(min_size=1, max_size=200),
    value=st.builds(
        TransactionLogValue,
        producer_id=PRODUCER_IDS,
        previous_producer_id=PRODUCER_IDS,
        next_producer_id=PRODUCER_IDS,
        producer_epoch=st.integers(-1, 2**15 - 1),
        transaction_timeout_ms=st.integers(0, 2**31 - 1),
        transaction_status=st.integers(0, 5),
        transaction_last_update_timestamp_ms=TIMESTAMPS,
        transaction_start_timestamp_ms=TIMESTAMPS,
        client_transaction_version=st.integers(0, 2),
    ),
    partitions=st.none() | st.frozensets(PARTITIONS, max_size=150),
)
def test_the_quick_way_makes_the_bytes_of_the_schema(
    transactional_id: str,
    value: TransactionLogValue,
    partitions: frozenset[TopicPartition] | None,
) -> None:
    if partitions is None:
        value.transaction_partitions = None
    else:
        value.transaction_partitions = [
            PartitionsSchema(topic=topic, partition_ids=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    key = TransactionLogKey(transactional_id=transactional_id)
    assert encode_record(CoordinatorRecord(key, value, 1)) == (
        encode_key(transactional_id),
        encode_value(
            producer_id=value.producer_id,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            status=value.transaction_status,
            partitions=partitions,
            last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
            start_timestamp_ms=value.transaction_start_timestamp_ms,
            client_transaction_version=value.client_transaction_version,
        ),
    )


def test_partitions_are_sorted_by_topic() -> None:
    unsorted = [TopicPartition("t", 1), TopicPartition("s", 2), TopicPartition("t", 0)]
    assert by_topic(unsorted) == {"s": [2], "t": [0, 1]}


@pytest.mark.parametrize(
    "value",
    [
        TransactionLogValue(previous_producer_id=1),
        TransactionLogValue(next_producer_id=1),
        TransactionLogValue(next_producer_epoch=1),
        TransactionLogValue(client_transaction_version=2),
    ],
)
def test_the_first_version_refuses_to_lose_what_it_has_no_room_for(
    value: TransactionLogValue,
) -> None:
    record = CoordinatorRecord(TransactionLogKey(transactional_id="t"), value, 0)

    with pytest.raises(ValueError, match="version 0 has no"):
        encode_record(record)


@pytest.mark.parametrize(("known", "version"), value_cases(RECORD_TYPES), ids=case_id)
@settings(max_examples=count(full=300))
@given(data=st.data())
def test_cut_and_damaged_bytes_are_malformed_or_another_record(
    known: RecordType, version: int, data: st.DataObject
) -> None:
    assert_damage_is_noticed(RECORD_TYPES, data.draw(records(known, version)), data)
