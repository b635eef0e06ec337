"""kill -9 of brokers of a cluster, under load: nothing that was acknowledged is lost, nothing comes
twice, and nobody reads what is not committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from ottla.kernel.ids import TopicPartition
from tests.faults.cluster.conftest import MakeWorkload
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.workload import Workload
from tests.support.counts import count

BACK_TIMEOUT_S = 60

Victims = Callable[[Workload], list[int]]


def leader(load: Workload) -> list[int]:
    return [load.cluster.leader_of(load.sources[0])]


def follower(load: Workload) -> list[int]:
    return [load.cluster.follower_of(load.sources[0])]


def controller(load: Workload) -> list[int]:
    return [load.cluster.controller()]


def group_coordinator(load: Workload) -> list[int]:
    return [load.cluster.group_coordinator(load.copiers_group)]


def transaction_coordinator(load: Workload) -> list[int]:
    return [load.cluster.transaction_coordinator(load.copiers[0].name)]


ONE = [follower, leader, controller, group_coordinator, transaction_coordinator]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("victims", ONE)
def test_one_killed(
    sqlite_cluster: BrokerCluster, make_workload: MakeWorkload, victims: Victims
) -> None:
    _kill_one_by_one(make_workload(sqlite_cluster, f"kill-{victims.__name__}"), victims)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("victims", [leader, controller])
def test_one_killed_with_zookeeper(
    zookeeper_cluster: BrokerCluster, make_workload: MakeWorkload, victims: Victims
) -> None:
    _kill_one_by_one(make_workload(zookeeper_cluster, f"kill-{victims.__name__}"), victims)


def _kill_one_by_one(workload: Workload, victims: Victims) -> None:
    with workload as load:
        for _ in range(count(full=5, quick=1)):
            killed = victims(load)
            load.cluster.kill(*killed)
            load.wait_for_progress()  # Without it: two of three are enough.
            load.cluster.start(*killed)
            load.cluster.wait_until_healed(load.topics)
            load.wait_for_progress()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["sqlite", "zookeeper"])
def test_a_producer_is_back_soon_after_its_leader_was_killed(
    store: str, request: pytest.FixtureRequest
) -> None:
    """With its client's own settings, whatever they are. How soon is printed, not judged: with
    SQLite a session ends with its process, with ZooKeeper when it has timed out."""
    cluster: BrokerCluster = request.getfixturevalue(f"{store}_cluster")
    topic = TopicPartition(f"back-{store}", 0)
    cluster.create_topic(topic.topic, 1)
    for _ in range(count(full=3, quick=1)):
        cluster.wait_until_healed([topic.topic])
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        produce_one(producer, topic)
        victim = cluster.leader_of(topic)
        cluster.kill(victim)
        killed_s = time.monotonic()
        acknowledged = threading.Thread(target=produce_one, args=(producer, topic))
        acknowledged.start()
        while cluster.leader_of(topic) == victim:
            time.sleep(0.01)
        led_s = time.monotonic()
        acknowledged.join()
        print(
            f"{store}: another leads after {led_s - killed_s:.2f} s,"
            f" and the producer is back {time.monotonic() - led_s:.2f} s later"
        )
        cluster.start(victim)


def produce_one(producer: Producer, topic: TopicPartition) -> None:
    failed: list[object] = []
    producer.produce(
        topic.topic, b"v", on_delivery=lambda error, _: failed.append(error) if error else None
    )
    assert producer.flush(BACK_TIMEOUT_S) == 0
    assert not failed


@pytest.mark.timeout(900)
def test_two_killed(sqlite_cluster: BrokerCluster, make_workload: MakeWorkload) -> None:
    """One is left, which must not acknowledge anything alone."""
    with make_workload(sqlite_cluster, "kill-two") as load:
        for _ in range(count(full=5, quick=1)):
            two = [*leader(load), *follower(load)]
            load.cluster.kill(*two)
            load.cluster.start(*two)
            load.wait_for_progress()
            load.cluster.wait_until_healed(load.topics)


@pytest.mark.timeout(900)
def test_all_killed(sqlite_cluster: BrokerCluster, make_workload: MakeWorkload) -> None:
    _kill_all(make_workload(sqlite_cluster, "kill-all"))


@pytest.mark.timeout(900)
def test_all_killed_with_zookeeper(
    zookeeper_cluster: BrokerCluster, make_workload: MakeWorkload
) -> None:
    _kill_all(make_workload(zookeeper_cluster, "kill-all"))


def _kill_all(workload: Workload) -> None:
    with workload as load:
        for _ in range(count(full=5, quick=1)):
            load.cluster.kill(*load.cluster.brokers)
            load.cluster.start()
            load.wait_for_progress()
            load.cluster.wait_until_healed(load.topics)


@pytest.mark.timeout(900)
def test_killed_over_and_over(sqlite_cluster: BrokerCluster, make_workload: MakeWorkload) -> None:
    """Each as soon as the one before is back, before it has caught up."""
    with make_workload(sqlite_cluster, "kill-on") as load:
        for number in range(count(full=20, quick=3)):
            broker_id = 1 + number % len(load.cluster.brokers)
            load.cluster.kill(broker_id)
            load.cluster.start(broker_id)
        load.wait_for_progress()
