"""Transactions that have ended, and partitions that do not know it yet."""

from __future__ import annotations

import time

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_TIMEOUT_S = 60
_LEADER_MOVES = {
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
"""Just after a broker has come or gone, its neighbours do not all know who leads yet."""


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
    while True:
        try:
            stable = ends(IsolationLevel.READ_COMMITTED)
            written = ends(IsolationLevel.READ_UNCOMMITTED)
        except KafkaException as error:
            if error.args[0].code() not in _LEADER_MOVES or time.monotonic() > deadline:
                raise
        else:
            if stable == written:
                return
            assert time.monotonic() < deadline, f"stable up to {stable} of {written}"
        time.sleep(0.01)
