"""Replicas, leaders, the controller and ZooKeeper."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LONG,
    LONG_MAX,
    STRING,
    at_least,
    setting,
    settings_group,
)

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"


@settings_group
class ReplicationSettings:
    """Replicas, leaders, the controller and ZooKeeper. Part of BrokerConfig."""

    auto_leader_rebalance_enable: bool = setting(
        BOOLEAN,
        True,
        doc="Whether leadership goes back to preferred replicas by itself.",
        importance="high",
    )
    controlled_shutdown_enable: bool = setting(
        BOOLEAN, True, doc="Whether a broker that stops hands its leaderships over first."
    )
    controlled_shutdown_max_retries: int = setting(
        INT, 3, doc="How often a controlled shutdown is tried."
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        LONG, 5000, doc="How long between two tries of a controlled shutdown."
    )
    controller_socket_timeout_ms: int = setting(
        INT, 30_000, doc="How long the controller waits for a broker's answer."
    )
    follower_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        at_least(0),
        doc="How many bytes a second throttled replicas may fetch.",
        change=CLUSTER_WIDE,
    )
    leader_imbalance_check_interval_seconds: int = setting(
        LONG,
        300,
        at_least(1),
        doc="How often the controller looks for leaders that are not the preferred ones.",
        importance="high",
    )
    leader_imbalance_per_broker_percentage: int = setting(
        INT,
        10,
        doc="The share of leaders that may be not preferred on a broker before they are moved.",
        importance="high",
    )
    leader_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        at_least(0),
        doc="How many bytes a second may be served to throttled replicas.",
        change=CLUSTER_WIDE,
    )
    num_replica_fetchers: int = setting(
        INT,
        1,
        at_least(1),
        doc="How many fetchers a follower has for each leader.",
        importance="high",
        change=CLUSTER_WIDE,
    )
    ottla_state_change_log: str | None = setting(
        STRING,
        None,
        doc="A file that gets a line for each change of a leader, an ISR, a replica's role, the "
        "controller or this broker's session; if not set, there is none.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        LONG,
        LONG_MAX,
        at_least(0),
        doc="How many bytes a second may move between folders.",
        change=CLUSTER_WIDE,
    )
    replica_fetch_backoff_ms: int = setting(
        INT, 1000, at_least(0), doc="How long a follower waits after a failed fetch."
    )
    replica_fetch_max_bytes: int = setting(
        INT,
        1_048_576,
        at_least(0),
        doc="How many bytes of a partition a follower asks for at once.",
    )
    replica_fetch_min_bytes: int = setting(
        INT, 1, doc="How many bytes a follower waits for.", importance="high"
    )
    replica_fetch_response_max_bytes: int = setting(
        INT, 10_485_760, at_least(0), doc="How many bytes a follower asks for at once."
    )
    replica_fetch_wait_max_ms: int = setting(
        INT, 500, doc="How long a follower waits for records.", importance="high"
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        LONG, 5000, doc="How often high watermarks are written down.", importance="high"
    )
    replica_lag_time_max_ms: int = setting(
        LONG,
        30_000,
        doc="How long a follower may be behind before it leaves the ISR.",
        importance="high",
    )
    replica_selector_class: str | None = setting(
        STRING,
        None,
        doc="Which replica consumers are sent to: Kafka's RackAwareReplicaSelector knows one in "
        "the rack of the client (client.rack); if not set, the leader.",
    )
    replica_socket_receive_buffer_bytes: int = setting(
        INT, 65_536, doc="The receive buffer of a follower's socket.", importance="high"
    )
    replica_socket_timeout_ms: int = setting(
        INT, 30_000, doc="How long a follower waits for an answer.", importance="high"
    )
    replication_quota_window_num: int = setting(
        INT,
        11,
        at_least(1),
        doc="Over how many samples the rate of replication is measured for quotas.",
        importance="low",
    )
    replication_quota_window_size_seconds: int = setting(
        INT, 1, at_least(1), doc="How long each of these samples is.", importance="low"
    )
    zookeeper_connect: str | None = setting(
        STRING,
        None,
        doc="The ZooKeeper servers of the cluster, as HOST:PORT,...[/CHROOT].",
        importance="high",
    )
    zookeeper_connection_timeout_ms: int | None = setting(
        INT,
        None,
        doc="How long connecting to ZooKeeper may take; if not set, zookeeper.session.timeout.ms.",
        importance="high",
    )
    zookeeper_max_in_flight_requests: int = setting(
        INT,
        10,
        at_least(1),
        doc="How many requests to ZooKeeper may be unanswered when much is read at once.",
        importance="high",
    )
    zookeeper_session_timeout_ms: int = setting(
        INT,
        18_000,
        doc="After how long without contact a broker is taken for dead, in ZooKeeper or in the "
        "SQLite file that several brokers share.",
        importance="high",
    )
