"""Each anomaly: a history that has it, and one that is nearly the same and has none."""

from __future__ import annotations

from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.history.events import Event, Outcome, Send, SendFailed, SendUnknown, Source
from tests.support.histories import P0, P1, batch, kinds, marker, polled, replica, transaction
from tests.support.histories import written as put

READ_BOTH = polled((0, "a"), (1, "b"))


def test_lost_write_by_the_log() -> None:
    history = [*put("a", 0), *put("b", 1)]
    assert kinds(history, replica(batch(0, "a"), batch(1, "b"))) == set()
    lost = kinds(history, replica(batch(0, "a")))
    assert lost == {AnomalyKind.LOST_WRITE, AnomalyKind.REPLICAS_DIFFER}


def test_lost_write_by_what_readers_saw() -> None:
    history = [*put("a", 0), *put("b", 1)]
    assert kinds([*history, READ_BOTH]) == set()
    assert AnomalyKind.LOST_WRITE in kinds([*history, polled((1, "b"))])
    assert AnomalyKind.LOST_WRITE not in kinds([*history, polled((0, "a"))]), "b is merely unseen"


def test_what_was_read_is_not_lost_either() -> None:
    """Though its producer was never told that it is there."""
    history: list[Event] = [Send("producer", "a", P0), SendUnknown("producer", "a")]
    assert kinds(history, replica()) == set(), "nobody knows of it"
    assert kinds([*history, polled((0, "a"))], replica()) == {AnomalyKind.LOST_WRITE}
    assert kinds([*history, polled((0, "a"))], replica(batch(0, "a"))) == set()


def test_what_was_deleted_is_not_lost() -> None:
    history = [*put("a", 0), *put("b", 1)]
    assert kinds(history, replica(batch(1, "b"), start_offset=1)) == set()


def test_an_acknowledgement_without_an_offset_counts() -> None:
    assert kinds(put("a", None), replica()) == {AnomalyKind.LOST_WRITE}
    assert kinds(put("a", None), replica(batch(0, "a"))) == set()


def test_unseen() -> None:
    history = [*put("a", 0), *put("b", 1)]
    assert kinds([*history, READ_BOTH]) == set()
    assert kinds([*history, polled((0, "a"))]) == {AnomalyKind.UNSEEN}
    assert kinds(history) == set(), "nobody reads this topic"
    deleted = replica(batch(1, "b"), start_offset=1)
    assert kinds([*history, polled((1, "b"))], deleted) == set(), "a was deleted first"


def test_unsent_read() -> None:
    assert kinds([*put("a", 0), *put("b", 1), READ_BOTH]) == set()
    assert kinds([*put("a", 0), READ_BOTH]) == {AnomalyKind.UNSENT_READ}
    elsewhere = [*put("a", 0), *put("b", 1, P1), READ_BOTH]
    assert AnomalyKind.UNSENT_READ in kinds(elsewhere), "sent to another partition"


def test_inconsistent_offsets() -> None:
    history = [*put("a", 0), *put("b", 1), READ_BOTH]
    again = polled((0, "a"), client="another")
    assert kinds([*history, again]) == set()
    other = polled((0, "b"), client="another")
    assert AnomalyKind.INCONSISTENT_OFFSETS in kinds([*history, other])
    assert AnomalyKind.INCONSISTENT_OFFSETS in kinds(
        [*put("a", 0), Send("producer", "b", P0)], replica(batch(0, "b"))
    )


def test_duplicate() -> None:
    history = [*put("a", 0), *put("b", 1)]
    assert kinds(history, replica(batch(0, "a"), batch(1, "b"))) == set()
    twice = replica(batch(0, "a"), batch(1, "b"), batch(2, "a"))
    assert kinds(history, twice) == {AnomalyKind.DUPLICATE}


def test_duplicate_of_a_sequence() -> None:
    history = [*put("a", 0), *put("b", 1)]
    first = batch(0, "a", producer_id=7, base_sequence=0)
    assert kinds(history, replica(first, batch(1, "b", producer_id=7, base_sequence=1))) == set()
    again = replica(first, batch(1, "b", producer_id=7, base_sequence=0))
    assert kinds(history, again) == {AnomalyKind.DUPLICATE}


def test_duplicate_copies_of_one_record() -> None:
    source = Source("copiers", P1, 4)
    first = transaction("t1", *put("a", 0, transaction="t1", source=source))

    def second(outcome: Outcome) -> set[AnomalyKind]:
        records = put("b", 2, transaction="t2", source=source)
        return kinds([*first, *transaction("t2", *records, outcome=outcome)])

    assert second(Outcome.ABORTED) == set()
    assert second(Outcome.COMMITTED) == {AnomalyKind.DUPLICATE}


def test_nonmonotonic_send() -> None:
    assert kinds([*put("a", 0), *put("b", 1)]) == set()
    assert kinds([*put("a", 1), *put("b", 0)]) == {AnomalyKind.NONMONOTONIC_SEND}
    assert kinds([*put("a", 1), *put("b", 0, client="another")]) == set()
    assert kinds([*put("a", 1), *put("b", 0, P1)]) == set()
    seen = [Send("producer", "a", P0), *put("b", 0), polled((0, "b"), (1, "a"))]
    assert kinds(seen) == {AnomalyKind.NONMONOTONIC_SEND}, "of one that was not acknowledged too"


def test_skipped_send() -> None:
    history = [*put("a", 0), *put("b", 1)]
    first = batch(0, "a", producer_id=7, base_sequence=0)
    gap = replica(first, batch(1, "b", producer_id=7, base_sequence=2))
    assert kinds(history, gap) == {AnomalyKind.SKIPPED_SEND}
    new_epoch = batch(1, "b", producer_id=7, producer_epoch=1, base_sequence=0)
    assert kinds(history, replica(first, new_epoch)) == set()


def test_a_record_that_failed_is_nowhere() -> None:
    history: list[Event] = [Send("producer", "a", P0), SendFailed("producer", "a")]
    assert kinds(history, replica()) == set()
    assert kinds([*history, polled((0, "a"))], replica(batch(0, "a"))) == {AnomalyKind.ABORTED_READ}


def test_aborted_records_are_in_the_log_and_nobody_misses_them() -> None:
    history = [
        *transaction("t", *put("a", 0, transaction="t"), outcome=Outcome.ABORTED),
        *put("b", 2, client="another"),
        polled((2, "b")),
    ]
    log = replica(
        batch(0, "a", producer_id=1, is_transactional=True),
        marker(1, 1, Outcome.ABORTED),
        batch(2, "b"),
    )
    assert kinds(history, log) == set()
