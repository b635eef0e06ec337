"""Each anomaly: a history that has it, and one that is nearly the same and has none."""

from __future__ import annotations

from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.history.events import (
    AskCommit,
    Assigned,
    Begin,
    Ended,
    OffsetsListed,
    Outcome,
)
from tests.support.histories import P0, kinds, polled, transaction, written

THREE = [*written("a", 0), *written("b", 1), *written("c", 2)]
ALL = polled((0, "a"), (1, "b"), (2, "c"), client="another")


def test_aborted_read() -> None:
    records = written("a", 0, transaction="t")
    for outcome, found in (
        (Outcome.COMMITTED, set[AnomalyKind]()),
        (Outcome.UNKNOWN, set()),
        (Outcome.ABORTED, {AnomalyKind.ABORTED_READ}),
        (None, {AnomalyKind.ABORTED_READ}),
    ):
        history = [*transaction("t", *records, outcome=outcome), polled((0, "a"))]
        assert kinds(history) == found, outcome
        everything = polled((0, "a"), is_read_committed=False)
        assert kinds([*history[:-1], everything]) == set()


def test_precommitted_read() -> None:
    begun = [Begin("producer", "t"), *written("a", 0, transaction="t")]
    asked = AskCommit("producer", "t")
    ended = Ended("producer", "t", Outcome.COMMITTED)
    read = polled((0, "a"))
    assert kinds([*begun, asked, read, ended]) == set()
    assert kinds([*begun, read, asked, ended]) == {AnomalyKind.PRECOMMITTED_READ}


def test_skipped_poll() -> None:
    assert kinds([*THREE, ALL, polled((0, "a")), polled((1, "b"), (2, "c"))]) == set()
    assert kinds([*THREE, ALL, polled((0, "a")), polled((2, "c"))]) == {AnomalyKind.SKIPPED_POLL}


def test_skipped_poll_after_an_assignment() -> None:
    at_one = Assigned("reader", {P0: 1})
    assert kinds([*THREE, ALL, at_one, polled((1, "b"))]) == set()
    assert kinds([*THREE, ALL, at_one, polled((2, "c"))]) == {AnomalyKind.SKIPPED_POLL}
    somewhere = Assigned("reader", {P0: -1})
    assert kinds([*THREE, ALL, somewhere, polled((2, "c"))]) == set()


def test_a_reader_of_what_is_committed_goes_over_the_rest() -> None:
    aborted = transaction("t", *written("b", 1, transaction="t"), outcome=Outcome.ABORTED)
    history = [*written("a", 0), *aborted, *written("c", 3), polled((0, "a"), (3, "c"))]
    assert kinds(history) == set()
    everything = polled((0, "a"), (3, "c"), client="another", is_read_committed=False)
    assert kinds([*history, everything]) == {AnomalyKind.SKIPPED_POLL}


def test_nonmonotonic_poll() -> None:
    assert kinds([*THREE, ALL, polled((0, "a"), (1, "b"))]) == set()
    back = [*THREE, ALL, polled((0, "a"), (1, "b")), polled((1, "b"))]
    assert kinds(back) == {AnomalyKind.NONMONOTONIC_POLL}
    sought = [*back[:-1], Assigned("reader", {P0: 1}), polled((1, "b"))]
    assert kinds(sought) == set(), "as it was told to"


def test_list_offsets_back() -> None:
    def listed(offset: int, client: str = "reader") -> OffsetsListed:
        return OffsetsListed(client, {P0: offset}, is_read_committed=True)

    assert kinds([listed(5), listed(5), listed(6)]) == set()
    assert kinds([listed(5), listed(4)]) == {AnomalyKind.LIST_OFFSETS_BACK}
    assert kinds([listed(5), listed(4, "another")]) == set(), "who asks another leader"
    assert kinds([*THREE, ALL, listed(3, "another")]) == set()
    assert kinds([*THREE, ALL, listed(2, "another")]) == {AnomalyKind.LIST_OFFSETS_BACK}
