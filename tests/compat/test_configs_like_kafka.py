"""Ottla and Apache Kafka side by side: the same settings, the same answers."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from ottla.config.broker import DIFFERS
from tests.support.ottla_process import OttlaProcess
from tests.support.raw_client import RawClient
from tests.support.side_by_side import settle
from tools.apache_kafka import ApacheKafkaBroker

TOPIC = "configs-like-kafka"
OVERRIDES = {"retention.ms": "1000000", "cleanup.policy": "compact, delete", "preallocate": "TRUE"}
TIMEOUT_S = 30

SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE
APPEND, SUBTRACT = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT

TOPIC_CHANGES = [
    ("cleanup.policy", APPEND, "compact"),
    ("cleanup.policy", SUBTRACT, "compact"),
    ("cleanup.policy", SUBTRACT, "nothing"),
    ("cleanup.policy", APPEND, "x"),
    ("cleanup.policy", SET, ""),
    ("cleanup.policy", DELETE, ""),
    ("retention.ms", APPEND, "5"),
    ("retention.ms", SET, "abc"),
    ("retention.ms", SET, "-2"),
    ("retention.ms", SET, " 5000 "),
    ("segment.bytes", SET, "1048575"),
    ("segment.bytes", SET, "1048576"),
    ("min.cleanable.dirty.ratio", SET, "1.5"),
    ("min.cleanable.dirty.ratio", SET, "0.25"),
    ("remote.storage.enable", SET, "true"),
    ("message.format.version", SET, "2.0"),
    ("no.such.setting", SET, "1"),
    ("no.such.setting", DELETE, ""),
]

BROKER_CHANGES = [
    ("broker.id", SET, "2"),
    ("log.retention.hours", SET, "2"),
    ("log.retention.ms", SET, "abc"),
    ("log.retention.ms", SET, "0"),
    ("log.retention.ms", SET, "7200000"),
    ("log.segment.bytes", SET, "5"),
    ("message.max.bytes", APPEND, "5"),
    ("message.max.bytes", SET, "2000000"),
    ("log.cleanup.policy", APPEND, "compact"),
    ("log.cleanup.policy", SUBTRACT, "delete"),
    ("ssl.keystore.location", SET, "a"),
    ("leader.replication.throttled.rate", SET, "-1"),
    ("leader.replication.throttled.rate", SET, "1000"),
    ("max.connections.per.ip", SET, "5"),
]


class Subject:
    """One of the two brokers, through a client."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._bootstrap = bootstrap
        (self.broker_id,) = map(str, self.admin.list_topics(timeout=TIMEOUT_S).brokers)

    def create_topic(self, name: str, config: dict[str, str]) -> None:
        topic = NewTopic(name, num_partitions=1, replication_factor=1, config=config)
        self.admin.create_topics([topic])[name].result(TIMEOUT_S)

    def describe(self, kind: str, name: str) -> dict[str, Any]:
        with RawClient(self._bootstrap) as client:
            settle(client)
        resource = ConfigResource(kind, name)
        found: dict[str, Any] = self.admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return found

    def alter(self, kind: str, name: str, setting: str, operation: Any, value: str) -> str:
        """The error's name, or nothing."""
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        try:
            self.admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
        except KafkaException as error:
            return str(error.args[0].name())
        return ""


@pytest.fixture
def both(broker: OttlaProcess, apache_kafka: ApacheKafkaBroker) -> tuple[Subject, Subject]:
    return Subject(broker.bootstrap), Subject(apache_kafka.bootstrap)


def shown(entry: Any) -> dict[str, Any]:
    return {
        "value": entry.value,
        "source": entry.source,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "synonyms": [(s.name, s.value, s.source) for s in entry.synonyms.values()],
    }


def shown_topic(subject: Subject, topic: str) -> dict[str, Any]:
    described = {name: shown(entry) for name, entry in subject.describe("topic", topic).items()}
    # In KRaft with eligible leader replicas this one is always a setting of the cluster.
    described["min.insync.replicas"].pop("source")
    return described


def test_a_topic_is_described_alike(both: tuple[Subject, Subject]) -> None:
    for subject in both:
        subject.create_topic(TOPIC, OVERRIDES)
    ottla, kafka = (shown_topic(subject, TOPIC) for subject in both)
    assert ottla == kafka


def test_a_topics_settings_change_alike(both: tuple[Subject, Subject]) -> None:
    topic = f"{TOPIC}-altered"
    for subject in both:
        subject.create_topic(topic, {})
    for change in TOPIC_CHANGES:
        ottla, kafka = (subject.alter("topic", topic, *change) for subject in both)
        assert ottla == kafka, change
    ottla_topic, kafka_topic = (shown_topic(subject, topic) for subject in both)
    assert ottla_topic == kafka_topic


def test_a_broker_is_described_alike(both: tuple[Subject, Subject]) -> None:
    ottla, kafka = (subject.describe("broker", subject.broker_id) for subject in both)
    different = {name.strip() for row in DIFFERS for name in row.name.split(",")}
    compared = 0
    for name in ottla.keys() & kafka.keys() - different:
        assert ottla[name].is_read_only == kafka[name].is_read_only, name
        assert ottla[name].is_sensitive == kafka[name].is_sensitive, name
        if ottla[name].is_default and kafka[name].is_default:
            assert ottla[name].value == kafka[name].value, name
            compared += 1
    assert compared > 100


def test_a_brokers_settings_change_alike(both: tuple[Subject, Subject]) -> None:
    changed = {setting for setting, _, _ in BROKER_CHANGES}
    try:
        for change in BROKER_CHANGES:
            ottla, kafka = (subject.alter("broker", subject.broker_id, *change) for subject in both)
            assert ottla == kafka, change
        ottla_broker, kafka_broker = (
            subject.describe("broker", subject.broker_id) for subject in both
        )
        for name in ("log.retention.ms", "message.max.bytes", "log.cleanup.policy"):
            assert shown(ottla_broker[name]) == shown(kafka_broker[name])
    finally:
        # Apache Kafka is shared with other tests.
        for setting in changed:
            both[1].alter("broker", both[1].broker_id, setting, DELETE, "")
