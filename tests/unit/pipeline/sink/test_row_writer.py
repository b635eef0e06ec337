from __future__ import annotations

import datetime
import pickle
from typing import Any

import pyarrow as pa
import pytest

from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.pipeline.rows.appender import Appended
from ottla.pipeline.sink.packing import packed
from ottla.pipeline.sink.partition_choice import RowError
from ottla.pipeline.sink.row_writer import write_rows
from ottla.pipeline.sink.sole_writer import NotSoleWriter
from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.source.given_options import OptionError
from tests.support.socket_broker import SocketBroker
from tests.support.socket_transactions import PRODUCER_ID, Transactions

PRODUCER = ProducerIdAndEpoch(PRODUCER_ID, 0)
ZERO, ONE = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


@pytest.fixture
def written(broker: SocketBroker) -> Transactions:
    return Transactions(broker)


def options(broker: SocketBroker, **others: str) -> WriteOptions:
    given = {"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}", "topic": "clicks"}
    given |= {f"kafka.{name.replace('_', '.')}": value for name, value in others.items()}
    return WriteOptions.parse(given)


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def named(*partitions: int) -> pa.Array:
    return pa.array(partitions, pa.int32())


def test_rows_go_to_their_partitions_in_their_order(
    broker: SocketBroker, written: Transactions
) -> None:
    batches = [
        rows(value=["a", "b", "c"], partition=named(1, 0, 1)),
        rows(value=[], partition=named()).cast(
            pa.schema([("value", pa.string()), ("partition", pa.int32())])
        ),
        rows(value=["d", "e"], partition=named(1, 0)),
    ]
    found = write_rows(batches, options(broker), task=4)
    assert (written.values(0), written.values(1)) == ([b"b", b"e"], [b"a", b"c", b"d"])
    assert found.partitions == {ZERO: Appended(0, 1, 2), ONE: Appended(0, 2, 3)}
    assert (found.task, found.row_count, found.producer) == (4, 5, None)
    assert pickle.loads(pickle.dumps(found)) == found
    assert written.ends == []


def test_all_that_a_record_has(broker: SocketBroker, written: Transactions) -> None:
    headers = pa.array(
        [[{"key": "h", "value": b"1"}]],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    when = datetime.datetime(2023, 11, 14, 22, 13, 20, 5000, datetime.UTC)
    times = pa.array([when], pa.timestamp("us", "UTC"))
    batch = rows(
        value=["v"], key=["k"], headers=headers, timestamp=times, partition=named(1), other=[1]
    )
    with_time = WriteOptions.parse(
        {
            "kafka.bootstrap.servers": f"127.0.0.1:{broker.port}",
            "topic": "clicks",
            "includeTimestamp": "true",
        }
    )
    write_rows([batch], with_time, task=0)
    (record,) = written.records[1]
    assert (record.key, record.value) == (b"k", b"v")
    assert record.timestamp == 1_700_000_000_005
    assert list(record.headers) == [("h", b"1")]


def test_topics_that_rows_name(broker: SocketBroker, written: Transactions) -> None:
    no_topic = WriteOptions.parse({"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}"})
    write_rows([rows(value=["a"], topic=["clicks"], partition=named(0))], no_topic, task=0)
    assert written.values(0) == [b"a"]
    with pytest.raises(RowError, match="topic is null"):
        write_rows([rows(value=["a"], topic=pa.array([None], pa.string()))], no_topic, task=0)
    with pytest.raises(OptionError, match="there is no topic views"):
        write_rows([rows(value=["a"], topic=["views"])], no_topic, task=0)


def test_in_a_transaction_it_is_written_as_its_producer(
    broker: SocketBroker, written: Transactions
) -> None:
    transactional = options(broker, transactional_id="mine")
    batch = rows(value=["a"], partition=named(0))
    found = write_rows([batch, batch], transactional, task=1, producer=PRODUCER)
    assert found.producer == PRODUCER
    assert written.values(0) == [b"a", b"a"]
    assert written.ends == []


def test_what_fails_gives_the_transaction_up(broker: SocketBroker, written: Transactions) -> None:
    transactional = options(broker, transactional_id="mine")
    batch = rows(value=["a"], partition=named(0))
    write_rows([batch], transactional, task=1, producer=PRODUCER)
    with pytest.raises(NotSoleWriter):
        write_rows([batch], transactional, task=2, producer=PRODUCER)
    assert written.values(0) == [b"a"]
    assert written.ends == ["abort"]


def test_packed_rows(broker: SocketBroker, written: Transactions) -> None:
    first = [(ONE, pa.table({"value": ["a", "b"]})), (ZERO, pa.table({"value": ["c"]}))]
    second = [(ONE, pa.table({"value": ["d"]}))]
    found = write_rows([packed(first), packed(second)], options(broker), task=0)
    assert (written.values(0), written.values(1)) == ([b"c"], [b"a", b"b", b"d"])
    assert found.row_count == 4
    assert write_rows([], options(broker), task=0).partitions == {}


def test_rows_that_were_packed_for_another_write(
    broker: SocketBroker, written: Transactions
) -> None:
    elsewhere = packed([(TopicPartition("views", 0), pa.table({"value": ["a"]}))])
    timed = packed([(ZERO, pa.table({"value": ["a"], "timestamp": [1]}))])
    for batch in (elsewhere, timed):
        with pytest.raises(RowError, match="rows were placed with other options"):
            write_rows([batch], options(broker), task=0)
    assert written.values(0) == []
