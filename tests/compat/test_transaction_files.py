"""A partition with transactions moves between Ottla and Apache Kafka: what was aborted stays
hidden, what is open stays open, and the new broker ends it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.kernel.ids import topic_id_text
from ottla.records.batch import iter_headers
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.conftest import MakeBroker
from tests.support.committed_reader import read_committed
from tests.support.dump_log import assert_accepted
from tests.support.need import need_apache_kafka
from tests.support.raw_partition import RawPartition
from tests.support.side_by_side import Subject, a_batch
from tools.apache_kafka import ApacheKafkaBroker

pytestmark = pytest.mark.timeout(300)

TOPIC = "moves"
COMMITTED = [b"plain", b"kept", b"kept too", b"plain"]


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaBroker]:
    """One that a test may stop and put files under."""
    need_apache_kafka()
    with ApacheKafkaBroker(tmp_path_factory.mktemp("own-kafka"), heap_mb=512) as kafka:
        yield kafka


def write(bootstrap: str) -> int:
    """Returns the producer id of the transaction that is open: it begins before everything but the
    committed records, and goes through all segments."""
    with Subject("writer", bootstrap) as subject:
        partition = RawPartition(subject, TOPIC, internal_segment_bytes="300")
        opens, aborts, commits = (partition.new_producer() for _ in range(3))
        subject.produce(TOPIC, a_batch(b"plain"))
        partition.written(commits, 0, b"kept")
        partition.written(aborts, 0, b"aborted")
        partition.mark(commits, is_commit=True)
        partition.written(commits, 1, b"kept too")
        partition.written(aborts, 1, b"aborted")
        partition.mark(aborts, is_commit=False)
        partition.mark(commits, is_commit=True)
        subject.produce(TOPIC, a_batch(b"plain"))
        partition.written(opens, 0, b"open")
        for sequence in range(2, 8):
            partition.written(aborts, sequence, b"aborted")
            partition.mark(aborts, is_commit=False)
        return partition._producers[opens].producer_id


def committed(subject: Subject) -> list[bytes]:
    """Of all segments: one fetch is of one."""
    values: list[bytes] = []
    offset = 0
    while True:
        data = fetch(subject, offset)
        if offset >= data.last_stable_offset:
            return values
        values += read_committed(data)
        (*_, last) = _headers(data)
        offset = last.next_offset


def fetch(subject: Subject, offset: int) -> Any:
    answer = subject.fetch(TOPIC, offset, isolation_level=1)
    (data,) = answer.responses[0].partitions
    assert data.error_code == 0, data
    data.records = memoryview(bytes(data.records or b""))
    return data


def _headers(data: Any) -> list[Any]:
    return [header for _, header in iter_headers(data.records, allow_partial=True)]


def give(source: Path, target: Path, topic_id: str) -> None:
    shutil.rmtree(target)
    shutil.copytree(source, target)
    (target / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def forget_checkpoints(data_dir: Path, *, was_clean: bool) -> None:
    """What a broker noted of the folder that was there before."""
    for path in data_dir.iterdir():
        is_clean_mark = path.name == ".kafka_cleanshutdown"
        if path.name.endswith("-checkpoint") or (is_clean_mark and not was_clean):
            path.unlink()


def check(bootstrap: str, producer_id: int) -> None:
    with Subject("reader", bootstrap) as subject:
        assert committed(subject) == COMMITTED
        data = fetch(subject, 0)
        assert data.last_stable_offset < data.high_watermark
        topic = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
        marker = WritableTxnMarker(
            producer_id=producer_id, producer_epoch=0, transaction_result=True, topics=[topic]
        )
        answer = subject.ask(WriteTxnMarkersRequest(markers=[marker]))
        assert answer.markers[0].topics[0].partitions[0].error_code == 0
        assert committed(subject) == [*COMMITTED, b"open"]
        data = fetch(subject, 0)
        assert data.last_stable_offset == data.high_watermark


@pytest.mark.parametrize("was_clean", [True, False], ids=["stopped", "killed"])
def test_transactions_move_to_apache_kafka(
    make_broker: MakeBroker, own_kafka: ApacheKafkaBroker, was_clean: bool
) -> None:
    broker = make_broker()
    producer_id = write(broker.bootstrap)
    broker.stop() if was_clean else broker.kill()
    assert list((broker.data_dir / f"{TOPIC}-0").glob("*.txnindex"))
    assert_accepted([broker.data_dir])
    with Subject("Apache Kafka", own_kafka.bootstrap) as subject:
        subject.create(TOPIC)
        topic_id = topic_id_text(subject.topic_ids[TOPIC])
    own_kafka.stop()
    give(broker.data_dir / f"{TOPIC}-0", own_kafka.log_dir / f"{TOPIC}-0", topic_id)
    forget_checkpoints(own_kafka.log_dir, was_clean=was_clean)
    own_kafka.start()
    check(own_kafka.bootstrap, producer_id)


@pytest.mark.parametrize("was_clean", [True, False], ids=["stopped", "killed"])
def test_transactions_move_from_apache_kafka(
    make_broker: MakeBroker, own_kafka: ApacheKafkaBroker, was_clean: bool
) -> None:
    producer_id = write(own_kafka.bootstrap)
    own_kafka.stop() if was_clean else own_kafka.kill()
    broker = make_broker()
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create(TOPIC)
        topic_id = topic_id_text(subject.topic_ids[TOPIC])
    broker.stop()
    give(own_kafka.log_dir / f"{TOPIC}-0", broker.data_dir / f"{TOPIC}-0", topic_id)
    forget_checkpoints(broker.data_dir, was_clean=was_clean)
    broker.start()
    check(broker.bootstrap, producer_id)
    broker.stop()
    assert_accepted([broker.data_dir])
