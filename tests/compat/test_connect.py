"""A distributed worker of Kafka Connect with a source that is exactly once (KIP-618), killed and
started again."""

from __future__ import annotations

import json
import random
import socket
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.support.counts import count
from tests.support.group_members import wait_until
from tests.support.need import need_apache_kafka
from tests.support.restartable_process import RestartableProcess
from tests.support.transactional_clients import read_by_confluent
from tools.apache_kafka import quick_command

TIMEOUT_S = 60
SEED = 20_240_505
CONNECTOR = "lines"
INTERNAL_TOPICS = ("config", "offset", "status")


class Worker(RestartableProcess):
    """One process, in a folder that outlives it. Its connectors are kept in Kafka's topics."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "listeners": self._url,
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            # Whoever comes after one that was killed waits for this.
            "session.timeout.ms": "3000",
            "heartbeat.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
            **{f"{one}.storage.topic": f"{name}-{one}" for one in INTERNAL_TOPICS},
            **{f"{one}.storage.replication.factor": "1" for one in INTERNAL_TOPICS},
        }
        path = folder / "worker.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        super().__init__(
            quick_command("org.apache.kafka.connect.cli.ConnectDistributed", str(path))
        )

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """None while it cannot answer."""
        request = urllib.request.Request(
            f"{self._url}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409, 500):  # Starting, or rebalancing.
                raise
            return None
        except OSError:
            assert self.is_running, "the worker has ended"
            return None

    def go_on(self) -> None:
        """Starts tasks again that have failed for a reason which is not the broker's. Apache
        Kafka's producer looks whether it has batches to send before it looks whether it is to
        commit: both may come in between, and it asks to commit what it never sent (4.3.0, with
        transactions version 2). That is refused."""
        status = self.ask("GET", f"/connectors/{CONNECTOR}/status")
        for task in status["tasks"] if status else ():
            if task["state"] == "FAILED":
                assert "InvalidTxnStateException" in task["trace"], task["trace"]
                self.ask("POST", f"/connectors/{CONNECTOR}/tasks/{task['id']}/restart")


class Lines:
    """A file that grows. FileStreamSource reads 1024 characters at a time, and keeps back what has
    no place in a batch until more comes: so eight lines are 1024 characters, a batch twice that."""

    LENGTH = 128
    BATCH_SIZE = 16

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[bytes] = []

    def write(self, line_count: int) -> None:
        numbers = range(len(self.written), len(self.written) + line_count)
        more = [b"%d" % number for number in numbers]
        more = [line.ljust(self.LENGTH - 1, b".") for line in more]
        with open(self.path, "ab") as file:
            file.write(b"".join(line + b"\n" for line in more))
        self.written += more


class Committed:
    """Counts the lines that are committed, while more of them come."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.line_count = 0
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def wait_for(self, line_count: int, worker: Worker) -> None:
        def is_there() -> bool:
            if not (found := self._consumer.consume(1000, 0.5)):
                worker.go_on()
            self.line_count += sum(message.error() is None for message in found)
            return self.line_count >= line_count

        wait_until(is_there, f"{line_count} lines")

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.timeout(600)
def test_a_file_is_read_exactly_once(
    transactional_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    need_apache_kafka()
    bootstrap = transactional_bootstrap
    rng = random.Random(SEED)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    lines = Lines(tmp_path / "lines.txt")
    lines.write(2000)
    worker = Worker(bootstrap, topic, tmp_path)
    try:
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(lines.path),
            "topic": topic,
            "batch.size": str(lines.BATCH_SIZE),
            "exactly.once.support": "required",
            "transaction.boundary": "poll",
            # A worker reads its offsets only once the transaction of one that was killed is over.
            "producer.override.transaction.timeout.ms": "5000",
        }
        path = f"/connectors/{CONNECTOR}/config"
        wait_until(lambda: bool(worker.ask("PUT", path, config)), "the connector is made")
        with closing(Committed(bootstrap, topic)) as committed:
            for _ in range(count(full=5, quick=1)):
                committed.wait_for(committed.line_count + rng.randrange(1, 1000), worker)
                worker.kill()
                lines.write(2000)
                worker.start()
            committed.wait_for(len(lines.written), worker)
        worker.stop()
    finally:
        worker.kill()
    assert read_by_confluent(bootstrap, topic, 1, "read_committed") == {0: lines.written}
    resources = [ConfigResource("topic", f"{topic}-{one}") for one in INTERNAL_TOPICS]
    for future in admin.describe_configs(resources).values():
        assert future.result(TIMEOUT_S)["cleanup.policy"].value == "compact"
