"""Each anomaly: a history that has it, and one that is nearly the same and has none."""

from __future__ import annotations

from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.history.events import Ended, Event, Outcome
from ottla.testing.history.replica_log import ReplicaLog
from tests.support.histories import P0, P1, batch, kinds, marker, polled, replica, written
from tests.support.histories import transaction as txn

RECORDS = [*written("a", 0, P0, transaction="t"), *written("b", 0, P1, transaction="t")]


def logs(first: Outcome | None, second: Outcome | None) -> list[ReplicaLog]:
    """Of both partitions, with the markers that the transaction has there."""
    return [
        replica(
            batch(0, value, producer_id=1, is_transactional=True),
            *([marker(1, 1, outcome)] if outcome is not None else []),
            partition=partition,
        )
        for value, partition, outcome in (("a", P0, first), ("b", P1, second))
    ]


def test_torn_transaction() -> None:
    both, neither = (Outcome.COMMITTED,) * 2, (Outcome.ABORTED,) * 2
    torn = (Outcome.COMMITTED, Outcome.ABORTED)
    for told, found in (
        (Outcome.COMMITTED, both),
        (Outcome.UNKNOWN, both),
        (Outcome.UNKNOWN, neither),
        (Outcome.ABORTED, neither),
    ):
        assert kinds(txn("t", *RECORDS, outcome=told), *logs(*found)) == set(), told
        assert kinds(txn("t", *RECORDS, outcome=told), *logs(*torn)) == {
            AnomalyKind.TORN_TRANSACTION
        }, told
    for told, found in ((Outcome.COMMITTED, neither), (Outcome.ABORTED, both)):
        wrong = kinds(txn("t", *RECORDS, outcome=told), *logs(*found))
        assert wrong == {AnomalyKind.TORN_TRANSACTION}, "not what its producer was told"


def test_a_record_that_is_missing_tears_a_transaction() -> None:
    whole, empty = logs(Outcome.COMMITTED, Outcome.COMMITTED)[0], replica(partition=P1)
    unknown = txn("t", *RECORDS, outcome=Outcome.UNKNOWN)
    assert AnomalyKind.TORN_TRANSACTION in kinds(unknown, whole, empty)
    deleted = replica(partition=P1, start_offset=1)
    assert kinds(unknown, whole, deleted) == set(), "one that was deleted does not"


def test_hanging_transaction() -> None:
    history = txn("t", *RECORDS, outcome=None)
    assert kinds(history, *logs(Outcome.ABORTED, Outcome.ABORTED)) == set()
    assert kinds(history, *logs(Outcome.ABORTED, None)) == {AnomalyKind.HANGING_TRANSACTION}


def reader(name: str, client: str, value: str, offset: int, *writes: Event) -> list[Event]:
    """A transaction that reads one record, and writes what it likes."""
    read = polled((offset, value), client=client, transaction=name, is_read_committed=False)
    return txn(name, *writes, read, client=client)


def test_cycle_of_two_that_read_one_another() -> None:
    first = reader("t1", "p1", "b", 1, *written("a", 0, client="p1", transaction="t1"))
    second = reader("t2", "p2", "a", 0, *written("b", 1, client="p2", transaction="t2"))
    assert kinds([*first, *second]) == {AnomalyKind.CYCLE}
    plain = txn("t1", *written("a", 0, client="p1", transaction="t1"), client="p1")
    alone = polled((0, "a"), (1, "b"), client="r")
    assert kinds([*plain, *second, alone]) == set()


def test_cycle_over_the_order_of_a_client() -> None:
    """t1 is before t3 at one client; t2 has read t3's record, and t1 has read t2's."""

    def history(read_by_first: str, offset: int) -> list[Event]:
        zero = txn("t0", *written("z", 0, client="p0", transaction="t0"), client="p0")
        first = reader("t1", "p1", read_by_first, offset)
        third = txn("t3", *written("c", 1, client="p1", transaction="t3"), client="p1")
        second = reader("t2", "p2", "c", 1, *written("b", 2, client="p2", transaction="t2"))
        everything = polled((0, "z"), (1, "c"), (2, "b"), client="r")
        return [*zero, *first, *third, *second, everything]

    assert kinds(history("b", 2)) == {AnomalyKind.CYCLE}
    assert kinds(history("z", 0)) == set()


def test_what_was_aborted_is_in_no_order() -> None:
    first = reader("t1", "p1", "b", 1, *written("a", 0, client="p1", transaction="t1"))
    second = reader("t2", "p2", "a", 0, *written("b", 1, client="p2", transaction="t2"))
    second[-1] = Ended("p2", "t2", Outcome.ABORTED)
    assert kinds([*first, *second]) == set()
