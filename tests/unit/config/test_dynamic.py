from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import usable_dynamic, validate_dynamic
from ottla.kernel.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("settings", "per_broker", "reason"),
    [
        ({"broker.id": "2"}, True, r"Cannot update these configs dynamically: \[broker.id\]"),
        ({"log.retention.hours": "2"}, True, "Cannot update these configs dynamically"),
        ({"listeners": "PLAINTEXT://:1"}, True, "Cannot update these configs dynamically"),
        ({"log.retention.ms": "abc"}, True, "Not a number of type LONG"),
        ({"log.retention.ms": "0"}, True, "log.retention.ms"),
        ({"log.segment.bytes": "5"}, False, "at least 1048576"),
        ({"ssl.keystore.location": "a"}, True, "only per-listener"),
        ({"listener.name.in.ssl.keystore.location": "a"}, False, "broker id must be specified"),
        ({"cordoned.log.dirs": "a"}, False, "broker id must be specified"),
        ({"leader.replication.throttled.rate": "-1"}, True, "at least 0"),
        ({"log.retention.m": "5"}, True, "Did you mean log.retention.ms"),
    ],
)
def test_what_cannot_change_is_an_invalid_request(
    settings: dict[str, str], per_broker: bool, reason: str
) -> None:
    with pytest.raises(KafkaError, match=reason) as refused:
        validate_dynamic(settings, BrokerConfig(), per_broker=per_broker)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_no_broker_has_min_insync_replicas_of_its_own() -> None:
    """Whom the controller takes for eligible it judges by the cluster's (KIP-966): a leader that
    commits with fewer would be followed by one that lacks records."""
    settings = {"min.insync.replicas": "1"}
    with pytest.raises(KafkaError, match="while ELR is enabled") as refused:
        validate_dynamic(settings, BrokerConfig(), per_broker=True)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert validate_dynamic(settings, BrokerConfig(), per_broker=False).dynamic_default == settings
    broker = BrokerConfig({"min.insync.replicas": "2"})
    assert usable_dynamic(settings, broker, per_broker=True)[0] == {}


def test_a_change_for_one_broker_or_for_all() -> None:
    broker = BrokerConfig().with_dynamic({"message.max.bytes": "3"}, {})
    cluster = validate_dynamic({"message.max.bytes": "2"}, broker, per_broker=False)
    assert cluster.message_max_bytes == 3
    assert cluster.dynamic_default == {"message.max.bytes": "2"}
    own = validate_dynamic({"message.max.bytes": "4"}, broker, per_broker=True)
    assert own.message_max_bytes == 4


def test_a_listeners_limit_may_be_set_for_the_whole_cluster() -> None:
    settings = {"listener.name.out.max.connections": "5"}
    assert validate_dynamic(settings, BrokerConfig(), per_broker=False).given


def test_stored_settings_that_cannot_be_used_do_not_stop_the_others() -> None:
    stored = {
        "from.the.future": "1",
        "log.retention.ms": "5",
        "broker.id": "3",
        "log.segment.bytes": "1",
    }
    usable, ignored = usable_dynamic(stored, BrokerConfig(), per_broker=True)
    assert usable == {"log.retention.ms": "5"}
    assert [entry.name for entry in ignored] == [
        "from.the.future",
        "broker.id",
        "log.segment.bytes",
    ]
    assert "at least 1048576" in ignored[2].why
