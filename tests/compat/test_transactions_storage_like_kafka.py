"""Transactions as a partition knows them: Ottla and Apache Kafka answer alike, and their files are
alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.storage.transaction_index import decode
from tests.support.dump_log import assert_accepted
from tests.support.ottla_process import OttlaProcess
from tests.support.raw_partition import RawPartition
from tests.support.side_by_side import NOW_MS, Both, Subject, a_batch, assert_alike
from tools.apache_kafka import ApacheKafkaBroker

UNCOMMITTED, COMMITTED = 0, 1
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
LAST_EPOCH = 2**15 - 1

Look = Callable[[], None]


def interleaved(partition: RawPartition, look: Look) -> None:
    """Three producers whose transactions begin and end in each other, and one that has none."""
    a, b, c = (partition.new_producer() for _ in range(3))
    steps: list[Callable[[], Any]] = [
        lambda: partition.written(a, 0, b"a0", b"a1"),
        lambda: partition.subject.produce(partition.topic, a_batch(b"plain")),
        lambda: partition.written(b, 0, b"b0"),
        lambda: partition.mark(a, is_commit=False),
        lambda: partition.written(c, 0, b"c0", timestamp=NOW_MS + 5),
        lambda: partition.mark(c, is_commit=False),
        lambda: partition.written(a, 2, b"a2"),
        lambda: partition.mark(b, is_commit=True),
        lambda: partition.subject.produce(partition.topic, a_batch(b"plain")),
        lambda: partition.mark(a, is_commit=True),
        lambda: partition.written(b, 1, b"b1"),
    ]
    for step in steps:
        step()
        look()


def without_those_beyond(fetched: dict[str, Any]) -> dict[str, Any]:
    """Apache Kafka also names aborted transactions that begin after the last stable offset, of
    which no record is in the answer."""
    stable_offset = fetched["offsets"][1]
    if fetched["aborted"] is not None:
        fetched["aborted"] = [each for each in fetched["aborted"] if each[0] < stable_offset]
    return fetched


@pytest.mark.parametrize("version", [4, 7, 11, 12, 17])
def test_fetches(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic)
        seen: list[Any] = []

        def look() -> None:
            for isolation_level in (UNCOMMITTED, COMMITTED):
                fetched = partition.fetch(isolation_level, version=version)
                seen.append(without_those_beyond(fetched))
                end = fetched["offsets"][isolation_level == COMMITTED]
                for offset in range(1, end + 1):
                    fetched = partition.fetch(isolation_level, offset, version=version)
                    seen.append(without_those_beyond(fetched))

        interleaved(partition, look)
        return seen

    assert len(assert_alike(both, scenario)) > 100


def test_offsets_by_isolation_level(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic)
        seen: list[Any] = []

        def look() -> None:
            seen.extend(
                partition.offset_at(timestamp, isolation_level)
                for isolation_level in (UNCOMMITTED, COMMITTED)
                for timestamp in (LATEST, EARLIEST, NOW_MS, NOW_MS + 5, NOW_MS + 10**9)
            )

        interleaved(partition, look)
        return seen

    assert_alike(both, scenario)


def test_producers_are_described(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic)
        seen: list[Any] = []
        interleaved(partition, lambda: seen.append(partition.producers()))
        return seen

    assert_alike(both, scenario)


def test_markers_that_are_refused(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic)
        seen: list[Any] = []

        def mark(number: int, **marker: Any) -> None:
            seen.append(partition.mark(number, **{"is_commit": True, **marker}))
            seen.append(partition.producers())
            seen.append(partition.fetch(COMMITTED)["offsets"])

        one = partition.new_producer()
        mark(one, partitions=(0, 7))
        partition.written(one, 0, b"v")
        mark(one, coordinator_epoch=-2)
        mark(one, epoch=-1)
        mark(one, coordinator_epoch=5)
        partition.written(one, 1, b"v")
        mark(one, coordinator_epoch=4)
        mark(one, coordinator_epoch=5, transaction_version=2)
        mark(one, coordinator_epoch=5, transaction_version=2, epoch=1)
        mark(one, coordinator_epoch=5, transaction_version=2, epoch=1)
        mark(one, coordinator_epoch=5, transaction_version=2, epoch=0)
        mark(one, coordinator_epoch=5, transaction_version=1, epoch=0)
        mark(one, coordinator_epoch=5, transaction_version=0, epoch=1)
        mark(one, coordinator_epoch=4, transaction_version=2, epoch=2)
        mark(one, coordinator_epoch=6, transaction_version=2, epoch=LAST_EPOCH)
        mark(one, coordinator_epoch=6, transaction_version=2, epoch=LAST_EPOCH)
        unknown = partition.new_producer()
        mark(unknown, transaction_version=2, epoch=3, is_commit=False)
        mark(unknown, transaction_version=2, epoch=2, is_commit=False)
        return seen

    assert_alike(both, scenario)


def test_batches_around_a_marker(both: Both, topic: str) -> None:
    """Repeated, out of order, of other epochs, not transactional, of transactions that ended."""

    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic)
        seen: list[Any] = []

        def write(sequence: int, *values: bytes, **options: Any) -> None:
            answer = partition.write(one, sequence, *values, **options)
            seen.append((ErrorCode(answer.error_code).name, answer.base_offset))
            seen.append(partition.producers())

        one = partition.new_producer()
        write(3, b"v", b"w")  # No state: any sequence may be the first.
        write(5, b"x")
        write(3, b"v", b"w")
        write(7, b"gap")
        write(6, b"plain", is_transactional=False)
        write(6, b"old", epoch=-1)
        write(0, b"new", epoch=1)
        partition.mark(one, is_commit=False)
        write(5, b"x")  # A repeat, though its transaction has ended.
        write(5, b"x", b"y")
        write(7, b"gap")
        write(6, b"next")
        write(7, b"plain", is_transactional=False)
        partition.mark(one, is_commit=True, epoch=1, transaction_version=2)
        write(7, b"old")
        write(6, b"next")
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [11, 12, 13])
def test_the_first_sequence_of_a_transaction(both: Both, topic: str, version: int) -> None:
    """Since version 2 it is 0 where the partition knows no batch of the producer's epoch."""

    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic)
        seen: list[Any] = []
        is_version_2 = version >= 12
        one = partition.new_producer(is_version_2=is_version_2)

        def write(sequence: int, *values: bytes) -> None:
            answer = partition.write(one, sequence, *values, version=version)
            seen.append((ErrorCode(answer.error_code).name, answer.base_offset))

        for is_commit in (True, False):
            sequence = 0 if is_version_2 or is_commit else 2
            write(sequence + 2, b"too early")
            write(sequence + 1, b"too early")
            write(sequence, b"first")
            write(sequence + 1, b"second")
            write(sequence + 1, b"second")
            partition.end(one, is_commit=is_commit)
            if not is_version_2:
                partition.add(one)
        write(4, b"after the end")
        return [*seen, partition.producers()]

    assert_alike(both, scenario)


