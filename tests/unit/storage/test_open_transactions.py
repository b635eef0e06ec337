from __future__ import annotations

from ottla.storage.open_transactions import OpenTransactions


def test_the_oldest_open_transaction_holds_readers_back() -> None:
    transactions = OpenTransactions()
    assert transactions.first_unstable_offset is None
    transactions.begin(10, 1)
    transactions.begin(20, 2)
    assert transactions.first_unstable_offset == 10
    assert transactions.end(10, 30) == 20
    transactions.replicated_to(31)
    assert transactions.first_unstable_offset == 20


def test_an_ended_one_holds_back_until_its_marker_is_replicated() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    assert transactions.end(10, 30) == 31
    assert transactions.first_unstable_offset == 10
    transactions.replicated_to(30)
    assert transactions.first_unstable_offset == 10
    transactions.replicated_to(31)
    assert transactions.first_unstable_offset is None


def test_a_later_one_that_ended_first_does_not_set_the_oldest_free() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    transactions.begin(20, 2)
    assert transactions.end(20, 30) == 10
    transactions.replicated_to(31)
    assert transactions.first_unstable_offset == 10
    transactions.begin(40, 2)
    transactions.end(10, 41)
    transactions.replicated_to(41)
    assert transactions.first_unstable_offset == 10  # Its marker may still be lost.
    transactions.replicated_to(42)
    assert transactions.first_unstable_offset == 40


def test_a_snapshot_may_list_them_in_any_order() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 9)
    transactions.end(1, 2)
    transactions.reset({30: 3, 10: 1, 20: 2})
    assert transactions.first_unstable_offset == 10
    assert list(transactions.ongoing) == [10, 20, 30]
    assert not transactions.unreplicated
