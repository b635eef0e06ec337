"""The demo's topics. They keep some minutes: after a week they need no more disk than after half an
hour. The broker's internal topics do grow, as long as it compacts nothing."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import NewTopic

from ottla.cli.client import Cluster, one_line, wait_for
from ottla.cli.errors import Failure

ACTIVITY = "activity"
PARTITIONS = 4

CONFIG = {
    # Spark has read a record within seconds; ten minutes are for people who look at it.
    "retention.ms": str(10 * 60_000),
    # Only closed segments are deleted.
    "segment.ms": str(60_000),
    "segment.bytes": str(32 << 20),
}


def make_topics(cluster: Cluster, names: Sequence[str]) -> None:
    topics = [
        NewTopic(name, PARTITIONS if name == ACTIVITY else 1, -1, config=CONFIG) for name in names
    ]
    admin = cluster.admin()  # held on to: without its client a request is dropped
    _, failures = wait_for(admin.create_topics(topics))
    if failures:
        raise Failure(f"could not create {one_line(failures.items())}")
