from __future__ import annotations

from ottla.config.broker import BROKER_SETTINGS, BrokerConfig
from ottla.config.definition import ConfigSource, ConfigType
from ottla.config.describe import (
    Described,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.config.group import GROUP_SETTINGS
from ottla.config.topic import TOPIC_SETTINGS

TOPIC = ConfigSource.TOPIC_CONFIG
OWN = ConfigSource.DYNAMIC_BROKER_CONFIG
CLUSTER = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


def by_name(described: list[Described]) -> dict[str, Described]:
    return {entry.name: entry for entry in described}


def test_a_topic_shows_every_setting_but_the_internal_one() -> None:
    described = describe_topic({}, BrokerConfig())
    names = [entry.name for entry in described]
    assert names == sorted(TOPIC_SETTINGS.keys() - {"internal.segment.bytes"})
    assert not any(entry.read_only or entry.is_sensitive for entry in described)
    assert all(entry.documentation for entry in described)
    assert {entry.source for entry in described} == {DEFAULT}


def test_only_the_names_that_were_asked_for() -> None:
    described = describe_topic({}, BrokerConfig(), ["retention.ms", "unknown"])
    assert [entry.name for entry in described] == ["retention.ms"]
    assert len(describe_topic({}, BrokerConfig(), [])) == 33


def test_an_override_is_shown_with_where_else_the_value_is_set() -> None:
    broker = BrokerConfig({"log.cleanup.policy": "compact"}).with_dynamic(
        {"log.cleanup.policy": "delete"}, {}
    )
    entry = by_name(describe_topic({"cleanup.policy": "compact, delete"}, broker))["cleanup.policy"]
    assert entry.value == "compact,delete"
    assert entry.type is ConfigType.LIST
    assert entry.source is TOPIC
    assert entry.synonyms == [
        Synonym("cleanup.policy", "compact,delete", TOPIC),
        Synonym("log.cleanup.policy", "delete", OWN),
        Synonym("log.cleanup.policy", "compact", STATIC),
        Synonym("log.cleanup.policy", "delete", DEFAULT),
    ]


def test_synonyms_in_other_units_follow_as_in_kafka() -> None:
    """What Apache Kafka 4.3 answers with the same settings."""
    broker = BrokerConfig(
        {"log.retention.hours": "100"},
        dynamic={"log.retention.ms": "3600000"},
        dynamic_default={"log.retention.ms": "7200000"},
    )
    entry = by_name(describe_topic({}, broker))["retention.ms"]
    assert entry.value == "3600000"
    assert entry.source is OWN
    assert entry.synonyms == [
        Synonym("log.retention.ms", "3600000", OWN),
        Synonym("log.retention.ms", "7200000", CLUSTER),
        Synonym("log.retention.hours", "100", STATIC),
        Synonym("log.retention.hours", "168", DEFAULT),
    ]


def test_a_value_from_another_unit_alone_has_no_synonyms_as_in_kafka() -> None:
    broker = BrokerConfig({"log.retention.hours": "100"})
    entry = by_name(describe_topic({}, broker))["retention.ms"]
    assert (entry.value, entry.source, entry.synonyms) == ("360000000", DEFAULT, [])


def test_the_size_for_tests_is_shown_beside_the_real_one() -> None:
    entries = by_name(describe_topic({"internal.segment.bytes": "100"}, BrokerConfig()))
    assert entries["internal.segment.bytes"].value == "100"
    assert entries["segment.bytes"].value == "1073741824"


def test_a_stored_name_that_nobody_knows_is_shown_without_its_value() -> None:
    entry = by_name(describe_topic({"from.the.future": "secret"}, BrokerConfig()))[
        "from.the.future"
    ]
    assert entry.value is None
    assert entry.is_sensitive
    assert entry.type is ConfigType.UNKNOWN
    assert entry.synonyms == [Synonym("from.the.future", None, TOPIC)]


def test_a_broker_shows_what_it_goes_by_and_what_was_set() -> None:
    entries = by_name(describe_broker(BrokerConfig({"num.io.threads": "4"})))
    internal = {name for name, declared in BROKER_SETTINGS.items() if declared.internal}
    assert entries.keys() == (BROKER_SETTINGS.keys() - internal) | {"num.io.threads"}
    assert entries["num.io.threads"].source is STATIC
    assert entries["log.dirs"].value is None
    assert entries["log.dirs"].read_only
    assert not entries["log.segment.bytes"].read_only
    assert entries["listeners"].value == "PLAINTEXT://localhost:9092"


def test_a_broker_setting_shows_all_its_sources() -> None:
    broker = BrokerConfig(
        {"message.max.bytes": " 1 "},
        dynamic={"message.max.bytes": "3"},
        dynamic_default={"message.max.bytes": "2"},
    )
    entry = by_name(describe_broker(broker, ["message.max.bytes"]))["message.max.bytes"]
    assert entry.value == "3"
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("3", OWN),
        ("2", CLUSTER),
        (" 1 ", STATIC),
        ("1048588", DEFAULT),
    ]


