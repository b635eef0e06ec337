"""Transactions that have ended, and partitions that do not know it yet."""

from __future__ import annotations

import time

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_TIMEOUT_S = 60


def wait_for_markers(bootstrap: str, topic: str) -> None:
    """Until no transaction is open in the topic. Apache Kafka acknowledges the end of one before
    its partitions know of it: who reads what is committed at once may find less."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
    partitions = [TopicPartition(topic, one) for one in found]

    def ends(isolation: IsolationLevel) -> list[int]:
        asked = {one: OffsetSpec.latest() for one in partitions}
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=_TIMEOUT_S)
        return [answers[one].result().offset for one in partitions]

    deadline = time.monotonic() + _TIMEOUT_S
    while (stable := ends(IsolationLevel.READ_COMMITTED)) != (
        all_records := ends(IsolationLevel.READ_UNCOMMITTED)
    ):
        assert time.monotonic() < deadline, f"stable up to {stable} of {all_records}"
        time.sleep(0.01)
