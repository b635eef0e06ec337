"""Three brokers, as a user starts them: on one SQLite file, and on a real ZooKeeper."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ottla.cli.supervisor.stuck_writer import lock_holder
from tests.conftest import MakeBroker
from tests.support.ottla_cluster import OttlaCluster
from tests.support.ottla_process import OttlaProcess
from tests.support.zookeeper_process import ZooKeeperProcess

TIMEOUT_S = 60.0


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., OttlaCluster]]:
    clusters: list[OttlaCluster] = []

    def make(*args: str) -> OttlaCluster:
        cluster = OttlaCluster(tmp_path / "cluster", args=args)
        clusters.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in clusters:
        cluster.kill()


class Client:
    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "log_level": 2,
        }
        self.admin = AdminClient(self._common)

    def create(self, topic: str, partitions: int = 3) -> None:
        """librdkafka does not look for the controller again by itself, should it have moved."""
        new = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
        until_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self.admin.create_topics([new])[topic].result(TIMEOUT_S)
            except KafkaException as error:
                is_moved = error.args[0].code() == KafkaError.NOT_CONTROLLER
                if not is_moved or time.monotonic() > until_s:
                    raise
                self.admin.list_topics(timeout=TIMEOUT_S)
            else:
                return

    def produce(self, topic: str, values: Sequence[str]) -> None:
        """With acks=all; all of them are acknowledged."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer({**self._common, "enable.idempotence": True})
        for value in values:
            producer.produce(topic, value.encode(), on_delivery=delivered)
        assert producer.flush(TIMEOUT_S) == 0
        assert failed == []

    def consume(self, topic: str, count: int, group: str) -> set[str]:
        """As a member of a new group, from the beginning."""
        consumer = Consumer({**self._common, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        values: list[str] = []
        until_s = time.monotonic() + TIMEOUT_S
        while len(values) < count and time.monotonic() < until_s:
            for message in consumer.consume(count - len(values), timeout=1.0):
                assert message.error() is None, message.error()
                values.append((message.value() or b"").decode())
        consumer.commit(asynchronous=False)
        consumer.close()
        assert len(values) == count
        return set(values)

    def replicas(self, topic: str) -> set[int]:
        """How many each partition has."""
        described = self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        return {len(partition.replicas) for partition in described.partitions.values()}

    def in_sync(self, topic: str) -> set[tuple[int, ...]]:
        described = self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        return {tuple(sorted(partition.isrs)) for partition in described.partitions.values()}

    def wait_until_in_sync(self, topic: str, brokers: tuple[int, ...]) -> None:
        until_s = time.monotonic() + TIMEOUT_S
        while (found := self.in_sync(topic)) != {brokers}:
            assert time.monotonic() < until_s, f"in sync: {found}"
            time.sleep(0.1)

    def min_isr(self, topic: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return str(found["min.insync.replicas"].value)

    def transact(self, topic: str, value: str) -> None:
        producer = Producer({**self._common, "transactional.id": f"of-{topic}"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(topic, value.encode())
        producer.commit_transaction(TIMEOUT_S)


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def check_that_it_serves(client: Client) -> None:
    client.create("t")
    assert client.replicas("t") == {3}
    client.produce("t", numbers(0, 500))
    assert client.consume("t", 500, "g") == set(numbers(0, 500))
    client.transact("t", "500")
    for topic in ("__consumer_offsets", "__transaction_state"):
        assert client.replicas(topic) == {3}
    assert client.min_isr("__transaction_state") == "2"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_three_brokers_serve_and_stop_and_serve_again(
    make_cluster: Callable[..., OttlaCluster], number: signal.Signals
) -> None:
    cluster = make_cluster()
    check_that_it_serves(Client(cluster.bootstrap))
    cluster.stop(number)
    cluster.start()
    client = Client(cluster.bootstrap)
    client.wait_until_in_sync("t", (1, 2, 3))
    client.produce("t", numbers(501, 600))
    assert client.consume("t", 600, "h") == set(numbers(0, 600))
    cluster.stop(number)


def test_a_broker_that_is_killed_is_named_and_comes_back(
    make_cluster: Callable[..., OttlaCluster],
) -> None:
    cluster = make_cluster("--restart")
    client = Client(cluster.bootstrap)
    client.create("t")
    for broker_id in (1, 2, 3):
        client.produce("t", [f"before {broker_id}"])
        cluster.brokers()[broker_id].kill()
        cluster.line(rf"broker {broker_id} has died \(ended by SIGKILL\), its log is .*; starting")
        client.produce("t", [f"without {broker_id}"])
        cluster.line(rf"ready: broker {broker_id} on ")
        client.wait_until_in_sync("t", (1, 2, 3))
    expected = {f"{when} {n}" for when in ("before", "without") for n in (1, 2, 3)}
    assert client.consume("t", 6, "g") == expected
    cluster.stop()


def test_two_of_three_serve_on(make_cluster: Callable[..., OttlaCluster]) -> None:
    cluster = make_cluster()
    client = Client(cluster.bootstrap)
    client.create("t")
    client.produce("t", numbers(0, 100))
    # For groups: its first topic waits for three brokers.
    assert client.consume("t", 100, "f") == set(numbers(0, 100))
    cluster.brokers()[2].kill()
    cluster.line(r"broker 2 has died .* with --restart it would be started again")
    client.produce("t", numbers(100, 200))
    assert client.consume("t", 200, "g") == set(numbers(0, 200))
    cluster.stop()


def test_a_supervisor_that_is_killed_takes_its_brokers_with_it(
    make_cluster: Callable[..., OttlaCluster],
) -> None:
    cluster = make_cluster()
    client = Client(cluster.bootstrap)
    client.create("t")
    client.produce("t", numbers(0, 100))
    cluster.kill()
    cluster.start()
    assert Client(cluster.bootstrap).consume("t", 100, "g") == set(numbers(0, 100))


def test_a_broker_that_stands_still_does_not_keep_the_others_from_stopping(
    make_cluster: Callable[..., OttlaCluster],
) -> None:
    """The second signal does not wait."""
    cluster = make_cluster()
    brokers = cluster.brokers()
    brokers[3].send_signal(signal.SIGSTOP)
    supervisor = cluster._running()
    # Two of one kind at once may be one.
    supervisor.send_signal(signal.SIGTERM)
    supervisor.send_signal(signal.SIGINT)
    assert supervisor.wait(TIMEOUT_S) == 0
    _, left = psutil.wait_procs(list(brokers.values()), timeout=TIMEOUT_S)
    assert left == []
    cluster._process = None


def test_a_broker_that_stands_still_in_the_middle_of_a_write_is_ended(
    make_cluster: Callable[..., OttlaCluster],
) -> None:
    """It has the lock of the store, and no session of the others can be kept without that."""
    cluster = make_cluster("--set", "zookeeper.session.timeout.ms=6000", "--restart")
    client = Client(cluster.bootstrap)
    brokers = {broker.pid: broker for broker in cluster.brokers().values()}
    path = str(cluster.folder / "cluster.db")
    until_s, number = time.monotonic() + TIMEOUT_S, 0
    while True:
        assert time.monotonic() < until_s, "nobody was caught at it"
        if number % 100 == 0:
            client.admin.create_topics([NewTopic(f"t{number}", 20, 1)])
        number += 1
        pid = lock_holder(path)
        if pid is not None:
            brokers[pid].send_signal(signal.SIGSTOP)
            if lock_holder(path) == pid:
                break
            brokers[pid].send_signal(signal.SIGCONT)
    stuck = cluster.line(r"broker (\d) stands still in the middle of a write to cluster.db")
    cluster.line(rf"broker {stuck[1]} has died \(ended by SIGKILL\)")
    cluster.line(rf"ready: broker {stuck[1]} on ")
    client.create("after")
    client.produce("after", numbers(0, 10))
    cluster.stop()


def test_on_zookeeper(make_broker: MakeBroker, zookeeper: ZooKeeperProcess) -> None:
    connect = f"{zookeeper.address}/a/cluster"

    def make(broker_id: int) -> OttlaProcess:
        return make_broker(
            args=["--broker-id", str(broker_id), "--zookeeper", connect],
            settings={"zookeeper.session.timeout.ms": "6000"},
        )

    brokers = {broker_id: make(broker_id) for broker_id in (1, 2, 3)}
    client = Client(",".join(broker.bootstrap for broker in brokers.values()))
    check_that_it_serves(client)
    for broker_id in (1, 2, 3):
        brokers[broker_id].kill()
        client.produce("t", [f"without {broker_id}"])
        brokers[broker_id].start()
        client.wait_until_in_sync("t", (1, 2, 3))
    for broker_id in (1, 2, 3):
        brokers[broker_id].restart()
        client.wait_until_in_sync("t", (1, 2, 3))
    expected = {*numbers(0, 501), *(f"without {n}" for n in (1, 2, 3))}
    assert client.consume("t", 504, "h") == expected


def test_an_id_that_is_taken_is_refused(
    make_broker: MakeBroker, zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    args = ["--broker-id", "7", "--zookeeper", f"{zookeeper.address}/taken"]
    make_broker(args=args)
    command = [sys.executable, "-m", "ottla", "start", "--listen", "127.0.0.1:0", *args]
    done = subprocess.run(
        [*command, "--data-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ottla: the broker could not start: A broker with id 7 is running in this cluster. Stop "
        "it, or give this one another id."
    )
