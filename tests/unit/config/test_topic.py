from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.config.broker import BROKER_SETTINGS, BrokerConfig
from ottla.config.broker import has_no_effect as broker_has_no_effect
from ottla.config.definition import value_text
from ottla.config.topic import (
    TOPIC_SETTINGS,
    TopicConfig,
    has_no_effect,
    validate_overrides,
)
from ottla.kernel.errors import ErrorCode, KafkaError

HERE = Path(__file__).parent
KAFKA: dict[str, dict[str, Any]] = json.loads((HERE / "kafka_4_3_topic_configs.json").read_text())
VERDICTS: list[dict[str, Any]] = json.loads((HERE / "kafka_4_3_topic_verdicts.json").read_text())


def test_there_are_kafkas_settings_and_no_others() -> None:
    assert sorted(TOPIC_SETTINGS) == sorted(KAFKA)


@pytest.mark.parametrize("name", KAFKA)
def test_type_default_and_synonyms_are_kafkas(name: str) -> None:
    ours, kafkas = TOPIC_SETTINGS[name], KAFKA[name]
    assert ours.type.name == kafkas["type"]
    assert value_text(ours.default) == kafkas["default"]
    assert list(ours.synonyms) == kafkas["synonyms"]
    assert ours.internal == kafkas["internal"]
    assert all(synonym in BROKER_SETTINGS for synonym in ours.synonyms)


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: str(verdict["overrides"]))
def test_what_kafka_accepts_is_accepted_and_nothing_else(verdict: dict[str, Any]) -> None:
    if verdict["accepted"]:
        validate_overrides(verdict["overrides"], BrokerConfig())
    else:
        with pytest.raises(KafkaError) as refused:
            validate_overrides(verdict["overrides"], BrokerConfig())
        assert refused.value.code is ErrorCode.INVALID_CONFIG
        assert any(name in str(refused.value) for name in verdict["overrides"])


def test_without_settings_a_topic_has_kafkas_defaults() -> None:
    assert TopicConfig.resolve({}, BrokerConfig()) == TopicConfig()


def test_a_topics_own_setting_goes_before_the_brokers() -> None:
    broker = BrokerConfig({"log.segment.bytes": "2000000", "log.cleanup.policy": "compact"})
    config = TopicConfig.resolve({"segment.bytes": "3000000"}, broker)
    assert config.segment_bytes == 3_000_000
    assert config.cleanup_policy == ("compact",)


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-7"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_retention_follows_the_finest_unit_that_is_set(
    broker: dict[str, str], retention_ms: int
) -> None:
    assert TopicConfig.resolve({}, BrokerConfig(broker)).retention_ms == retention_ms


def test_times_in_hours_become_milliseconds() -> None:
    broker = BrokerConfig({"log.roll.hours": "2", "log.roll.jitter.hours": "1"})
    config = TopicConfig.resolve({}, broker)
    assert config.segment_ms == 7_200_000
    assert config.segment_jitter_ms == 3_600_000


def test_the_flush_interval_falls_back_to_the_schedulers() -> None:
    broker = BrokerConfig({"log.flush.scheduler.interval.ms": "500"})
    assert TopicConfig.resolve({}, broker).flush_ms == 500
    broker = BrokerConfig(
        {"log.flush.scheduler.interval.ms": "500", "log.flush.interval.ms": "900"}
    )
    assert TopicConfig.resolve({}, broker).flush_ms == 900


def test_segments_may_be_small_in_tests() -> None:
    config = TopicConfig.resolve({"internal.segment.bytes": "4096"}, BrokerConfig())
    assert config.segment_bytes == 4096


def test_a_stored_name_that_is_unknown_is_passed_over() -> None:
    config = TopicConfig.resolve({"from.the.future": "1", "retention.ms": "5"}, BrokerConfig())
    assert config.retention_ms == 5


def test_a_null_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        validate_overrides({"retention.ms": None}, BrokerConfig())
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_compaction_lags_are_checked_against_the_brokers() -> None:
    broker = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "100"})
    with pytest.raises(KafkaError, match=r"min.compaction.lag.ms .200. > max.compaction.lag.ms"):
        validate_overrides({"min.compaction.lag.ms": "200"}, broker)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(KafkaError, match=r"cleanup\.polcy\. Did you mean cleanup\.policy\?"):
        validate_overrides({"cleanup.polcy": "delete"}, BrokerConfig())


def test_policies_can_be_asked_for() -> None:
    both = TopicConfig(cleanup_policy=("compact", "delete"))
    assert both.compact
    assert both.delete
    neither = TopicConfig(cleanup_policy=())
    assert not neither.compact
    assert not neither.delete


def test_a_compacted_segment_is_closed_before_its_records_must_be_compacted() -> None:
    assert TopicConfig(segment_ms=100, max_compaction_lag_ms=10).max_segment_ms == 100
    compacted = TopicConfig(cleanup_policy=("compact",), segment_ms=100, max_compaction_lag_ms=10)
    assert compacted.max_segment_ms == 10


def test_a_config_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        TopicConfig().retention_ms = 5  # type: ignore[misc]


def test_exactly_what_nothing_reads_is_said_to_have_no_effect() -> None:
    source = "".join(
        path.read_text()
        for path in Path(ottla.__file__).parent.rglob("*.py")
        if path.parent.name != "config"
    )
    unread = {name for name in TOPIC_SETTINGS if f".{name.replace('.', '_')}" not in source}
    in_segment_bytes = {"internal.segment.bytes"}
    assert unread - in_segment_bytes == {name for name in TOPIC_SETTINGS if has_no_effect(name)}


def test_what_has_no_effect_on_a_topic_has_none_on_the_broker() -> None:
    for name in filter(has_no_effect, TOPIC_SETTINGS):
        for synonym in TOPIC_SETTINGS[name].synonyms:
            assert broker_has_no_effect(synonym), synonym
