from __future__ import annotations

import pytest

from ottla.coordinators.transactions.state import (
    ALLOWED_PREVIOUS,
    NEVER_SHOWN,
    STATES_BY_TEXT,
    TransactionState,
)

# As Apache Kafka 4.3 has them.
KAFKAS = {
    "Empty": (0, {"Empty", "CompleteCommit", "CompleteAbort"}),
    "Ongoing": (1, {"Ongoing", "Empty", "CompleteCommit", "CompleteAbort"}),
    "PrepareCommit": (2, {"Ongoing"}),
    "PrepareAbort": (3, {"Ongoing", "Empty", "CompleteCommit", "CompleteAbort"}),
    "CompleteCommit": (4, {"PrepareCommit"}),
    "CompleteAbort": (5, {"PrepareAbort"}),
}


@pytest.mark.parametrize("text", KAFKAS)
def test_numbers_names_and_ways_are_those_of_kafka(text: str) -> None:
    number, previous = KAFKAS[text]
    state = TransactionState(number)
    assert state.text == text
    assert STATES_BY_TEXT[text] is state
    assert {each.text for each in ALLOWED_PREVIOUS[state]} == previous


def test_a_prepared_transaction_has_one_way() -> None:
    """Whatever crashes: nothing else may follow."""
    for state in TransactionState:
        after = {each for each in TransactionState if state in ALLOWED_PREVIOUS[each]}
        assert (len(after) == 1) == state.is_prepared


def test_what_is_open_or_decided_does_not_expire() -> None:
    assert {state.text for state in TransactionState if state.is_idle} == {
        "Empty",
        "CompleteCommit",
        "CompleteAbort",
    }


def test_states_that_are_never_shown_are_not_among_those_that_are() -> None:
    assert not NEVER_SHOWN & STATES_BY_TEXT.keys()
