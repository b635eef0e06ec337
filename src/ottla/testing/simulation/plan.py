"""What a seed draws: kinds of faults, settings, and how long it goes on."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ottla.testing.simulation.fault_kinds import KINDS


@dataclass(frozen=True)
class Plan:
    """What a seed draws."""

    seed: int
    fault_kinds: tuple[str, ...]
    broker_count: int
    """Of partitions with three replicas. With four, they can be moved."""
    workload_s: float
    session_timeout_s: float
    skew_ms_max: int
    has_slow_disks: bool
    has_admin: bool
    has_rivals: bool
    """Whether transactional producers fence each other, or each has an id of its own."""
    has_priorities: bool
    """Of tasks that are ready at the same time: else any of them goes first."""
    is_consumer_protocol: bool
    """Whether the group is one of KIP-848, or a classic one."""
    settings: dict[str, str]
    topic_config: dict[str, str]
    kept_faults: frozenset[str] | None = None
    """Names of the faults that take place (see `faults.py`). None: all of them."""


def draw_plan(seed: int) -> Plan:
    rng = random.Random(seed)
    lag_ms = rng.choice([200, 500, 2000])
    settings = {
        "replica.lag.time.max.ms": str(lag_ms),
        "replica.fetch.wait.max.ms": str(min(lag_ms // 2, 400)),
        "replica.fetch.backoff.ms": "50",
        "replica.socket.timeout.ms": "1000",
        "controller.socket.timeout.ms": "1000",
        "request.timeout.ms": "1500",
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.min.session.timeout.ms": "500",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "2000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
        "controlled.shutdown.max.retries": "2",
        "controlled.shutdown.retry.backoff.ms": "200",
        "leader.imbalance.check.interval.seconds": "5",
        "replica.high.watermark.checkpoint.interval.ms": "500",
        "log.retention.check.interval.ms": "700",
        "log.flush.offset.checkpoint.interval.ms": "1000",
    }
    topic_config = {
        "internal.segment.bytes": str(rng.choice([1024, 1 << 20])),
        "retention.bytes": rng.choice(["-1", "-1", "3000"]),
        "flush.messages": rng.choice(["1", "1000", "1000", "1000"]),
        "file.delete.delay.ms": "500",
    }
    return Plan(
        seed,
        tuple(rng.sample(sorted(KINDS), rng.randint(2, 4))),
        broker_count=rng.choice([3, 3, 4]),
        workload_s=rng.uniform(4, 12),
        session_timeout_s=rng.choice([0.3, 0.6, 1.5, 6.0]),
        skew_ms_max=rng.choice([0, 0, 2000]),
        has_slow_disks=rng.random() < 0.3,
        has_admin=rng.random() < 0.5,
        has_priorities=rng.random() < 0.5,
        has_rivals=rng.random() < 0.3,
        is_consumer_protocol=rng.random() < 0.5,
        settings=settings,
        topic_config=topic_config,
    )
