"""What tasks do to place rows. How Spark then moves them is in tests/pipeline/test_sink.py."""

from __future__ import annotations

import pyarrow as pa

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.sink.packing import unpacked
from ottla.pipeline.sink.partitioner import partitions_of_keys
from ottla.pipeline.sink.placement import packed_rows
from ottla.pipeline.sink.write_options import WriteOptions
from tests.support.socket_broker import SocketBroker

KEYS = pa.array([b"a", b"b", b"c"], pa.binary())


def test_a_task_packs_rows_by_the_partitions_that_there_are() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["clicks"] * 3, "key": KEYS, "value": KEYS})
    with SocketBroker() as broker:
        options = WriteOptions.parse({"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}"})
        found = {
            where: rows["value"].to_pylist()
            for where, rows in unpacked(packed_rows(iter([batch]), options=options))
        }
    expected: dict[TopicPartition, list[bytes]] = {}
    for key, partition in zip(KEYS.to_pylist(), partitions_of_keys(KEYS, 2).tolist(), strict=True):
        expected.setdefault(TopicPartition("clicks", partition), []).append(key)
    assert found == expected
