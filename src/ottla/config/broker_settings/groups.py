"""Consumer groups and their committed offsets."""

from __future__ import annotations

from ottla.config.definition import (
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    Items,
    OneOf,
    at_least,
    setting,
    settings_group,
)


@settings_group
class GroupSettings:
    """Consumer groups and their committed offsets. Part of BrokerConfig."""

    group_consumer_assignment_interval_ms: int = setting(
        INT,
        1000,
        at_least(0),
        doc="How long assignments of a consumer group are at least apart.",
        change=CLUSTER_WIDE,
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        LIST,
        ("uniform", "range"),
        Items(empty_allowed=False),
        doc="The assignors of the server for consumer groups, the default one first.",
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        INT, 5000, at_least(1), doc="How often members of a consumer group send heartbeats."
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        INT,
        15_000,
        at_least(0),
        doc="The highest group.consumer.assignment.interval.ms for a group.",
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        INT, 15_000, at_least(1), doc="The highest heartbeat interval for a consumer group."
    )
    group_consumer_max_session_timeout_ms: int = setting(
        INT, 60_000, at_least(1), doc="The highest session time-out for a consumer group."
    )
    group_consumer_max_size: int = setting(
        INT, INT_MAX, at_least(1), doc="The most members of a consumer group."
    )
    group_consumer_migration_policy: str = setting(
        STRING,
        "bidirectional",
        OneOf("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", ignore_case=True),
        doc="Which changes between the classic and the consumer protocol a group may make.",
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        INT, 0, at_least(0), doc="The lowest group.consumer.assignment.interval.ms for a group."
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        INT, 5000, at_least(1), doc="The lowest heartbeat interval for a consumer group."
    )
    group_consumer_min_session_timeout_ms: int = setting(
        INT, 45_000, at_least(1), doc="The lowest session time-out for a consumer group."
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        INT,
        600_000,
        at_least(10_000),
        doc="How often regular expressions of subscriptions are tried on new topics.",
        internal=True,
    )
    group_consumer_session_timeout_ms: int = setting(
        INT,
        45_000,
        at_least(1),
        doc="After how long without heartbeat a member leaves a consumer group.",
    )
    group_coordinator_append_linger_ms: int = setting(
        INT,
        -1,
        at_least(-1),
        doc="How long the group coordinator gathers records before a write; -1 decides by itself.",
    )
    group_coordinator_cached_buffer_max_bytes: int = setting(
        INT,
        1_048_588,
        at_least(524_288),
        doc="The largest write buffer that the group coordinator keeps for another use.",
        change=CLUSTER_WIDE,
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(
        LIST,
        ("classic", "consumer", "streams"),
        Items("consumer", "classic", "share", "streams"),
        doc="The rebalance protocols that groups may use.",
    )
    group_initial_rebalance_delay_ms: int = setting(
        INT, 0, doc="How long a classic group waits for more members before its first rebalance."
    )
    group_max_session_timeout_ms: int = setting(
        INT, 1_800_000, doc="The longest session time-out of a classic group's member."
    )
    group_max_size: int = setting(
        INT, INT_MAX, at_least(1), doc="The most members of a classic group."
    )
    group_min_session_timeout_ms: int = setting(
        INT, 6000, doc="The shortest session time-out of a classic group's member."
    )
    offset_metadata_max_bytes: int = setting(
        INT, 4096, doc="The most bytes of metadata with a committed offset.", importance="high"
    )
    offsets_commit_timeout_ms: int = setting(
        INT,
        5000,
        at_least(1),
        doc="How long a commit waits for the replicas of __consumer_offsets.",
        importance="high",
    )
    offsets_load_buffer_size: int = setting(
        INT,
        5_242_880,
        at_least(1),
        doc="How many bytes of __consumer_offsets are read at once when loading.",
        importance="high",
    )
    offsets_retention_check_interval_ms: int = setting(
        LONG,
        600_000,
        at_least(1),
        doc="How often committed offsets are looked through for old ones.",
        importance="high",
    )
    offsets_retention_minutes: int = setting(
        INT,
        10_080,
        at_least(1),
        doc="How long after its last use a group's committed offset is kept.",
        importance="high",
    )
    offsets_topic_compression_codec: int = setting(
        INT, 0, doc="The compression of __consumer_offsets, by its number.", importance="high"
    )
    offsets_topic_num_partitions: int = setting(
        INT, 50, at_least(1), doc="How many partitions __consumer_offsets gets.", importance="high"
    )
    offsets_topic_replication_factor: int = setting(
        SHORT,
        3,
        at_least(1),
        doc="How many replicas __consumer_offsets gets, if there are as many brokers.",
        importance="high",
    )
    offsets_topic_segment_bytes: int = setting(
        INT, 104_857_600, at_least(1), doc="segment.bytes of __consumer_offsets.", importance="high"
    )
