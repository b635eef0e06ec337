"""Transactions and their coordinator."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    SHORT,
    at_least,
    setting,
    settings_group,
)


@settings_group
class TransactionSettings:
    """Transactions and their coordinator. Part of BrokerConfig."""

    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        INT,
        100,
        at_least(0),
        doc="The longest wait before asking again about a transaction's partition.",
        importance="high",
    )
    add_partitions_to_txn_retry_backoff_ms: int = setting(
        INT,
        20,
        at_least(1),
        doc="The first wait before asking again about a transaction's partition.",
        importance="high",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        INT,
        10_000,
        at_least(1),
        doc="How often transactions are looked through for timed-out ones to abort.",
        importance="low",
    )
    transaction_max_timeout_ms: int = setting(
        INT,
        900_000,
        at_least(1),
        doc="The longest time-out that a transaction may ask for.",
        importance="high",
    )
    transaction_partition_verification_enable: bool = setting(
        BOOLEAN,
        True,
        doc="Whether a write is checked to belong to a transaction in progress.",
        importance="low",
        change=CLUSTER_WIDE,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        INT,
        3_600_000,
        at_least(1),
        doc="How often transactional ids are looked through for expired ones.",
        importance="low",
    )
    transaction_state_log_load_buffer_size: int = setting(
        INT,
        5_242_880,
        at_least(1),
        doc="How many bytes of __transaction_state are read at once when loading.",
        importance="high",
    )
    transaction_state_log_min_isr: int = setting(
        INT, 2, at_least(1), doc="min.insync.replicas of __transaction_state.", importance="high"
    )
    transaction_state_log_num_partitions: int = setting(
        INT, 50, at_least(1), doc="How many partitions __transaction_state gets.", importance="high"
    )
    transaction_state_log_replication_factor: int = setting(
        SHORT,
        3,
        at_least(1),
        doc="How many replicas __transaction_state gets, if there are as many brokers.",
        importance="high",
    )
    transaction_state_log_segment_bytes: int = setting(
        INT,
        104_857_600,
        at_least(1),
        doc="segment.bytes of __transaction_state.",
        importance="high",
    )
    transaction_two_phase_commit_enable: bool = setting(
        BOOLEAN,
        False,
        doc="Whether producers may keep a transaction prepared for an outside coordinator.",
        importance="low",
    )
    transactional_id_expiration_ms: int = setting(
        INT,
        604_800_000,
        at_least(1),
        doc="How long after its last use a transactional id is forgotten.",
        importance="high",
    )