def test_a_password_never_leaves_the_broker() -> None:
    name = "listener.name.out.ssl.key.password"
    broker = BrokerConfig({name: "geheim", "ssl.key.password": "geheim"})
    described = describe_broker(broker)
    assert "geheim" not in str(described)
    entry = by_name(described)[name]
    assert entry.is_sensitive
    assert [synonym.name for synonym in entry.synonyms] == [name, "ssl.key.password"]


def test_the_clusters_default_shows_only_what_was_set_there() -> None:
    broker = BrokerConfig(
        {"message.max.bytes": "1"},
        dynamic={"message.max.bytes": "3"},
        dynamic_default={"message.max.bytes": "2", "log.retention.ms": "5"},
    )
    described = by_name(describe_broker_defaults(broker))
    assert described.keys() == {"message.max.bytes", "log.retention.ms"}
    entry = described["message.max.bytes"]
    assert (entry.value, entry.source) == ("2", CLUSTER)
    assert entry.synonyms == [Synonym("message.max.bytes", "2", CLUSTER)]
    assert list(by_name(describe_broker_defaults(broker, ["log.retention.ms"]))) == [
        "log.retention.ms"
    ]


def test_a_group_shows_its_settings_over_those_of_the_broker() -> None:
    name = "consumer.session.timeout.ms"
    broker = BrokerConfig({f"group.{name}": "50000"})
    described = by_name(describe_group({name: " 60000 "}, broker))
    assert list(described) == sorted(GROUP_SETTINGS)
    own = described[name]
    assert (own.value, own.source) == ("60000", ConfigSource.GROUP_CONFIG)
    assert own.synonyms == [
        Synonym(name, "60000", ConfigSource.GROUP_CONFIG),
        Synonym(f"group.{name}", "50000", STATIC),
        Synonym(f"group.{name}", "45000", DEFAULT),
    ]
    assert described["consumer.heartbeat.interval.ms"].source == DEFAULT
    (other,) = describe_group({}, broker, [name])
    assert (other.value, other.source, other.read_only) == ("50000", STATIC, False)


def test_a_setting_of_a_group_that_another_version_stored_is_hidden() -> None:
    (unknown,) = describe_group({"share.x": "1"}, BrokerConfig(), ["share.x"])
    assert (unknown.value, unknown.is_sensitive) == (None, True)
    assert unknown.source == ConfigSource.GROUP_CONFIG


def test_a_subscription_to_metrics_shows_its_own_settings_and_defaults() -> None:
    described = by_name(describe_client_metrics({"interval.ms": " 1000 "}))
    assert list(described) == ["interval.ms", "match", "metrics"]
    own = described["interval.ms"]
    assert own.synonyms == [Synonym("interval.ms", "1000", ConfigSource.CLIENT_METRICS_CONFIG)]
    assert (own.value, own.source) == ("1000", ConfigSource.CLIENT_METRICS_CONFIG)
    assert (described["match"].value, described["match"].source) == ("", DEFAULT)
    assert [one.name for one in describe_client_metrics({}, ["match"])] == ["match"]
