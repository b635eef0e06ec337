from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.client.blocking_cluster import PartitionLeader, Topic
from ottla.client.blocking_topics import ConfigEntry
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.pipeline.jobs import mirror_topics
from ottla.pipeline.jobs.mirror_topics import MirroredTopics, OtherPartitions, config_changes

LONG_MAX = str(2**63 - 1)


def configs(**values: str) -> dict[str, ConfigEntry]:
    """Underscores for dots; a value that ends with an exclamation mark is the topic's own."""
    return {
        name.replace("_", "."): ConfigEntry(value.rstrip("!"), value.endswith("!"))
        for name, value in values.items()
    }


def test_settings_of_the_topic_are_copied_and_those_that_are_no_more_given_back() -> None:
    source = configs(segment_ms="5!", flush_ms="9", index_interval_bytes="1!")
    target = configs(segment_ms="5", flush_ms="7!", index_interval_bytes="1!")
    assert config_changes(source, target) == {"segment.ms": "5", "flush.ms": None}


def test_what_is_about_brokers_or_excluded_stays() -> None:
    source = configs(
        min_insync_replicas="2!",
        leader_replication_throttled_replicas="0:1!",
        remote_storage_enable="true!",
        local_retention_ms="5!",
        flush_ms="5!",
        segment_ms="5!",
    )
    target = configs(**dict.fromkeys([name.replace(".", "_") for name in source], "9!"))
    assert config_changes(source, target, ["flush.ms"]) == {"segment.ms": "5"}


def test_a_target_takes_every_timestamp_as_it_is() -> None:
    source = configs(
        message_timestamp_type="LogAppendTime!",
        message_timestamp_before_max_ms="5!",
        message_timestamp_after_max_ms="3600000",
    )
    target = configs(
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=LONG_MAX,
        message_timestamp_after_max_ms="3600000",
    )
    changes = config_changes(source, target)
    assert changes == {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": LONG_MAX,
    }
    changed = {**target, **{name: ConfigEntry(value, True) for name, value in changes.items()}}
    assert config_changes(source, changed) == {}


def test_what_is_kept_is_that_of_the_source_also_where_it_is_its_brokers_default() -> None:
    source = configs(cleanup_policy="delete", retention_ms="-1", retention_bytes="77!")
    target = configs(cleanup_policy="compact!", retention_ms="604800000", retention_bytes="-1")
    assert config_changes(source, target) == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "77",
    }
    assert config_changes(source, target, ["retention.ms"]).keys() == {
        "cleanup.policy",
        "retention.bytes",
    }


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        ("1000", "1000", "2024"),
        ("1000!", "1000", "2024"),
        ("1000", "2024!", None),
        ("1000!", "9999", None),
        ("9000!", "2024!", "10024"),
    ],
)
def test_a_record_may_grow_by_its_hops(source: str, target: str, wanted: str | None) -> None:
    changes = config_changes(configs(max_message_bytes=source), configs(max_message_bytes=target))
    assert changes == ({} if wanted is None else {"max.message.bytes": wanted})


def test_what_the_target_does_not_know_is_left_out_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = {"east": configs(new_setting="1!", flush_ms="2!"), "west": configs(flush_ms="3")}
    altered: list[Any] = []
    monkeypatch.setattr(
        mirror_topics, "describe_configs", lambda cluster, names: {"a": found[cluster]}
    )
    monkeypatch.setattr(
        mirror_topics, "alter_configs", lambda cluster, changes: altered.append((cluster, changes))
    )
    topics = MirroredTopics("east", "west", [])  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        topics.copy_configs(["a"])
        topics.copy_configs(["a"])
    assert altered == [("west", {"a": {"flush.ms": "2"}})] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the target does not know setting new.setting of topic a"
    ]


class Cluster:
    def __init__(self, **partition_counts: int) -> None:
        self.counts = partition_counts

    def topics(self, names: Any) -> dict[str, Topic]:
        return {
            name: Topic(name, NO_TOPIC_ID, dict.fromkeys(range(count), PartitionLeader(None, 0)))
            for name, count in self.counts.items()
            if name in names
        }


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    def change(cluster: Cluster, counts: dict[str, int]) -> None:
        cluster.counts.update(counts)

    monkeypatch.setattr(mirror_topics, "create_topics", change)
    monkeypatch.setattr(mirror_topics, "add_partitions", change)
    return Cluster(grown=2, same=3, other=3, larger=4)


def make(target: Cluster, begun: list[str], **partition_counts: int) -> None:
    source = Cluster(**partition_counts)
    topics = MirroredTopics(source, target, [])  # type: ignore[arg-type]
    topics.make(source.topics(partition_counts), begun)


def test_missing_topics_and_partitions_are_made(target: Cluster) -> None:
    make(target, ["grown"], missing=8, grown=3, same=3)
    assert target.counts == {"missing": 8, "grown": 3, "same": 3, "other": 3, "larger": 4}


@pytest.mark.parametrize(("topic", "begun"), [("other", []), ("larger", ["larger"])])
def test_a_topic_with_other_partitions_is_an_error(
    target: Cluster, topic: str, begun: list[str]
) -> None:
    count = target.counts[topic] + (1 if topic == "other" else -1)
    with pytest.raises(OtherPartitions, match=f"topic {topic} has {count} partitions"):
        make(target, begun, **{topic: count})
