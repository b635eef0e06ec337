from __future__ import annotations

from ottla.coordinators.groups.consumer.subscription import metadata_hash
from ottla.kernel.slices import at_once
from tests.support.consumer_groups import Topics


def test_the_hash_changes_with_the_topics_that_are_read() -> None:
    topics = Topics({"a": 1, "b": 2})
    before = at_once(metadata_hash(["a", "b"], topics))
    assert at_once(metadata_hash(["b", "a"], topics)) == before
    assert at_once(metadata_hash(["a", "b", "missing"], topics)) == before

    topics.put("other", 1)
    assert at_once(metadata_hash(["a", "b"], topics)) == before

    topics.put("b", 3)
    grown = at_once(metadata_hash(["a", "b"], topics))
    assert grown != before

    topics.remove("b")
    topics.put("b", 3)
    assert at_once(metadata_hash(["a", "b"], topics)) != grown


def test_nothing_to_read_hashes_to_zero() -> None:
    assert at_once(metadata_hash(["missing"], Topics({}))) == 0
