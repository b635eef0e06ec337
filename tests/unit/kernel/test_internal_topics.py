from __future__ import annotations

from ottla.kernel.internal_topics import is_internal


def test_only_kafkas_own_topics_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    # As in Kafka, a name that only looks like one is a user's.
    assert not is_internal("__mine")
    assert not is_internal("consumer_offsets")
