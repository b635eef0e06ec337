"""Who the broker is, where it listens, what a connection may ask."""

from __future__ import annotations

from ottla.config.definition import (
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    STRING,
    Items,
    OneOf,
    at_least,
    setting,
    settings_group,
)
from ottla.config.listener import Listener


@settings_group
class NetworkSettings:
    """Who the broker is, where it listens, what a connection may ask. Part of BrokerConfig."""

    advertised_listeners: tuple[Listener, ...] = setting(
        LIST,
        None,
        Items(empty_allowed=False),
        doc="Where clients find the listeners; if not set, listeners.",
        importance="high",
    )
    broker_id: int = setting(
        INT, 1, doc="The same as node.id, by its older name.", importance="high"
    )
    broker_rack: str | None = setting(
        STRING, None, doc="The rack of the broker, for spreading replicas and for reading nearby."
    )
    connection_failed_authentication_delay_ms: int = setting(
        INT,
        100,
        at_least(0),
        doc="How long after a failed authentication the connection is closed.",
        importance="low",
    )
    connections_max_idle_ms: int = setting(
        LONG, 600_000, doc="How long a connection may be idle before it is closed."
    )
    controller_listener_names: tuple[str, ...] = setting(
        LIST,
        (),
        doc="Listeners of a KRaft controller, which this broker leaves closed.",
        importance="high",
    )
    fetch_max_bytes: int = setting(
        INT, 57_671_680, at_least(1024), doc="The most bytes that one fetch response carries."
    )
    inter_broker_listener_name: str = setting(
        STRING, None, doc="The listener on which brokers talk to each other."
    )
    listener_security_protocol_map: dict[str, str] = setting(
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        doc="The security protocol of each listener, as NAME:PROTOCOL.",
        importance="low",
    )
    listeners: tuple[Listener, ...] = setting(
        LIST,
        ("PLAINTEXT://localhost:9092",),
        Items(empty_allowed=False),
        doc="Where the broker listens, as NAME://HOST:PORT; an empty host means every interface.",
        importance="high",
    )
    max_connection_creation_rate: int = setting(
        INT,
        INT_MAX,
        at_least(0),
        doc="The most connections a second that are accepted.",
        change=CLUSTER_WIDE,
    )
    max_connections: int = setting(
        INT, INT_MAX, at_least(0), doc="The most connections at a time.", change=CLUSTER_WIDE
    )
    max_connections_per_ip: int = setting(
        INT,
        INT_MAX,
        at_least(0),
        doc="The most connections at a time from one address.",
        change=CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides: str = setting(
        STRING,
        "",
        doc="max.connections.per.ip of single addresses or names, as HOST:COUNT.",
        change=CLUSTER_WIDE,
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        INT, 1000, at_least(0), doc="How many incremental fetch sessions are kept."
    )
    max_request_partition_size_limit: int = setting(
        INT,
        2000,
        at_least(1),
        doc="The most partitions that one DescribeTopicPartitions response tells of.",
    )
    node_id: int = setting(
        INT,
        1,
        at_least(0),
        doc="The number of this broker, its own in the cluster.",
        importance="high",
    )
    queued_max_request_bytes: int = setting(
        LONG, -1, doc="How much memory requests may take before no more are read; -1 sets no limit."
    )
    queued_max_requests: int = setting(
        INT,
        500,
        at_least(1),
        doc="How many requests may wait before no more are read.",
        importance="high",
    )
    quota_window_num: int = setting(
        INT,
        11,
        at_least(1),
        doc="Over how many samples a client's rate is measured for quotas.",
        importance="low",
    )
    quota_window_size_seconds: int = setting(
        INT, 1, at_least(1), doc="How long each of these samples is.", importance="low"
    )
    request_timeout_ms: int = setting(
        INT, 30_000, doc="How long the broker waits for another broker's answer.", importance="high"
    )
    security_inter_broker_protocol: str = setting(
        STRING,
        "PLAINTEXT",
        OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="The security protocol between brokers, where inter.broker.listener.name is not set.",
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        LONG, 30_000, doc="The longest that connecting to another broker may take, after retries."
    )
    socket_connection_setup_timeout_ms: int = setting(
        LONG, 10_000, doc="How long connecting to another broker may take at first."
    )
    socket_listen_backlog_size: int = setting(
        INT, 50, at_least(1), doc="How many connections may wait to be accepted."
    )
    socket_receive_buffer_bytes: int = setting(
        INT,
        -1,
        doc="The receive buffer of a socket; -1 leaves it to the system.",
        importance="high",
    )
    socket_request_max_bytes: int = setting(
        INT, 104_857_600, at_least(1), doc="The largest request that is read.", importance="high"
    )
    socket_send_buffer_bytes: int = setting(
        INT,
        -1,
        doc="The send buffer of a socket; -1 leaves it to the system.",
        importance="high",
    )
