from __future__ import annotations

from ottla.testing.history.committed_log import committed_logs
from ottla.testing.history.events import Outcome, Send, SendFailed, SendUnknown
from ottla.testing.history.facts import Facts
from tests.support.histories import P0, batch, marker, replica, transaction, written


def test_a_transaction_that_nobody_asked_to_commit_is_not_committed() -> None:
    facts = Facts(transaction("t", *written("a", 0, transaction="t"), outcome=None), {})
    assert facts.transactions["t"].outcome is Outcome.ABORTED


def test_the_log_knows_what_a_producer_was_not_told() -> None:
    events = transaction("t", *written("a", 0, transaction="t"), outcome=Outcome.UNKNOWN)
    assert Facts(events, {}).outcome_of(Facts(events, {}).sent["a"]) is Outcome.UNKNOWN
    logs = committed_logs(
        [replica(batch(0, "a", producer_id=1, is_transactional=True), marker(1, 1))]
    )
    facts = Facts(events, logs)
    assert facts.outcome_of(facts.sent["a"]) is Outcome.COMMITTED
    assert facts.is_visible(P0, 0, is_read_committed=True)


def test_what_became_of_a_record_without_a_transaction() -> None:
    events = [*written("a", 0), Send("p", "b", P0), SendFailed("p", "b"), Send("p", "c", P0)]
    facts = Facts([*events, SendUnknown("p", "c")], {})
    assert [facts.outcome_of(facts.sent[value]) for value in "abc"] == [
        Outcome.COMMITTED,
        Outcome.ABORTED,
        Outcome.UNKNOWN,
    ]


def test_an_aborted_record_is_visible_to_those_who_read_everything() -> None:
    events = transaction("t", *written("a", 0, transaction="t"), outcome=Outcome.ABORTED)
    facts = Facts(events, {})
    assert facts.is_visible(P0, 0, is_read_committed=False)
    assert not facts.is_visible(P0, 0, is_read_committed=True)
    assert not facts.is_visible(P0, 1, is_read_committed=False)
