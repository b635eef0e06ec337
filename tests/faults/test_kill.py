"""kill -9 under load: every record that was acknowledged is there, once and in order."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import MakeBroker
from tests.support.counts import count
from tests.support.dump_log import assert_accepted
from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess

TOPIC = "load"
PARTITION_COUNT = 4
PRODUCER_COUNT = 3
TIMEOUT_S = 60
SEED = 20_240_501


class Load:
    """One idempotent producer with acks=all, in a thread of its own. It numbers its records for
    each partition, and remembers which the broker acknowledged."""

    def __init__(self, bootstrap: str, name: str, seed: int) -> None:
        self.name = name
        self.sent: dict[int, int] = defaultdict(int)
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.errors: list[KafkaError] = []
        self._random = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "compression.type": self._random.choice(["none", "lz4", "zstd"]),
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 300_000,
                "log_level": 0,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    @property
    def acknowledged_count(self) -> int:
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits until all that was sent is answered."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(2 * TIMEOUT_S) == 0, f"{self.name}: not all was answered"
        assert not self.errors, f"{self.name}: {self.errors[:3]}"

    def _run(self) -> None:
        while not self._stopping.is_set():
            partition = self._random.randrange(PARTITION_COUNT)
            number = self.sent[partition]
            padding = b"." * self._random.randrange(500)
            try:
                self._producer.produce(
                    TOPIC,
                    b"%d %s" % (number, padding),
                    self.name.encode(),
                    partition=partition,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            self.sent[partition] += 1
            # At most so many under way: the memory of this process, and the time at the end.
            while len(self._producer) > 500 and not self._stopping.is_set():
                self._producer.poll(0.02)
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.partition() or 0].append(number_of(message))


def number_of(message: Message) -> int:
    return int((message.value() or b"").split(b" ", 1)[0])


def create_topic(bootstrap: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic(TOPIC, PARTITION_COUNT, 1, config=config)
    admin.create_topics([topic])[TOPIC].result(TIMEOUT_S)


def read_all(bootstrap: str) -> dict[tuple[str, int], list[int]]:
    """Numbers by producer and partition, in the order of offsets."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "unused"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "check.crcs": True})
    partitions = [TopicPartition(TOPIC, number, 0) for number in range(PARTITION_COUNT)]
    left = sum(consumer.get_watermark_offsets(one, TIMEOUT_S)[1] for one in partitions)
    consumer.assign(partitions)
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    deadline_s = time.monotonic() + TIMEOUT_S
    while left > 0 and time.monotonic() < deadline_s:
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None, message.error()
            producer = bytes(message.key() or b"").decode()
            found[producer, message.partition() or 0].append(number_of(message))
            left -= 1
    consumer.close()
    assert left == 0, f"{left} records could not be read"
    return found


def assert_all_there(broker: OttlaProcess, loads: list[Load]) -> None:
    found = read_all(broker.bootstrap)
    for load in loads:
        for partition, sent_count in load.sent.items():
            numbers = found[load.name, partition]
            assert numbers == list(range(sent_count)), f"{load.name} in partition {partition}"
            assert sorted(load.acknowledged[partition]) == numbers


def wait_for_progress(loads: list[Load], record_count: int) -> None:
    """Until each producer has so many more records acknowledged."""
    wanted = [load.acknowledged_count + record_count for load in loads]
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(
        load.acknowledged_count < goal and not load.errors
        for load, goal in zip(loads, wanted, strict=True)
    ):
        assert time.monotonic() < deadline_s, "producers make no progress"
        time.sleep(0.005)


@pytest.mark.timeout(600)
def test_kill_under_load(make_broker: MakeBroker) -> None:
    need_apache_kafka()
    rng = random.Random(SEED)
    broker = make_broker()
    # Small segments: kills also hit rolling, indexes and producer snapshots.
    create_topic(broker.bootstrap, internal_segment_bytes="200000")
    loads = [Load(broker.bootstrap, f"p{n}", SEED + n) for n in range(PRODUCER_COUNT)]
    for load in loads:
        load.start()
    try:
        for _ in range(count(20, quick=4)):
            wait_for_progress(loads, rng.randrange(1, 3000))
            broker.kill()
            broker.start()
        wait_for_progress(loads, 1)
    finally:
        for load in loads:
            load.stop()
    assert_all_there(broker, loads)
    broker.stop()
    assert assert_accepted([broker.data_dir]) > 0


@pytest.mark.timeout(300)
def test_sigterm_under_load(make_broker: MakeBroker) -> None:
    """A clean stop refuses nobody for good: producers go on with the broker that comes next."""
    rng = random.Random(SEED)
    broker = make_broker()
    create_topic(broker.bootstrap)
    loads = [Load(broker.bootstrap, f"p{n}", SEED + n) for n in range(PRODUCER_COUNT)]
    for load in loads:
        load.start()
    try:
        for _ in range(count(10, quick=3)):
            wait_for_progress(loads, rng.randrange(1, 2000))
            broker.restart()
        wait_for_progress(loads, 1)
    finally:
        for load in loads:
            load.stop()
    assert_all_there(broker, loads)


def test_a_second_broker_on_the_same_data_dir(make_broker: MakeBroker) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap)
    load = Load(broker.bootstrap, "p", SEED)
    load.start()
    try:
        second = subprocess.run(
            [
                *(sys.executable, "-m", "ottla", "start"),
                *("--data-dir", str(broker.data_dir), "--listen", "127.0.0.1:0"),
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")},
        )
        wait_for_progress([load], 100)
    finally:
        load.stop()
    assert second.returncode != 0
    assert str(broker.data_dir) in second.stderr, "it says which folder"
    assert "another" in second.stderr, "and why"
    assert "Traceback" not in second.stderr
    assert_all_there(broker, [load])
