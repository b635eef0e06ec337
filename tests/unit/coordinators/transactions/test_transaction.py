from __future__ import annotations

import pytest

from ottla.coordinators.record import decode_record, encode_record
from ottla.coordinators.transactions.records import (
    RECORD_TYPES,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.coordinators.transactions.state import TransactionState
from ottla.coordinators.transactions.transaction import (
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    Transaction,
    is_exhausted,
    new_transaction,
    tombstone,
)
from ottla.kernel.ids import ProducerId
from tests.support.transactions import P0, P1

PRODUCER_ID = ProducerId(7)
NO_ID = ProducerId(-1)


def ongoing(epoch: int = 0, version: int = 2) -> Transaction:
    begun = new_transaction("tx", PRODUCER_ID, 100, 10).with_epoch(epoch, -1, 100, 10)
    return begun.with_partitions([P0], version, 20)


def test_an_end_raises_the_epoch_with_version_2_only() -> None:
    raised = ongoing(epoch=4).prepared(True, 2, NO_ID, 30)
    assert (raised.producer_epoch, raised.last_producer_epoch) == (5, 4)
    kept = ongoing(epoch=4, version=0).prepared(True, 0, NO_ID, 30)
    assert (kept.producer_epoch, kept.last_producer_epoch) == (4, -1)


def test_partitions_add_up_and_the_time_of_the_first_counts() -> None:
    transaction = ongoing().with_partitions([P1], 2, 25)
    assert transaction.partitions == {P0, P1}
    assert transaction.start_timestamp_ms == 20
    assert transaction.last_update_timestamp_ms == 25


def test_the_greatest_epoch_is_for_markers_only() -> None:
    last = ongoing(epoch=EPOCH_MAX - 1)
    assert last.is_epoch_exhausted
    decided = last.prepared(True, 2, ProducerId(8), 30)
    assert decided.producer == (PRODUCER_ID, EPOCH_MAX)
    assert decided.goes_on_as == (8, 0)
    done = decided.completed(40)
    assert done.producer == (8, 0)
    assert done.previous_producer_id == PRODUCER_ID
    assert done.next_producer_id == NO_ID
    assert done.last_producer_epoch == EPOCH_MAX - 1
    # Something that should not be; an abort is still a way out.
    broken = last._replace(producer_epoch=EPOCH_MAX).prepared(False, 2, ProducerId(8), 30)
    assert broken.producer_epoch == EPOCH_MAX


def test_epochs_are_exhausted_at_the_last_but_one() -> None:
    assert not is_exhausted(EPOCH_MAX - 2)
    assert is_exhausted(EPOCH_MAX - 1)


def test_it_times_out_after_its_time_out() -> None:
    transaction = ongoing()
    assert not transaction.is_timed_out(120)
    assert transaction.is_timed_out(121)
    assert not transaction.prepared(True, 2, NO_ID, 30).is_timed_out(1000)
    assert not transaction._replace(timeout_ms=NO_TIMEOUT_MS).is_timed_out(2**40)


def test_a_step_that_is_not_in_the_table_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="CompleteCommit cannot follow Ongoing"):
        ongoing()._replace(state=TransactionState.ONGOING)._step(
            TransactionState.COMPLETE_COMMIT, 30
        )


@pytest.mark.parametrize(
    "transaction",
    [
        new_transaction("tx", PRODUCER_ID, 100, 10).with_epoch(0, -1, 100, 10),
        ongoing(),
        ongoing().prepared(True, 2, NO_ID, 30),
        ongoing(epoch=EPOCH_MAX - 1).prepared(False, 2, ProducerId(8), 30),
        ongoing().prepared(True, 2, NO_ID, 30).completed(40),
        ongoing(version=0).prepared(False, 0, NO_ID, 30).completed(40),
    ],
)
def test_the_log_keeps_all_but_the_last_epoch(transaction: Transaction) -> None:
    written = transaction.to_record()
    record = decode_record(RECORD_TYPES, *written)
    assert record is not None
    assert record.key == TransactionLogKey(transactional_id="tx")
    assert record.value_version == 1
    assert isinstance(record.value, TransactionLogValue)
    loaded = Transaction.from_record("tx", record.value)
    assert loaded == transaction._replace(last_producer_epoch=-1)
    # Made by hand: it must be what the schema makes of it.
    assert encode_record(record) == written


def test_partitions_are_null_only_before_the_first_transaction() -> None:
    begun = new_transaction("tx", PRODUCER_ID, 100, 10).with_epoch(0, -1, 100, 10)
    assert partitions_in_log(begun) is None
    assert partitions_in_log(ongoing().prepared(True, 2, NO_ID, 30).completed(40)) == []


def partitions_in_log(transaction: Transaction) -> list[PartitionsSchema] | None:
    record = decode_record(RECORD_TYPES, *transaction.to_record())
    assert record is not None
    assert isinstance(record.value, TransactionLogValue)
    return record.value.transaction_partitions


@pytest.mark.parametrize("status", [6, 7, 99])
def test_a_state_that_nobody_writes_is_not_loaded(status: int) -> None:
    with pytest.raises(ValueError, match=str(status)):
        Transaction.from_record("tx", TransactionLogValue(transaction_status=status))


def test_a_tombstone_has_no_value() -> None:
    assert tombstone("tx") == (TransactionLogKey(transactional_id="tx"), None, 0)
