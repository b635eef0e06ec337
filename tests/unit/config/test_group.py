from __future__ import annotations

import pytest

from ottla.config.broker import BROKER_SETTINGS, BrokerConfig
from ottla.config.group import GROUP_SETTINGS, GroupConfig, validate_group
from ottla.kernel.errors import ErrorCode, KafkaError

SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_without_settings_has_those_of_the_broker() -> None:
    broker = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})
    resolved = GroupConfig.resolve({}, broker)
    assert resolved == GroupConfig(consumer_session_timeout_ms=50_000)
    assert resolved is broker.group_defaults


def test_its_own_settings_come_first() -> None:
    resolved = GroupConfig.resolve({SESSION: " 60000 "}, BrokerConfig())
    assert resolved.consumer_session_timeout_ms == 60_000
    assert resolved.consumer_heartbeat_interval_ms == 5000


@pytest.mark.parametrize(("value", "effective"), [("45000", 50_000), ("60000", 55_000)])
def test_limits_that_came_later_hold_for_what_was_set_before(value: str, effective: int) -> None:
    broker = BrokerConfig(
        {
            "group.consumer.min.session.timeout.ms": "50000",
            "group.consumer.session.timeout.ms": "52000",
            "group.consumer.max.session.timeout.ms": "55000",
        }
    )
    resolved = GroupConfig.resolve({SESSION: value}, broker)
    assert resolved.consumer_session_timeout_ms == effective


def test_what_another_version_stored_is_passed_over() -> None:
    assert GroupConfig.resolve({"share.session.timeout.ms": "1"}, BrokerConfig()) == GroupConfig()


@pytest.mark.parametrize("name", GROUP_SETTINGS)
def test_each_has_a_broker_setting_of_the_same_type_and_default(name: str) -> None:
    own, of_broker = GROUP_SETTINGS[name], BROKER_SETTINGS[GROUP_SETTINGS[name].synonyms[0]]
    assert (own.type, own.default, str(own.validator)) == (
        of_broker.type,
        of_broker.default,
        str(of_broker.validator),
    )


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({SESSION: "44999"}, "at least group.consumer.min.session.timeout.ms, which is 45000"),
        ({SESSION: "60001"}, "at most group.consumer.max.session.timeout.ms, which is 60000"),
        ({BEAT: "4999"}, "at least group.consumer.min.heartbeat.interval.ms"),
        ({"consumer.assignment.interval.ms": "15001"}, "at most group.consumer.max.assignment"),
        ({SESSION: "soon"}, "Not a number of type INT"),
        ({"consumer.session.timeout": "45000"}, f"Did you mean {SESSION}"),
        ({"share.session.timeout.ms": "45000"}, "Unknown group config name"),
    ],
)
def test_what_a_group_may_not_have(overrides: dict[str, str], why: str) -> None:
    with pytest.raises(KafkaError, match=why) as caught:
        validate_group(overrides, BrokerConfig())
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_session_is_longer_than_the_time_between_heartbeats() -> None:
    broker = BrokerConfig({"group.consumer.min.session.timeout.ms": "6000"})
    validate_group({SESSION: "6001", BEAT: "6000"}, broker)
    with pytest.raises(KafkaError, match=f"must be more than {BEAT}"):
        validate_group({SESSION: "6000", BEAT: "6000"}, broker)
