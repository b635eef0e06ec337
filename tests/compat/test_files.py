"""The files are Kafka's: its own tool accepts them, and a folder moves between the two brokers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.kernel.ids import topic_id_text
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.conftest import MakeBroker
from tests.support.clients import CLIENTS, Message
from tests.support.dump_log import assert_accepted
from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS, Subject, a_batch
from tools.apache_kafka import ApacheKafkaBroker

pytestmark = pytest.mark.timeout(300)

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]
MESSAGES = [
    Message(b"key-%d" % n, b"value %d " % n * 20, (("h", b"%d" % n),), NOW_MS + n)
    for n in range(200)
]


@pytest.fixture(autouse=True)
def apache_kafka_is_there() -> None:
    need_apache_kafka()


def write(bootstrap: str, topic: str) -> None:
    """Rolled segments with every compression, by idempotent producers."""
    with Subject("writer", bootstrap) as subject:
        subject.create(topic, internal_segment_bytes="20000")
    for compression in COMPRESSIONS:
        # A batch must fit into a segment.
        for start in range(0, len(MESSAGES), 40):
            some = MESSAGES[start : start + 40]
            CLIENTS["confluent-kafka"].produce(bootstrap, topic, some, compression)


def expected() -> list[Message]:
    return MESSAGES * len(COMPRESSIONS)


def test_every_file_is_accepted(make_broker: MakeBroker) -> None:
    broker = make_broker()
    write(broker.bootstrap, "rolled")
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create(
            "stamped", message_timestamp_type="LogAppendTime", segment_index_bytes="1000"
        )
        subject.create("recompressed", compression_type="zstd", index_interval_bytes="100")
        subject.create("empty")
        for n in range(200):
            for topic in ("stamped", "recompressed"):
                subject.produce(topic, a_batch(b"%d" % n, b"x" * 200))
        partition = DeleteRecordsPartition(partition_index=0, offset=300)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="rolled", partitions=[partition])], timeout_ms=10_000
        )
        assert subject.ask(request).topics[0].partitions[0].error_code == 0
    assert_accepted([broker.data_dir])  # as they are while it runs
    broker.kill()
    assert_accepted([broker.data_dir])  # as a crash leaves them
    broker.start()
    broker.stop()
    assert assert_accepted([broker.data_dir]) > 20


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaBroker]:
    """One that a test may stop and put files under."""
    with ApacheKafkaBroker(tmp_path_factory.mktemp("own-kafka"), heap_mb=512) as kafka:
        yield kafka


def give(source: Path, target: Path, topic_id: str) -> None:
    """A partition's folder in the place of another. The topic's id is the target's."""
    shutil.rmtree(target)
    shutil.copytree(source, target)
    (target / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def forget_checkpoints(data_dir: Path) -> None:
    """What a broker noted of the folder that was there before."""
    for path in data_dir.iterdir():
        if path.name.endswith("-checkpoint") or path.name == ".kafka_cleanshutdown":
            path.unlink()


def test_a_folder_moves_to_apache_kafka(
    make_broker: MakeBroker, own_kafka: ApacheKafkaBroker
) -> None:
    broker = make_broker()
    write(broker.bootstrap, "moves")
    broker.stop()
    with Subject("Apache Kafka", own_kafka.bootstrap) as subject:
        subject.create("moves")
        topic_id = topic_id_text(subject.topic_ids["moves"])
    own_kafka.stop()
    give(broker.data_dir / "moves-0", own_kafka.log_dir / "moves-0", topic_id)
    forget_checkpoints(own_kafka.log_dir)
    own_kafka.start()
    read = CLIENTS["confluent-kafka"].consume(own_kafka.bootstrap, "moves", len(expected()))
    assert read == expected()
    # Not by an idempotent producer: Kafka would give it an id that one of Ottla's had, and take
    # its first batch for a repeated one.
    with Subject("Apache Kafka", own_kafka.bootstrap) as subject:
        assert subject.produce("moves", a_batch(b"more")).base_offset == len(expected())


def end_offset(bootstrap: str, topic: str) -> Any:
    with Subject("reader", bootstrap) as subject:
        return subject.fetch(topic).responses[0].partitions[0].high_watermark


def test_a_folder_moves_from_apache_kafka(
    make_broker: MakeBroker, own_kafka: ApacheKafkaBroker
) -> None:
    write(own_kafka.bootstrap, "moves")
    own_kafka.stop()
    broker: OttlaProcess = make_broker()
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("moves")
        topic_id = topic_id_text(subject.topic_ids["moves"])
    broker.stop()
    give(own_kafka.log_dir / "moves-0", broker.data_dir / "moves-0", topic_id)
    forget_checkpoints(broker.data_dir)
    broker.start()
    assert end_offset(broker.bootstrap, "moves") == len(expected())
    read = CLIENTS["confluent-kafka"].consume(broker.bootstrap, "moves", len(expected()))
    assert read == expected()
    # Ottla finds in the log which ids were given out elsewhere.
    CLIENTS["confluent-kafka"].produce(broker.bootstrap, "moves", MESSAGES[:40], "zstd")
    read = CLIENTS["aiokafka"].consume(broker.bootstrap, "moves", len(expected()) + 40)
    assert read == expected() + MESSAGES[:40]


def test_a_data_dir_of_apache_kafka_is_taken_over(
    make_broker: MakeBroker, own_kafka: ApacheKafkaBroker
) -> None:
    """As it is: Ottla finds the topics by their folders."""
    write(own_kafka.bootstrap, "moves")
    own_kafka.stop()
    broker: OttlaProcess = make_broker(start=False)
    shutil.copytree(own_kafka.log_dir, broker.data_dir)
    shutil.rmtree(broker.data_dir / "__cluster_metadata-0")
    broker.start()
    read = CLIENTS["confluent-kafka"].consume(broker.bootstrap, "moves", len(expected()))
    assert read == expected()
