"""Apache Kafka's own tools, and librdkafka, against a cluster of three: who leads, and where
partitions lie."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition as Partition
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.wire.messages.metadata import MetadataResponsePartition
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.need import need_apache_kafka
from tests.support.raw_client import RawClient
from tools.apache_kafka import run_tool

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    need_apache_kafka()
    folder = tmp_path_factory.mktemp("cluster")
    settings = {
        "ottla.coordination.file": str(folder / "coordination.db"),
        "auto.leader.rebalance.enable": "false",
    }
    started = BrokerCluster(folder, settings=settings)
    started.start()
    yield started
    started.stop()


def create(cluster: BrokerCluster, topic: str, *replicas: list[int]) -> None:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=number, broker_ids=each)
                    for number, each in enumerate(replicas)
                ],
            )
        ],
        timeout_ms=10_000,
    )
    with RawClient(cluster.brokers[cluster.controller()].bootstrap) as client:
        (result,) = client.ask(request, 7).topics
    assert result.error_code == ErrorCode.NONE, result.error_message


def state(cluster: BrokerCluster, topic: str, number: int = 0) -> MetadataResponsePartition:
    found = cluster.partitions_at(cluster.controller(), [topic])
    return found[Partition(topic, number)]


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to that"
        time.sleep(0.05)


def restart(cluster: BrokerCluster, broker_id: int, topic: str) -> None:
    """It leads nothing then, and is in sync again."""
    cluster.brokers[broker_id].stop()
    cluster.start(broker_id)
    until(lambda: broker_id in state(cluster, topic).isr_nodes)


def test_reassign_partitions(cluster: BrokerCluster, topic: str, tmp_path: Path) -> None:
    create(cluster, topic, [1, 2])
    wanted = tmp_path / "moves.json"
    moves = [{"topic": topic, "partition": 0, "replicas": [2, 3]}]
    wanted.write_text(json.dumps({"version": 1, "partitions": moves}))
    asked = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(wanted))

    out = run_tool("reassign-partitions", *asked, "--execute", "--throttle", "10000000").stdout
    assert f"Successfully started partition reassignment for {topic}-0" in out
    until(lambda: sorted(state(cluster, topic).replica_nodes) == [2, 3])
    out = run_tool("reassign-partitions", *asked, "--verify").stdout
    assert f"Reassignment of partition {topic}-0 is completed." in out
    assert "Clearing broker-level throttles" in out
    listing = ("--bootstrap-server", cluster.bootstrap, "--list")
    assert "No partition reassignments found." in run_tool("reassign-partitions", *listing).stdout
    assert state(cluster, topic).leader_id == 2


def test_leader_election(cluster: BrokerCluster, topic: str) -> None:
    create(cluster, topic, [3, 1, 2])
    restart(cluster, 3, topic)
    assert state(cluster, topic).leader_id != 3
    asked = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--partition", "0")
    out = run_tool("leader-election", *asked, "--election-type", "preferred").stdout
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in out
    assert state(cluster, topic).leader_id == 3
    out = run_tool("leader-election", *asked, "--election-type", "unclean").stdout
    assert f"Valid replica already elected for partitions {topic}-0" in out


def test_leader_election_by_librdkafka(cluster: BrokerCluster, topic: str) -> None:
    create(cluster, topic, [2, 3, 1], [3, 1, 2])
    restart(cluster, 2, topic)
    assert state(cluster, topic).leader_id != 2
    admin = AdminClient({"bootstrap.servers": cluster.brokers[1].bootstrap})
    asked = [TopicPartition(topic, number) for number in (0, 1)]
    results = admin.elect_leaders(ElectionType.PREFERRED, asked).result()
    errors = {each.partition: error for each, error in results.items()}
    assert errors[0] is None
    assert errors[1].code() == ErrorCode.ELECTION_NOT_NEEDED
    until(lambda: state(cluster, topic).leader_id == 2)
