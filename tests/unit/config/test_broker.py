from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.config.broker import (
    BROKER_SETTINGS,
    DIFFERS,
    BrokerConfig,
    has_no_effect,
    known_setting,
)
from ottla.config.definition import InvalidSetting, UnknownSetting, value_text
from ottla.config.group import GROUP_SETTINGS
from ottla.config.listener import Listener
from ottla.config.topic import TOPIC_SETTINGS
from ottla.kernel.errors import ErrorCode, KafkaError

KAFKA: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "kafka_4_3_broker_configs.json").read_text()
)
DIFFERENT = {name.strip() for difference in DIFFERS for name in difference.name.split(",")}

# Of ZooKeeper's time (Kafka 3.9), and those that Kafka knows as dynamic settings only.
NOT_IN_KAFKAS_TABLE = {
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "follower.replication.throttled.rate",
    "leader.imbalance.per.broker.percentage",
    "leader.replication.throttled.rate",
    "ottla.coordination.file",
    "ottla.produce.check.records",
    "ottla.state.change.log",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests",
    "zookeeper.session.timeout.ms",
}


SOCKET_BUFFERS = ("socket.receive.buffer.bytes", "socket.send.buffer.bytes")


@pytest.mark.parametrize("name", KAFKA)
def test_every_setting_of_kafka_is_known_with_its_type_and_way_to_change(name: str) -> None:
    ours, kafkas = known_setting(name), KAFKA[name]
    assert ours.type.name == kafkas["type"]
    if name not in DIFFERENT:
        assert ours.change == kafkas["change"]


@pytest.mark.parametrize("name", BROKER_SETTINGS)
def test_every_default_is_kafkas_or_in_the_table_of_differences(name: str) -> None:
    if name in NOT_IN_KAFKAS_TABLE:
        assert name not in KAFKA
        return
    ours = value_text(BROKER_SETTINGS[name].default)
    kafkas = KAFKA[name]["default"]
    if name in ("node.id", "broker.id", "listeners", "log.dir") or name in SOCKET_BUFFERS:
        assert name in DIFFERENT
        assert ours != kafkas
    elif name == "group.initial.rebalance.delay.ms":
        assert (ours, kafkas) == ("0", "3000")
        assert name in DIFFERENT
    elif name == "controller.listener.names":
        assert (ours, kafkas) == ("", None)  # Kafka needs one, Ottla has no such listener.
    else:
        assert ours == kafkas
    assert BROKER_SETTINGS[name].internal == KAFKA[name]["internal"]


def numeric_limits() -> list[tuple[str, int, int | None]]:
    """Of "[LOW,...]" and "[LOW,...,HIGH]"."""
    found = []
    for name in sorted(BROKER_SETTINGS.keys() & KAFKA.keys()):
        limits = re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\]", KAFKA[name]["allowed"])
        if limits is not None:
            found.append((name, int(limits[1]), int(limits[2]) if limits[2] else None))
    return found


@pytest.mark.parametrize(("name", "low", "high"), numeric_limits())
def test_limits_are_kafkas(name: str, low: int, high: int | None) -> None:
    declared = BROKER_SETTINGS[name]
    assert declared.parse(str(low)) == low
    with pytest.raises(InvalidSetting, match=re.escape(name)):
        declared.parse(str(low - 1))
    if high is not None:
        assert declared.parse(str(high)) == high
        with pytest.raises(InvalidSetting, match=re.escape(name)):
            declared.parse(str(high + 1))


def test_a_broker_without_settings_listens_on_localhost_only() -> None:
    config = BrokerConfig()
    assert config.listeners == (Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092),)
    assert config.advertised_listeners == config.listeners
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.node_id == config.broker_id == 1
    assert config.log_dirs == ("ottla-data",)
    assert config.without_effect() == []


