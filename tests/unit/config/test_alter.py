from __future__ import annotations

import pytest

from ottla.config.alter import (
    AlterOperation,
    ConfigChange,
    RelevantChanges,
    alter_broker,
    alter_group,
    alter_topic,
    replace_broker,
    replace_group,
    replace_topic,
)
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TOPIC_SETTINGS
from ottla.kernel.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = AlterOperation

BROKER = BrokerConfig()


def topic(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    return alter_topic(current, [ConfigChange(*change) for change in changes], BROKER)


def broker(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    made = [ConfigChange(*change) for change in changes]
    return alter_broker(current, made, BROKER, per_broker=True)


def test_set_and_delete_leave_the_rest_alone() -> None:
    before = {"retention.ms": "1", "flush.ms": "2"}
    after = topic(before, ("retention.ms", SET, "5"), ("flush.ms", DELETE, None))
    assert after == {"retention.ms": "5"}
    assert before == {"retention.ms": "1", "flush.ms": "2"}


def test_deleting_what_is_not_there_is_fine() -> None:
    assert topic({}, ("retention.ms", DELETE, ""), ("foo", DELETE, "")) == {}


@pytest.mark.parametrize(
    ("current", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "compact", "compact"),
        ("compact", APPEND, "delete, compact", "compact,delete, compact"),
        ("compact", APPEND, "delete,", "compact,delete"),
        ("compact", APPEND, ",", "compact"),
        ("compact,delete", SUBTRACT, " delete", "compact,delete"),
        ("", APPEND, "compact", "compact"),
        (None, SUBTRACT, "delete", ""),
        ("delete,compact", SUBTRACT, "delete", "compact"),
        ("delete,compact", SUBTRACT, "delete,compact", ""),
        ("delete", SUBTRACT, "foo", "delete"),
    ],
)
def test_lists_grow_and_shrink(current: str | None, operation: int, value: str, after: str) -> None:
    before = {} if current is None else {"cleanup.policy": current}
    assert topic(before, ("cleanup.policy", operation, value)) == {"cleanup.policy": after}


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ([("retention.ms", APPEND, "5")], 40, "Can't APPEND to key retention.ms"),
        ([("retention.ms", SUBTRACT, "5")], 40, "Can't SUBTRACT to key retention.ms"),
        ([("foo", APPEND, "5")], 40, "Can't APPEND to key foo"),
        ([("foo", SET, "5")], 40, "Unknown topic config name: foo"),
        ([("cleanup.policy", APPEND, "x")], 40, "one of: compact, delete"),
        ([("retention.ms", SET, "abc")], 40, "Not a number of type LONG"),
        ([("retention.ms", SET, None), ("flush.ms", APPEND, None)], 42, "retention.ms, flush.ms"),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], 42, "duplicate config keys"),
        ([("retention.ms", 4, "5")], 42, "Unknown operations type 4"),
        ([("retention.ms", -1, "5")], 42, "Unknown operations type -1"),
        ([("remote.storage.enable", SET, "true")], 40, "tiered storage"),
    ],
)
def test_a_topics_bad_change_is_refused_with_kafkas_code(
    changes: list[tuple[str, int, str | None]], code: int, reason: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        topic({}, *changes)
    assert refused.value.code is ErrorCode(code)
    assert reason in str(refused.value)


def test_a_change_must_fit_what_is_already_set() -> None:
    with pytest.raises(KafkaError, match="conflict"):
        topic({"min.compaction.lag.ms": "10"}, ("max.compaction.lag.ms", SET, "5"))


def test_a_brokers_lists_grow_and_shrink() -> None:
    grown = broker({}, ("log.cleanup.policy", APPEND, "compact"))
    assert grown == {"log.cleanup.policy": "delete,compact"}
    assert broker(grown, ("log.cleanup.policy", SUBTRACT, "delete")) == {
        "log.cleanup.policy": "compact"
    }


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ([("message.max.bytes", APPEND, "5")], 40, "append is not allowed"),
        ([("message.max.bytes", SUBTRACT, "5")], 40, "subtract is not allowed"),
        ([("foo", APPEND, "5")], 40, "Unknown broker config name: foo"),
        ([("broker.id", SET, "5")], 42, "Cannot update these configs dynamically"),
        ([("log.retention.ms", SET, None)], 42, "Null value not supported for : log.retention.ms"),
        ([("log.retention.ms", SET, "abc")], 42, "Not a number of type LONG"),
    ],
)
def test_a_brokers_bad_change_is_refused_with_kafkas_code(
    changes: list[tuple[str, int, str | None]], code: int, reason: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        broker({}, *changes)
    assert refused.value.code is ErrorCode(code)
    assert reason in str(refused.value)


def test_deleting_a_read_only_setting_of_a_broker_is_fine() -> None:
    assert broker({}, ("broker.id", DELETE, None), ("foo", DELETE, None)) == {}


def test_the_older_request_says_everything() -> None:
    assert replace_topic([("retention.ms", "5")], BROKER) == {"retention.ms": "5"}
    assert replace_broker([("log.retention.ms", "5")], BROKER, per_broker=False) == {
        "log.retention.ms": "5"
    }


def test_the_older_request_is_checked_as_well() -> None:
    with pytest.raises(KafkaError, match="Null value"):
        replace_topic([("retention.ms", None)], BROKER)
    with pytest.raises(KafkaError, match="duplicate"):
        replace_topic([("retention.ms", "1"), ("retention.ms", "2")], BROKER)
    with pytest.raises(KafkaError, match="Cannot update"):
        replace_broker([("broker.id", "5")], BROKER, per_broker=True)


SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_is_altered_and_replaced() -> None:
    altered = alter_group({SESSION: "50000"}, [ConfigChange(BEAT, SET, "6000")], BROKER)
    assert altered == {SESSION: "50000", BEAT: "6000"}
    gone = [ConfigChange("foo", DELETE, None), ConfigChange(SESSION, DELETE, None)]
    assert alter_group({**altered, "foo": "1"}, gone, BROKER) == {BEAT: "6000"}
    assert replace_group([(SESSION, "55000")], BROKER) == {SESSION: "55000"}


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        (SESSION, SET, "1", ErrorCode.INVALID_CONFIG),
        (SESSION, APPEND, "50000", ErrorCode.INVALID_CONFIG),
        (SESSION, SET, None, ErrorCode.INVALID_REQUEST),
        ("foo", SET, "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_group_refuses(name: str, operation: int, value: str | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        alter_group({}, [ConfigChange(name, operation, value)], BROKER)
    assert caught.value.code is code


def test_of_many_changes_those_that_make_a_difference_are_planned_with() -> None:
    changes = RelevantChanges()
    for number in range(1000):
        changes.take(ConfigChange(f"deleted-{number}", DELETE, None), TOPIC_SETTINGS)
    changes.take(ConfigChange("retention.ms", SET, "5"), TOPIC_SETTINGS)
    current = {"deleted-7": "x", "flush.ms": "2"}
    assert changes.of(current) == [
        ConfigChange("deleted-7", DELETE, None),
        ConfigChange("retention.ms", SET, "5"),
    ]
    assert alter_topic(current, changes.of(current), BROKER) == {
        "flush.ms": "2",
        "retention.ms": "5",
    }


def test_of_many_unknown_settings_the_first_is_refused() -> None:
    changes = RelevantChanges()
    for name in ("retention.ms", "foo", "bar"):
        changes.take(ConfigChange(name, SET, "5"), TOPIC_SETTINGS)
    with pytest.raises(KafkaError, match="foo"):
        alter_topic({}, changes.of({}), BROKER)
    with pytest.raises(KafkaError, match="foo"):
        replace_topic(changes.set(), BROKER)
