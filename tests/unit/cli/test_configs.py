"""`ottla configs`. tests/compat tries it on brokers."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from ottla.cli.configs import alter_entity, check_entity, described_configs, readable_configs
from ottla.cli.errors import Failure
from ottla.cli.main import main


def future_of(result: object) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


class FakeAdmin:
    def __init__(self, result: object, described: object = None) -> None:
        self.result = result
        self.described = described
        self.altered: list[ConfigResource] = []

    def describe_configs(self, resources: list[ConfigResource], **_: Any) -> dict[Any, Future[Any]]:
        described = self.result if self.described is None else self.described
        return {resource: future_of(described) for resource in resources}

    def incremental_alter_configs(
        self, resources: list[ConfigResource], **_: Any
    ) -> dict[Any, Future[Any]]:
        self.altered += resources
        return {resource: future_of(self.result) for resource in resources}

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(brokers={2: object(), 1: object()})


def test_settings_come_sorted_with_their_source() -> None:
    entries = {
        "b": ConfigEntry("b", "2", source=ConfigSource.DEFAULT_CONFIG),
        "a": ConfigEntry("a", None, source=ConfigSource.STATIC_BROKER_CONFIG, is_sensitive=True),
    }
    admin: Any = FakeAdmin(entries)

    described = described_configs(admin, "broker", ["1"])

    assert list(described["1"].values()) == [
        {
            "name": "a",
            "value": None,
            "source": "static broker",
            "read_only": False,
            "sensitive": True,
        },
        {"name": "b", "value": "2", "source": "default", "read_only": False, "sensitive": False},
    ]


def test_what_cannot_be_read_fails_or_is_left_out() -> None:
    refusal = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"))
    admin: Any = FakeAdmin(refusal)

    with pytest.raises(Failure, match=r"could not read the settings of topic t: .*no such topic"):
        described_configs(admin, "topic", ["t"])
    assert readable_configs(admin, "topic", ["t"]) == {}


def test_changes_are_incremental() -> None:
    admin = FakeAdmin(None)
    untyped: Any = admin

    alter_entity(untyped, "topic", "t", [(AlterConfigOpType.APPEND, "cleanup.policy", "compact")])

    (entry,) = admin.altered[0].incremental_configs
    assert (entry.name, entry.value) == ("cleanup.policy", "compact")
    assert entry.incremental_operation == AlterConfigOpType.APPEND


def test_a_refusal_names_the_entity() -> None:
    refusal = KafkaException(KafkaError(KafkaError.INVALID_CONFIG, "no such thing"))
    admin: Any = FakeAdmin(refusal, described={})

    with pytest.raises(
        Failure, match=r"could not alter topic t: no such thing \(INVALID_CONFIG\)$"
    ):
        alter_entity(admin, "topic", "t", [(AlterConfigOpType.DELETE, "x", None)])


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        ("Unknown topic config name: retenton.ms", r"CONFIG\); did you mean 'retention.ms'\?$"),
        ("Unknown: retenton.ms. Did you mean retention.ms?", r"retention.ms\? \(INVALID_CONFIG\)$"),
    ],
    ids=["Apache Kafka", "Ottla"],
)
def test_a_setting_that_is_not_known_is_asked_for_once(reason: str, ending: str) -> None:
    refusal = KafkaException(KafkaError(KafkaError.INVALID_CONFIG, reason))
    entry = ConfigEntry("retention.ms", "5", source=ConfigSource.DEFAULT_CONFIG)
    admin: Any = FakeAdmin(refusal, described={"retention.ms": entry})

    with pytest.raises(Failure, match=ending):
        alter_entity(admin, "topic", "t", [(AlterConfigOpType.SET, "retenton.ms", "5")])


def test_an_unknown_broker_is_said_at_once() -> None:
    admin: Any = FakeAdmin(None)
    check_entity(admin, "broker", "2")

    with pytest.raises(Failure, match="no broker 7; the cluster has 1, 2"):
        check_entity(admin, "broker", "7")


def test_a_group_may_have_settings_before_it_has_members() -> None:
    admin: Any = FakeAdmin(None)
    check_entity(admin, "group", "not there yet")


def test_altering_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs", "alter", "topic", "t"]) == 2
    assert "nothing to alter" in capsys.readouterr().err
