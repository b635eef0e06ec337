from __future__ import annotations

import pytest

from ottla.controller.topic_names import (
    NAME_LENGTH_MAX,
    TopicNames,
    check_not_reserved,
    check_topic_name,
)
from ottla.kernel.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["t", "A-z_0.9", "...", "_", "x" * NAME_LENGTH_MAX])
def test_good_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the empty string is not allowed"),
        (".", "' is not allowed"),
        ("..", "' is not allowed"),
        ("x" * (NAME_LENGTH_MAX + 1), "longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters"),
        ("a/b", "contains one or more characters"),
        ("t\n", "contains one or more characters"),
        ("täglich", "contains one or more characters"),
        ("t\0", "contains one or more characters"),
    ],
)
def test_bad_names_say_what_is_wrong(name: str, problem: str) -> None:
    with pytest.raises(KafkaError, match=problem) as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_kafkas_own_metadata_keeps_its_name() -> None:
    with pytest.raises(KafkaError, match="__cluster_metadata") as caught:
        check_not_reserved("__cluster_metadata")
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    check_not_reserved("__consumer_offsets")


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize(("name", "other"), [("a.b", "a_b"), ("a_b", "a.b"), ("a._", "a_.")])
def test_names_that_metrics_cannot_tell_apart_are_refused(
    name: str, other: str, is_new: bool
) -> None:
    names = TopicNames(["x"] if is_new else ["x", other])
    names.check_free("other_one")
    if is_new:
        names.add(other)
    with pytest.raises(KafkaError, match=f"collides with existing topic: {other}") as caught:
        names.check_free(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["ab", "a-b", "a.b.c"])
def test_names_that_differ_otherwise_are_fine(name: str) -> None:
    names = TopicNames(["a.b", "a-c"])
    names.check_free(name)
    names.add(name)
    with pytest.raises(KafkaError) as caught:
        names.check_free(name)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
