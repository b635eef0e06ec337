"""The settings of a topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.config.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    InvalidSetting,
    Items,
    OneOf,
    Setting,
    UnknownSetting,
    Validator,
    at_least,
    between,
    setting,
    settings_of,
    shown,
)
from ottla.kernel.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

DAY_MS = 86_400_000
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

# What is declared, since clients set it, ahead of the part of Ottla that will go by it: compaction
# and tiered storage. This list only shrinks.
_NOT_YET = frozenset(
    {
        "delete.retention.ms",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)

# What the ends of broker settings' names mean for the topic setting in milliseconds.
_UNIT_MS = {"minutes": 60_000, "hours": 3_600_000}


class GzipLevel(Validator):
    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        if value != -1 and not 1 <= value <= 9:
            raise InvalidSetting(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "from 1 to 9, or -1"


class ThrottledReplicas(Validator):
    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        if not re.fullmatch(r"\*?|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*,?", ",".join(value)):
            raise InvalidSetting(
                name, shown(value), f"{name} must be * or a list of partition:broker"
            )

    def __str__(self) -> str:
        return "* or a list of partition:broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of one topic, every one with a value of its type. Made by `resolve`, shared
    by the topic's partitions, replaced as a whole when a setting changes. `TopicConfig()` has
    Kafka's defaults.

    `segment_bytes` is what the log goes by: where `internal.segment.bytes` is set (Kafka's own
    way, and ours in tests, to segments below 1 MB), `resolve` puts that there.
    """

    cleanup_policy: tuple[str, ...] = setting(
        LIST,
        ("delete",),
        Items("compact", "delete"),
        doc="What becomes of old segments: deleted, compacted to the newest value of each key, "
        "or both. Empty keeps everything.",
        synonyms=("log.cleanup.policy",),
    )
    compression_gzip_level: int = setting(
        INT,
        -1,
        GzipLevel(),
        doc="The level used where compression.type is gzip; -1 is zlib's own default.",
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level: int = setting(
        INT,
        9,
        between(1, 17),
        doc="The level used where compression.type is lz4.",
        synonyms=("compression.lz4.level",),
    )
    compression_type: str = setting(
        STRING,
        "producer",
        OneOf(*COMPRESSION_TYPES),
        doc="How batches are compressed in the log; producer keeps each as it was sent.",
        synonyms=("compression.type",),
    )
    compression_zstd_level: int = setting(
        INT,
        3,
        between(-131_072, 22),
        doc="The level used where compression.type is zstd.",
        synonyms=("compression.zstd.level",),
    )
    delete_retention_ms: int = setting(
        LONG,
        DAY_MS,
        at_least(0),
        doc="How long a compacted topic keeps a tombstone after the records before it are clean.",
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    file_delete_delay_ms: int = setting(
        LONG,
        60_000,
        at_least(0),
        doc="How long the files of a deleted segment stay on disk.",
        synonyms=("log.segment.delete.delay.ms",),
    )
    flush_messages: int = setting(
        LONG,
        LONG_MAX,
        at_least(1),
        doc="After how many records without one an fsync is forced.",
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms: int = setting(
        LONG,
        LONG_MAX,
        at_least(0),
        doc="After how long without one an fsync is forced.",
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST,
        (),
        ThrottledReplicas(),
        doc="Replicas (partition:broker, or * for all) whose fetching a quota slows down.",
    )
    index_interval_bytes: int = setting(
        INT,
        4096,
        at_least(0),
        doc="How many bytes of records lie between two entries of an index.",
        synonyms=("log.index.interval.bytes",),
    )
    internal_segment_bytes: int | None = setting(
        INT,
        None,
        doc="Instead of segment.bytes, without its lower limit; for tests only.",
        internal=True,
    )
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST,
        (),
        ThrottledReplicas(),
        doc="Replicas (partition:broker, or * for all) whose serving to followers a quota slows "
        "down.",
    )
    local_retention_bytes: int = setting(
        LONG,
        -2,
        at_least(-2),
        doc="With tiered storage, how many bytes stay on the broker; -2 means retention.bytes.",
        synonyms=("log.local.retention.bytes",),
    )
    local_retention_ms: int = setting(
        LONG,
        -2,
        at_least(-2),
        doc="With tiered storage, how long segments stay on the broker; -2 means retention.ms.",
        synonyms=("log.local.retention.ms",),
    )
    max_compaction_lag_ms: int = setting(
        LONG,
        LONG_MAX,
        at_least(1),
        doc="The longest that a record may wait for compaction.",
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    max_message_bytes: int = setting(
        INT,
        1_048_588,
        at_least(0),
        doc="The largest record batch that is taken, as it arrives (compressed, if it is).",
        synonyms=("message.max.bytes",),
    )
    message_timestamp_after_max_ms: int = setting(
        LONG,
        3_600_000,
        at_least(0),
        doc="How far a record's timestamp may lie in the future, if it is the producer's.",
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms: int = setting(
        LONG,
        LONG_MAX,
        at_least(0),
        doc="How far a record's timestamp may lie in the past, if it is the producer's.",
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_type: str = setting(
        STRING,
        "CreateTime",
        OneOf("CreateTime", "LogAppendTime"),
        doc="Whether a record keeps the producer's timestamp or gets the time of its append.",
        synonyms=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio: float = setting(
        DOUBLE,
        0.5,
        between(0, 1),
        doc="What share of a compacted log must be uncompacted before it is compacted again.",
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = setting(
        LONG,
        0,
        at_least(0),
        doc="The shortest time that a record stays as it was written before compaction.",
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas: int = setting(
        INT,
        1,
        at_least(1),
        doc="How many replicas must be in sync for a write with acks=all.",
        synonyms=("min.insync.replicas",),
    )
    preallocate: bool = setting(
        BOOLEAN,
        False,
        doc="Whether a new segment's file gets its whole size at once.",
        synonyms=("log.preallocate",),
    )
    remote_log_copy_disable: bool = setting(
        BOOLEAN, False, doc="With tiered storage, stops copying to it."
    )
    remote_log_delete_on_disable: bool = setting(
        BOOLEAN, False, doc="Whether turning tiered storage off deletes what it holds."
    )
    remote_storage_enable: bool = setting(
        BOOLEAN, False, doc="Tiered storage, which this broker does not have: only false is taken."
    )
    retention_bytes: int = setting(
        LONG,
        -1,
        doc="How large a partition may grow before its oldest segments go; negative: no limit.",
        synonyms=("log.retention.bytes",),
    )
    retention_ms: int = setting(
        LONG,
        7 * DAY_MS,
        at_least(-1),
        doc="How old the newest record of a segment may grow before the segment goes; -1: no "
        "limit.",
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes: int = setting(
        INT,
        1 << 30,
        at_least(1 << 20),
        doc="The size at which a segment is closed and a new one begun.",
        synonyms=("log.segment.bytes",),
    )
    segment_index_bytes: int = setting(
        INT,
        10 << 20,
        at_least(4),
        doc="The largest size of an offset or time index; a full one closes the segment.",
        synonyms=("log.index.size.max.bytes",),
    )
    segment_jitter_ms: int = setting(
        LONG,
        0,
        at_least(0),
        doc="At most how much earlier than segment.ms a segment is closed, at random.",
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_ms: int = setting(
        LONG,
        7 * DAY_MS,
        at_least(1),
        doc="The age at which a segment is closed even if it is not full.",
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN,
        False,
        doc="Whether a replica that is not in sync may lead when no other can, losing records.",
        synonyms=("unclean.leader.election.enable",),
    )

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """A compacted segment must be closed in time for its records to be compacted
        (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
        """The broker's defaults with the topic's own settings over them. Names that are unknown
        are passed over: another version may have stored them."""
        values: dict[str, Any] = {}
        for name, text in overrides.items():
            known = TOPIC_SETTINGS.get(name)
            if known is not None:
                values[name.replace(".", "_")] = known.parse(text)
        if values.get("internal_segment_bytes") is not None:
            values["segment_bytes"] = values["internal_segment_bytes"]
        return replace(broker.topic_defaults, **values) if values else broker.topic_defaults


TOPIC_SETTINGS: dict[str, Setting] = settings_of(TopicConfig)


def has_no_effect(name: str) -> bool:
    return name in _NOT_YET


def synonym_value(name: str, value: Any) -> Any:
    """A broker setting's value in the unit of the topic setting that it stands for."""
    unit_ms = _UNIT_MS.get(name.rpartition(".")[2], 1)
    if name.startswith("log.retention.") and name != "log.retention.bytes" and value < 0:
        return -1  # Kafka takes every negative time as "no limit"
    return value if unit_ms == 1 else value * unit_ms


def topic_defaults(broker: BrokerConfig) -> TopicConfig:
    """What a topic without settings of its own has. Use `broker.topic_defaults`, which keeps
    it."""
    values: dict[str, Any] = {}
    for declared in TOPIC_SETTINGS.values():
        for synonym in declared.synonyms:
            value = getattr(broker, synonym.replace(".", "_"))
            if value is not None:
                values[declared.name.replace(".", "_")] = synonym_value(synonym, value)
                break
    return TopicConfig(**values)


def validate_overrides(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Raises KafkaError(INVALID_CONFIG) unless a topic may have these settings."""
    given: dict[str, str] = {}
    for name, text in overrides.items():
        if name not in TOPIC_SETTINGS:
            raise UnknownSetting("topic", name, TOPIC_SETTINGS)
        if text is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config: {name}"
            )
        given[name] = text
    resolved = TopicConfig.resolve(given, broker)
    if resolved.min_compaction_lag_ms > resolved.max_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms"
            f" ({resolved.min_compaction_lag_ms}) > max.compaction.lag.ms"
            f" ({resolved.max_compaction_lag_ms})",
        )
    if resolved.remote_storage_enable:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "remote.storage.enable cannot be true: this broker has no tiered storage",
        )
