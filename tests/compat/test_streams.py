"""Kafka Streams with `exactly_once_v2`: a word count of two instances that are killed in turn."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.counts import count
from tests.support.group_members import wait_until
from tests.support.need import need_apache_kafka
from tests.support.restartable_process import RestartableProcess
from tools.apache_kafka import quick_command

PROGRAM = Path(__file__).parent.parent / "support/java/WordCount.java"
PARTITION_COUNT = 2
WORDS = [f"word-{number}" for number in range(20)]
TIMEOUT_S = 60
SEED = 20_240_504


class Instance(RestartableProcess):
    """One process. Its folder outlives it."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            quick_command(
                str(PROGRAM), bootstrap, topic, f"{topic}-lines", f"{topic}-counts", str(folder)
            )
        )


class Counts:
    """What the instances have committed, from the beginning."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.by_word: dict[str, list[int]] = defaultdict(list)
        """The numbers of each word, in the order of offsets."""
        self.total = 0
        self._ended: set[int] = set()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(settings)
        self._consumer.assign(
            [TopicPartition(topic, number, 0) for number in range(PARTITION_COUNT)]
        )

    def _read(self) -> None:
        for message in self._consumer.consume(1000, 0.05):
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                self._ended.add(message.partition() or 0)
                continue
            self.by_word[bytes(message.key() or b"").decode()].append(int(message.value() or b"0"))
            self.total += 1

    def read(self, total: int) -> None:
        def has_read() -> bool:
            self._read()
            return self.total >= total

        wait_until(has_read, f"{total} words are counted")

    def read_to_the_end(self) -> None:
        def is_at_end() -> bool:
            self._read()
            return len(self._ended) == PARTITION_COUNT

        wait_until(is_at_end, "all is read")

    def close(self) -> None:
        self._consumer.close()


def create(bootstrap: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(topic, PARTITION_COUNT, 1) for topic in topics]
    for future in admin.create_topics(wanted).values():
        future.result(TIMEOUT_S)


def write(bootstrap: str, topic: str, rng: random.Random, line_count: int) -> dict[str, int]:
    """How often each word is written."""
    written: dict[str, int] = defaultdict(int)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(line_count):
        line = rng.choices(WORDS, k=3)
        for word in line:
            written[word] += 1
        producer.produce(topic, " ".join(line), partition=number % PARTITION_COUNT)
    assert producer.flush(TIMEOUT_S) == 0
    return written


@pytest.mark.timeout(600)
def test_word_count_whose_instances_are_killed_in_turn(
    transactional_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    need_apache_kafka()
    bootstrap = transactional_bootstrap
    rng = random.Random(SEED)
    create(bootstrap, f"{topic}-lines", f"{topic}-counts")
    counts = Counts(bootstrap, f"{topic}-counts")
    instances = [Instance(bootstrap, topic, tmp_path / name) for name in ("one", "other")]
    written: dict[str, int] = defaultdict(int)

    def write_more() -> None:
        for word, times in write(bootstrap, f"{topic}-lines", rng, 200).items():
            written[word] += times

    try:
        for number in range(count(full=10, quick=2)):
            write_more()
            counts.read(counts.total + rng.randrange(1, 300))
            instance = instances[number % 2]
            instance.kill()
            write_more()
            instance.start()
        counts.read(sum(written.values()))
        for instance in instances:
            instance.stop()
    finally:
        for instance in instances:
            instance.kill()
        counts.close()
    found = Counts(bootstrap, f"{topic}-counts")
    found.read_to_the_end()
    found.close()
    expected = {word: list(range(1, times + 1)) for word, times in written.items()}
    assert found.by_word == expected, "each word counted once, and in order"