def test_kafkas_own_kraft_file_starts_a_broker() -> None:
    """The settings of config/server.properties as Apache Kafka 4.3 ships it."""
    config = BrokerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "log.dirs": "/tmp/kraft-combined-logs",
            "num.partitions": "3",
            "log.retention.hours": "168",
        }
    )
    assert config.listeners == (Listener("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092),)
    assert config.broker_id == 1
    assert config.num_partitions == 3
    assert {
        "controller.quorum.bootstrap.servers",
        "num.io.threads",
        "num.network.threads",
        "process.roles",
    } <= set(config.without_effect())


def test_several_named_listeners() -> None:
    config = BrokerConfig(
        {
            "listeners": "OUT://0.0.0.0:9092,IN://localhost:9093",
            "advertised.listeners": "OUT://example.org:19092,IN://localhost:9093",
            "listener.security.protocol.map": "OUT:PLAINTEXT,IN:PLAINTEXT",
            "inter.broker.listener.name": "in",
        }
    )
    assert [listener.host for listener in config.listeners] == ["0.0.0.0", "localhost"]
    assert config.advertised_listeners[0].port == 19092
    assert config.inter_broker_listener_name == "IN"


@pytest.mark.parametrize(
    ("settings", "name", "reason"),
    [
        ({"log.retension.ms": "5"}, "log.retension.ms", "Did you mean log.retention.ms?"),
        ({"num.partitions": "0"}, "num.partitions", "at least 1"),
        ({"listeners": ""}, "listeners", "not be empty"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners", "cannot connect"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners", "0.0.0.0"),
        ({"advertised.listeners": "SSL://a:1"}, "advertised.listeners", "not supported yet"),
        (
            {
                "advertised.listeners": "OUT://a:1",
                "listener.security.protocol.map": "OUT:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            "advertised.listeners",
            "OUT is not in listeners, which has PLAINTEXT",
        ),
        ({"controller.listener.names": "PLAINTEXT"}, "listeners", "controller.listener.names"),
        ({"inter.broker.listener.name": "X"}, "inter.broker.listener.name", "PLAINTEXT"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "inter.broker.listener.name",
            "set only one",
        ),
        ({"broker.id": "1", "node.id": "2"}, "broker.id", "node.id is 2"),
        ({"broker.id": "-1"}, "broker.id", "at least 0"),
        ({"log.dirs": "/a,,/b"}, "log.dirs", "empty"),
        ({"listener.name.out.max.connections": "x"}, "listener.name.out.max.connections", "INT"),
    ],
)
def test_a_bad_setting_is_refused_by_name(settings: dict[str, str], name: str, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        BrokerConfig(settings)
    assert isinstance(refused.value, InvalidSetting | UnknownSetting)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.name == name
    assert reason in str(refused.value)


def test_log_dirs_go_before_log_dir() -> None:
    assert BrokerConfig({"log.dir": "data"}).log_dirs == ("data",)
    both = BrokerConfig({"log.dir": "data", "log.dirs": "~/a, b"})
    assert both.log_dirs == ("~/a", "b")


def test_either_name_gives_the_id() -> None:
    assert BrokerConfig({"broker.id": "7"}).node_id == 7
    assert BrokerConfig({"node.id": "7", "broker.id": "7"}).broker_id == 7


def test_the_nearer_source_wins() -> None:
    static = BrokerConfig({"message.max.bytes": "1"})
    cluster = static.with_dynamic({}, {"message.max.bytes": "2"})
    own = static.with_dynamic({"message.max.bytes": "3"}, {"message.max.bytes": "2"})
    assert [c.message_max_bytes for c in (static, cluster, own)] == [1, 2, 3]
    assert own.topic_defaults.max_message_bytes == 3
    assert own.with_dynamic({}, {}) == static


def test_settings_of_plugins_and_listeners_are_taken_without_effect() -> None:
    names = ["listener.name.out.plain.sasl.jaas.config", "rsm.config.chunk", "ssl.keystore.type"]
    assert BrokerConfig(dict.fromkeys(names, "x")).without_effect() == names


def is_read(name: str) -> bool:
    """By something else than the settings themselves."""
    return re.search(rf"\.{name.replace('.', '_')}\b", source()) is not None


@cache
def source() -> str:
    return "".join(
        path.read_text()
        for path in Path(ottla.__file__).parent.rglob("*.py")
        if path.parent.name != "config"
    )


def test_a_setting_that_is_read_is_not_said_to_have_no_effect() -> None:
    assert [name for name in BROKER_SETTINGS if has_no_effect(name) and is_read(name)] == []


def test_a_setting_that_nothing_reads_is_said_to_have_no_effect() -> None:
    in_other_settings = {
        "controller.listener.names",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "log.dir",
        "security.inter.broker.protocol",
    }
    in_topics = {name for topic in TOPIC_SETTINGS.values() for name in topic.synonyms}
    in_groups = {
        f"group.consumer.{limit}{name.removeprefix('consumer.')}"
        for name in GROUP_SETTINGS
        for limit in ("", "min.", "max.")
    }
    silent = [
        name
        for name in BROKER_SETTINGS.keys() - in_other_settings - in_topics - in_groups
        if not is_read(name) and not has_no_effect(name)
    ]
    assert silent == []


def test_secrets_do_not_show() -> None:
    shown = repr(
        BrokerConfig({"ssl.key.password": "geheim", "listener.name.a.ssl.key.password": "x9"})
    )
    assert "geheim" not in shown
    assert "x9" not in shown


def test_a_config_does_not_change() -> None:
    config = BrokerConfig()
    with pytest.raises(AttributeError):
        config.num_partitions = 5
    with pytest.raises(AttributeError):
        del config.num_partitions
    assert config.num_partitions == 1
