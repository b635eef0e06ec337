from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.broker_validation import parse_connection_overrides
from ottla.config.definition import InvalidSetting


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"log.roll.ms": "0"}, "log.roll.ms"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms"),
        ({"log.retention.ms": "0"}, "log.retention.ms"),
        ({"log.retention.hours": "0"}, "log.retention.ms"),
        ({"log.cleaner.dedupe.buffer.size": "5"}, "log.cleaner.dedupe.buffer.size"),
        ({"log.cleaner.threads": "999"}, "log.cleaner.dedupe.buffer.size"),
        ({"replica.fetch.wait.max.ms": "30001"}, "replica.fetch.wait.max.ms"),
        ({"replica.lag.time.max.ms": "499"}, "replica.fetch.wait.max.ms"),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip"),
        ({"max.connections.per.ip.overrides": "a"}, "max.connections.per.ip.overrides"),
        ({"connections.max.idle.ms": "50"}, "connections.max.idle.ms"),
        (
            {"group.consumer.min.session.timeout.ms": "70000"},
            "group.consumer.min.session.timeout.ms",
        ),
        ({"group.consumer.session.timeout.ms": "70000"}, "group.consumer.session.timeout.ms"),
        ({"group.consumer.heartbeat.interval.ms": "4000"}, "group.consumer.heartbeat.interval.ms"),
        (
            {
                "group.consumer.heartbeat.interval.ms": "50000",
                "group.consumer.max.heartbeat.interval.ms": "50000",
            },
            "group.consumer.heartbeat.interval.ms",
        ),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "group.coordinator.rebalance.protocols",
        ),
        ({"offsets.topic.compression.codec": "9"}, "offsets.topic.compression.codec"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_as_in_kafka(
    settings: dict[str, str], name: str
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        BrokerConfig(settings)
    assert refused.value.name == name


@pytest.mark.parametrize(
    "settings",
    [
        {"log.retention.ms": "-5"},
        {"queued.max.request.bytes": "-1"},
        {"queued.max.request.bytes": "104857600"},
        {"connections.max.idle.ms": "-1"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
        {"replica.selector.class": "org.apache.kafka.common.replica.LeaderSelector"},
    ],
)
def test_what_kafka_accepts_is_accepted(settings: dict[str, str]) -> None:
    assert BrokerConfig(settings).static == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("alter.config.policy.class.name", "com.example.Policy"),
        ("client.quota.callback.class", "com.example.Callback"),
        ("remote.log.storage.system.enable", "true"),
        ("control.plane.listener.name", "CONTROLLER"),
        ("zookeeper.metadata.migration.enable", "true"),
        ("zookeeper.set.acl", "true"),
        ("zookeeper.ssl.client.enable", "true"),
        ("controller.quorum.voters", "1@a:9093,2@b:9093,3@c:9093"),
        ("controller.quorum.bootstrap.servers", "a:9093,b:9093"),
        ("process.roles", "controller"),
        ("replica.selector.class", "com.example.NearestReplicaSelector"),
    ],
)
def test_what_would_be_a_broken_promise_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        BrokerConfig({name: value})
    assert refused.value.name == name


def test_refused_settings_may_say_no() -> None:
    settings = {"authorizer.class.name": "", "remote.log.storage.system.enable": "false"}
    assert BrokerConfig(settings).static == settings


@pytest.mark.parametrize(
    "connect",
    [
        *("localhost:2181", "localhost", "a:1, b:2,c:65535/kafka/one", "[::1]:2181/x"),
    ],
)
def test_addresses_of_zookeeper(connect: str) -> None:
    assert BrokerConfig({"zookeeper.connect": connect}).zookeeper_connect == connect


@pytest.mark.parametrize(
    ("connect", "why"),
    [
        ("", "must be HOST:PORT"),
        ("/kafka", "must be HOST:PORT"),
        ("a:1,,b:2", "must be HOST:PORT"),
        ("a:x", "must be HOST:PORT"),
        ("a:0", "must be HOST:PORT"),
        ("a:65536", "must be HOST:PORT"),
        ("[::1]:x", "must be HOST:PORT"),
        ("a:1/", "no path of ZooKeeper"),
        ("a:1//x", "no path of ZooKeeper"),
        ("a:1/x/", "no path of ZooKeeper"),
    ],
)
def test_bad_addresses_of_zookeeper(connect: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as refused:
        BrokerConfig({"zookeeper.connect": connect})
    assert refused.value.name == "zookeeper.connect"


def test_a_cluster_has_one_store() -> None:
    with pytest.raises(InvalidSetting, match="one store"):
        BrokerConfig({"zookeeper.connect": "a:1", "ottla.coordination.file": "f"})


def test_limits_of_single_hosts() -> None:
    found = parse_connection_overrides("127.0.0.1:5, ::1:7,example.org:0")
    assert found == {"127.0.0.1": 5, "::1": 7, "example.org": 0}
