from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.resources import (
    ResourceType,
    broker_of,
    broker_to_change,
    check_group,
    check_topic,
    resource_type,
)

SERVICES = cast(
    "Any",
    SimpleNamespace(
        broker_id=7, image=SimpleNamespace(topics={"t": None}, brokers={7: None, 9: None})
    ),
)


def test_what_has_settings() -> None:
    assert resource_type(2) is ResourceType.TOPIC
    assert resource_type(4) is ResourceType.BROKER
    assert resource_type(16) is ResourceType.CLIENT_METRICS
    assert resource_type(32) is ResourceType.GROUP


@pytest.mark.parametrize("code", [0, 1, ResourceType.BROKER_LOGGER, 64, -1])
def test_nothing_else_has(code: int) -> None:
    with pytest.raises(KafkaError, match=f"Unknown resource type {int(code)}: topics") as caught:
        resource_type(code)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_topic_must_be_there_and_a_name_be_one() -> None:
    check_topic(SERVICES, "t")
    for name, code in (
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ):
        with pytest.raises(KafkaError) as caught:
            check_topic(SERVICES, name)
        assert caught.value.code is code


def test_a_group_has_some_name() -> None:
    check_group("a/b c")
    with pytest.raises(KafkaError) as caught:
        check_group("")
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_broker_is_this_one_or_all() -> None:
    assert broker_of(SERVICES, "7") == 7
    assert broker_of(SERVICES, "") is None


@pytest.mark.parametrize("name", ["8", "07", "seven"])
def test_another_broker_is_refused(name: str) -> None:
    with pytest.raises(KafkaError, match="roker id") as caught:
        broker_of(SERVICES, name)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_the_controller_changes_any_broker_that_is_there() -> None:
    assert broker_to_change(SERVICES, "7") == 7
    assert broker_to_change(SERVICES, "9") == 9
    assert broker_to_change(SERVICES, "") is None
    for name in ("8", "09", "-9", "nine"):
        with pytest.raises(KafkaError):
            broker_to_change(SERVICES, name)