def test_a_transaction_that_was_not_announced(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic)
        other = RawPartition(subject, f"{topic}-other")
        one = other.new_producer()
        partition._producers = other._producers
        answers = [
            partition.write(one, 0, b"v"),
            partition.write(one, 0, b"v", version=10),
            partition.write(one, 0, b"v", epoch=1),
            partition.write(one, 0, b"v", is_transactional=False),
        ]
        return [(ErrorCode(one.error_code).name, one.base_offset) for one in answers]

    assert_alike(both, scenario)


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "zstd"},
        {"cleanup_policy": "compact"},
        {"flush_messages": "1"},
    ],
    ids=["plain", "stamped", "compressed", "compacted", "flushed"],
)
def test_the_bytes_of_markers(both: Both, topic: str, configs: dict[str, str]) -> None:
    def scenario(subject: Subject) -> Any:
        partition = RawPartition(subject, topic, **configs)
        interleaved(partition, lambda: None)
        fetched = partition.fetch(UNCOMMITTED)
        return [batch for batch in fetched["batches"] if batch[2] & 0x20]

    assert len(assert_alike(both, scenario)) == 4


def transaction_index(data_dir: Path, topic: str) -> dict[str, list[tuple[int, ...]]]:
    return {
        path.name: [each[1:] for each in decode(path.read_bytes(), int(path.stem))]
        for path in sorted((data_dir / f"{topic}-0").glob("*.txnindex"))
    }


def test_the_transaction_index(
    both: Both, topic: str, shared_broker: OttlaProcess, apache_kafka: ApacheKafkaBroker
) -> None:
    """Offsets are the same; producer ids are each broker's own."""
    for subject in both:
        # A segment for every two or three batches.
        partition = RawPartition(subject, topic, internal_segment_bytes="250")
        interleaved(partition, lambda: None)
    ottla = transaction_index(shared_broker.data_dir, topic)
    kafka = transaction_index(apache_kafka.log_dir, topic)
    assert ottla == {name: entries for name, entries in kafka.items() if entries}
    assert sum(map(len, ottla.values())) == 2
    assert assert_accepted([shared_broker.data_dir / f"{topic}-0"]) > 8
