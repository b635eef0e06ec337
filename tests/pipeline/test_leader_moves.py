"""Leaders move under a query that reads and writes: Apache Kafka with two brokers, of which one
comes and goes."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from ottla.pipeline.sink.placement import placed
from tests.support.counts import count
from tests.support.need import need_apache_kafka
from tests.support.read_back import read_back
from tools.apache_kafka import ApacheKafkaBroker

_SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.num.partitions": "5",
    # One that was killed is missed soon.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    # One that is back leads soon what it led before.
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}
_PARTITIONS = {"moves-in": 4, "moves-out": 3}
_KEYS = 10
_PATIENCE_S = 90


class Cluster:
    """Broker 1 stays, broker 2 does not."""

    def __init__(self, first: ApacheKafkaBroker, second: ApacheKafkaBroker) -> None:
        self.second = second
        self.bootstrap = f"{first.bootstrap},{second.bootstrap}"
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topics = [NewTopic(name, size, 2) for name, size in _PARTITIONS.items()]
        for made in self._admin.create_topics(topics).values():
            made.result(_PATIENCE_S)

    def wait_for_leaders(self, wanted: set[int]) -> None:
        """Until these, and no others, lead."""
        deadline = time.monotonic() + _PATIENCE_S
        while (found := self._leaders()) != wanted:
            assert time.monotonic() < deadline, f"led by {found}, not {wanted}"
            time.sleep(0.1)

    def _leaders(self) -> set[int]:
        topics = self._admin.list_topics(timeout=_PATIENCE_S).topics
        return {one.leader for name in _PARTITIONS for one in topics[name].partitions.values()}


class Writer(threading.Thread):
    """Numbers, some hundred a second, each to the partition of its key, until it is told to end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._is_ended = threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._is_ended.wait(0.01):
            for _ in range(5):
                key = str(self.written % _KEYS)
                self._producer.produce("moves-in", key=key, value=str(self.written))
                self.written += 1
            self._producer.poll(0)

    def end(self) -> None:
        self._is_ended.set()
        self.join()
        assert self._producer.flush(_PATIENCE_S) == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_apache_kafka()
    with (
        ApacheKafkaBroker(tmp_path / "1", settings=_SETTINGS, heap_mb=512) as first,
        ApacheKafkaBroker(tmp_path / "2", settings=_SETTINGS, heap_mb=512, joins=first) as second,
    ):
        yield Cluster(first, second)


@pytest.mark.timeout(600)
def test_every_record_once_and_in_order(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    rows = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
    frame = rows.option("subscribe", "moves-in").option("startingOffsets", "earliest").load()
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "topic": "moves-out",
        "kafka.transactional.id": "moves",
    }
    written = placed(frame.select("key", "value"), options).writeStream.format("ottla")
    query = written.options(**options).option("checkpointLocation", str(tmp_path / "c")).start()
    writer = Writer(cluster.bootstrap)
    writer.start()
    try:
        for number in range(count(6, quick=2)):
            cluster.wait_for_leaders({1, 2})
            time.sleep(2)  # Batches go on meanwhile, by way of both.
            if number % 2:
                cluster.second.stop()
            else:
                cluster.second.kill()
            cluster.wait_for_leaders({1})
            time.sleep(2)
            cluster.second.start()
        writer.end()
        query.processAllAvailable()
    finally:
        writer.end()
        query.stop()
    found: dict[bytes | None, list[int]] = defaultdict(list)
    for one in read_back(cluster.bootstrap, "moves-out"):
        assert one.value is not None
        found[one.key].append(int(one.value))
    assert found == {
        str(key).encode(): list(range(key, writer.written, _KEYS)) for key in range(_KEYS)
    }
