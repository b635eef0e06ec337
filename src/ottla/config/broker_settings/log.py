"""Logs and topics, and the log manager that keeps them."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    Items,
    OneOf,
    at_least,
    between,
    setting,
    settings_group,
)
from ottla.config.topic import COMPRESSION_TYPES, GzipLevel


@settings_group
class LogSettings:
    """Logs and topics, and the log manager that keeps them. Part of BrokerConfig."""

    auto_create_topics_enable: bool = setting(
        BOOLEAN,
        True,
        doc="Whether asking for a topic that does not exist creates it.",
        importance="high",
    )
    compression_gzip_level: int = setting(
        INT,
        -1,
        GzipLevel(),
        doc="compression.gzip.level of topics without their own.",
        change=CLUSTER_WIDE,
    )
    compression_lz4_level: int = setting(
        INT,
        9,
        between(1, 17),
        doc="compression.lz4.level of topics without their own.",
        change=CLUSTER_WIDE,
    )
    compression_type: str = setting(
        STRING,
        "producer",
        OneOf(*COMPRESSION_TYPES),
        doc="compression.type of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    compression_zstd_level: int = setting(
        INT,
        3,
        between(-131_072, 22),
        doc="compression.zstd.level of topics without their own.",
        change=CLUSTER_WIDE,
    )
    default_replication_factor: int = setting(
        INT, 1, doc="How many replicas a partition gets where a request leaves it to the broker."
    )
    delete_topic_enable: bool = setting(
        BOOLEAN, True, doc="Whether topics can be deleted.", importance="high"
    )
    log_cleaner_backoff_ms: int = setting(
        LONG,
        15_000,
        at_least(0),
        doc="How long the cleaner sleeps when no log needs it.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        LONG,
        134_217_728,
        doc="How much memory the cleaner may use for the keys that it has seen.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms: int = setting(
        LONG,
        86_400_000,
        at_least(0),
        doc="delete.retention.ms of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_enable: bool = setting(BOOLEAN, True, doc="Whether compaction runs at all.")
    log_cleaner_io_buffer_load_factor: float = setting(
        DOUBLE, 0.9, doc="How full the cleaner's key table may get.", change=CLUSTER_WIDE
    )
    log_cleaner_io_buffer_size: int = setting(
        INT,
        524_288,
        at_least(0),
        doc="How much memory the cleaner uses for reading and writing.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        DOUBLE,
        1.7976931348623157e308,
        doc="How many bytes a second the cleaner reads and writes at most.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG,
        LONG_MAX,
        at_least(1),
        doc="max.compaction.lag.ms of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        DOUBLE,
        0.5,
        between(0, 1),
        doc="min.cleanable.dirty.ratio of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        LONG,
        0,
        at_least(0),
        doc="min.compaction.lag.ms of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_cleaner_threads: int = setting(
        INT,
        1,
        at_least(0),
        doc="How many logs are compacted at the same time.",
        change=CLUSTER_WIDE,
    )
    log_cleanup_policy: tuple[str, ...] = setting(
        LIST,
        ("delete",),
        Items("compact", "delete"),
        doc="cleanup.policy of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_dir: tuple[str, ...] = setting(
        LIST,
        ("ottla-data",),
        Items(empty_allowed=False),
        doc="The folder of the logs, where log.dirs is not set.",
        importance="high",
    )
    log_dirs: tuple[str, ...] = setting(
        LIST,
        None,
        Items(empty_allowed=False),
        doc="The folders of the logs, separated by commas.",
        importance="high",
    )
    log_flush_interval_messages: int = setting(
        LONG,
        LONG_MAX,
        at_least(1),
        doc="flush.messages of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    log_flush_interval_ms: int | None = setting(
        LONG,
        None,
        doc="flush.ms of topics without their own; if not set, log.flush.scheduler.interval.ms.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        INT,
        60_000,
        at_least(0),
        doc="How often the recovery points are written down.",
        importance="high",
    )
    log_flush_scheduler_interval_ms: int = setting(
        LONG,
        LONG_MAX,
        doc="How often logs are looked through for one that is due for an fsync.",
        importance="high",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        INT,
        60_000,
        at_least(0),
        doc="How often the log start offsets are written down.",
        importance="high",
    )
    log_index_interval_bytes: int = setting(
        INT,
        4096,
        at_least(0),
        doc="index.interval.bytes of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_index_size_max_bytes: int = setting(
        INT,
        10_485_760,
        at_least(4),
        doc="segment.index.bytes of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_initial_task_delay_ms: int = setting(
        LONG,
        30_000,
        at_least(0),
        doc="How long after the start the periodic work on logs begins.",
        importance="low",
        internal=True,
    )
    log_local_retention_bytes: int = setting(
        LONG,
        -2,
        at_least(-2),
        doc="local.retention.bytes of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_local_retention_ms: int = setting(
        LONG,
        -2,
        at_least(-2),
        doc="local.retention.ms of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_message_timestamp_after_max_ms: int = setting(
        LONG,
        3_600_000,
        at_least(0),
        doc="message.timestamp.after.max.ms of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG,
        LONG_MAX,
        at_least(0),
        doc="message.timestamp.before.max.ms of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_message_timestamp_type: str = setting(
        STRING,
        "CreateTime",
        OneOf("CreateTime", "LogAppendTime"),
        doc="message.timestamp.type of topics without their own.",
        change=CLUSTER_WIDE,
    )
    log_preallocate: bool = setting(
        BOOLEAN, False, doc="preallocate of topics without their own.", change=CLUSTER_WIDE
    )
    log_retention_bytes: int = setting(
        LONG,
        -1,
        doc="retention.bytes of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    log_retention_check_interval_ms: int = setting(
        LONG, 300_000, at_least(1), doc="How often logs are looked through for segments to delete."
    )
    log_retention_hours: int = setting(
        INT, 168, doc="retention.ms of topics without their own, in hours.", importance="high"
    )
    log_retention_minutes: int | None = setting(
        INT,
        None,
        doc="retention.ms of topics without their own, in minutes; else log.retention.hours.",
        importance="high",
    )
    log_retention_ms: int | None = setting(
        LONG,
        None,
        doc="retention.ms of topics without their own; else log.retention.minutes.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    log_roll_hours: int = setting(
        INT,
        168,
        at_least(1),
        doc="segment.ms of topics without their own, in hours.",
        importance="high",
    )
    log_roll_jitter_hours: int = setting(
        INT,
        0,
        at_least(0),
        doc="segment.jitter.ms of topics without their own, in hours.",
        importance="high",
    )
    log_roll_jitter_ms: int | None = setting(
        LONG,
        None,
        doc="segment.jitter.ms of topics without their own; else log.roll.jitter.hours.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    log_roll_ms: int | None = setting(
        LONG,
        None,
        doc="segment.ms of topics without their own; else log.roll.hours.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    log_segment_bytes: int = setting(
        INT,
        1_073_741_824,
        at_least(1_048_576),
        doc="segment.bytes of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    log_segment_delete_delay_ms: int = setting(
        LONG,
        60_000,
        at_least(0),
        doc="file.delete.delay.ms of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    message_max_bytes: int = setting(
        INT,
        1_048_588,
        at_least(0),
        doc="max.message.bytes of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    min_insync_replicas: int = setting(
        INT,
        1,
        at_least(1),
        doc="min.insync.replicas of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    num_partitions: int = setting(
        INT,
        1,
        at_least(1),
        doc="How many partitions a topic gets where a request leaves it to the broker.",
    )
    num_recovery_threads_per_data_dir: int = setting(
        INT,
        2,
        at_least(1),
        doc="How many logs of a folder are recovered at the same time after a crash.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    ottla_coordination_file: str | None = setting(
        STRING,
        None,
        doc="The SQLite file with the topics, their ids and settings; if not set, "
        "coordination.db in the first log dir.",
    )
    ottla_produce_check_records: bool = setting(
        BOOLEAN,
        True,
        doc="Whether produced batches are refused whose records cannot be read: that they "
        "decompress, and that their lengths and their count are right. Apache Kafka has no such "
        "setting and always looks.",
        change=CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        INT,
        600_000,
        at_least(1),
        doc="How often producers are looked through for those to forget.",
        importance="low",
        internal=True,
    )
    producer_id_expiration_ms: int = setting(
        INT,
        86_400_000,
        at_least(1),
        doc="How long after its last write an idempotent producer is forgotten.",
        importance="low",
        change=CLUSTER_WIDE,
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN,
        False,
        doc="unclean.leader.election.enable of topics without their own.",
        importance="high",
        change=CLUSTER_WIDE,
    )
