"""What tasks do to place rows. How Spark then moves them is in tests/pipeline/test_sink.py."""

from __future__ import annotations

import pyarrow as pa

from ottla.pipeline.sink.partitioner import partitions_of_keys
from ottla.pipeline.sink.placement import choices
from ottla.pipeline.sink.write_options import WriteOptions
from tests.support.socket_broker import SocketBroker

KEYS = pa.array([b"a", b"b", b"c"], pa.binary())


def test_a_task_fills_in_partitions_batch_by_batch() -> None:
    options = WriteOptions.parse({"kafka.bootstrap.servers": "a:1", "topic": "clicks"})
    expected = partitions_of_keys(KEYS, 5).tolist()
    batches = iter([KEYS, KEYS.slice(1)])
    found = [one.to_pylist() for one in choices(batches, ["key"], options, {"clicks": 5})]
    assert found == [expected, expected[1:]]
    named = pa.array([None, 4, None], pa.int32())
    both = choices(iter([(KEYS, named)]), ["key", "partition"], options, {"clicks": 5})
    assert [one.to_pylist() for one in both] == [[expected[0], 4, expected[2]]]


def test_topics_that_rows_name_are_counted_by_the_task() -> None:
    with SocketBroker() as broker:
        options = WriteOptions.parse({"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}"})
        topics = pa.array(["clicks"] * 3)
        (found,) = choices(iter([(topics, KEYS)]), ["topic", "key"], options, {})
    assert found.type == pa.int32()
    assert found.to_pylist() == partitions_of_keys(KEYS, 2).tolist()
