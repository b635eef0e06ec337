"""Names and regular expressions of topics."""

from __future__ import annotations

from typing import Any

import click
import pytest

from ottla.cli.consume.chosen_topics import ChosenTopics
from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition
from tests.unit.cli.consume.fakes import FakeConsumer


def found(texts: list[str], topics: dict[str, int], *partitions: int) -> list[Partition]:
    consumer: Any = FakeConsumer(topics={**topics, "__consumer_offsets": 1})
    return ChosenTopics(texts, partitions).find(consumer)


def test_names() -> None:
    assert found(["b", "a", "b"], {"a": 1, "b": 2, "c": 1}) == [("b", 0), ("b", 1), ("a", 0)]
    assert found(["b"], {"b": 2}, 1) == [("b", 1)]


def test_expressions_match_from_the_start_of_a_name_and_leave_internal_topics_alone() -> None:
    topics = {"logs-a": 1, "logs-b": 1, "old-logs-a": 1}

    assert found(["^logs-"], topics) == [("logs-a", 0), ("logs-b", 0)]
    assert found(["^logs-.$", "old-logs-a"], topics)[0] == ("old-logs-a", 0)
    assert len(found(["^.*"], topics)) == 3
    assert found(["^x"], topics) == []


def test_an_expression_that_begins_as_internal_topics_do_means_them() -> None:
    assert found(["^__consumer"], {}) == [("__consumer_offsets", 0)]
    assert ChosenTopics(["^__consumer"]).ignored_by_patterns == ""
    assert ChosenTopics(["^.*"]).ignored_by_patterns == "^__"
    assert ChosenTopics(["^.*", "__consumer_offsets"]).ignored_by_patterns == ""


def test_of_topics_that_match_only_those_with_the_partition_are_read() -> None:
    assert found(["^logs"], {"logs-a": 1, "logs-b": 2}, 1) == [("logs-b", 1)]


def test_what_is_named_must_be_there() -> None:
    with pytest.raises(Failure, match=r"no topic 'clik'; did you mean 'clicks'\?"):
        found(["clik"], {"clicks": 1})
    with pytest.raises(Failure, match="clicks has partitions 0 to 1 only, no 2"):
        found(["clicks"], {"clicks": 2}, 2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("logs-.*", r"a regular expression begins with \^, such as '\^logs-"),
        ("a b", "is not a topic name"),
        ("^logs-(", "is not a regular expression: missing"),
    ],
)
def test_what_is_neither_is_a_usage_error(text: str, complaint: str) -> None:
    with pytest.raises(click.BadParameter, match=complaint):
        ChosenTopics([text])


def test_in_a_sentence() -> None:
    assert str(ChosenTopics(["a"])) == "a"
    assert str(ChosenTopics(["a", "b", "^c"])) == "a, b and ^c"
    assert (ChosenTopics(["a"]).is_single, ChosenTopics(["^a"]).is_single) == (True, False)
