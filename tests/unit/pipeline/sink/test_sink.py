from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import IntegerType, StringType, StructType

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.sink.batch_transaction import BatchFailed
from ottla.pipeline.sink.checkpoint import CheckpointError
from ottla.pipeline.sink.ledger import LedgerError, marked
from ottla.pipeline.sink.sink import BatchWriter, StreamWriter, check_stages, write_options
from ottla.pipeline.sink.transaction import LedgerEntry
from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.sink.write_schema import ColumnError
from ottla.pipeline.source.given_options import OptionError
from ottla.pipeline.source.source import OttlaDataSource
from tests.support.socket_broker import SocketBroker
from tests.support.socket_transactions import Transactions
from tests.support.task_context import Context

ROWS = StructType().add("value", StringType()).add("partition", IntegerType())
INPUT = TopicPartition("clicks", 1)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Of a query that has planned batch 2."""
    (tmp_path / "metadata").write_text('{"id":"query"}')
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "2").write_text("v1\n{}\n" + json.dumps({"clicks": {"1": 8}}))
    return str(tmp_path)


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says in which task and attempt what follows runs."""

    def enter(task: int, attempt: int = 0, batch: int = 0) -> None:
        monkeypatch.setattr(TaskContext, "get", lambda: Context(task, attempt=attempt, batch=batch))

    return enter


def options(broker: SocketBroker, **others: str) -> WriteOptions:
    given = {"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}", "topic": "clicks"}
    return WriteOptions.parse({**given, **others})


def exactly_once(broker: SocketBroker, checkpoint: str) -> StreamWriter:
    others = {"kafka.transactional.id": "mine", "checkpointLocation": checkpoint}
    return StreamWriter(options(broker, **others))


def rows(partition: int, *values: str) -> Iterator[pa.RecordBatch]:
    numbers = pa.array([partition] * len(values), pa.int32())
    yield pa.RecordBatch.from_pydict({"value": list(values), "partition": numbers})


def sent(thing: Any) -> Any:
    """As it comes out in another process of Spark's."""
    return pickle.loads(pickle.dumps(thing))


def test_a_plain_batch(broker: SocketBroker, brokers_side: Transactions, in_task: Any) -> None:
    writer = sent(BatchWriter(options(broker)))
    in_task(0, attempt=2)
    message = sent(writer.write(rows(1, "a", "b")))
    writer.commit([message])
    writer.abort([None])
    assert brokers_side.values(1) == [b"a", b"b"]
    assert brokers_side.ends == []


def test_a_batch_in_one_transaction(
    broker: SocketBroker, brokers_side: Transactions, in_task: Any
) -> None:
    writer = BatchWriter(options(broker, **{"kafka.transactional.id": "mine"}))
    messages = []
    for task in range(2):
        in_task(task)
        messages.append(sent(sent(writer).write(rows(task, "a"))))
    sent(writer).commit(messages)
    assert (brokers_side.ends, brokers_side.committed) == (["commit"], {})


def test_a_batch_that_is_given_up_leaves_nothing_open(
    broker: SocketBroker, brokers_side: Transactions, in_task: Any, checkpoint: str
) -> None:
    in_task(0)
    writer = BatchWriter(options(broker, **{"kafka.transactional.id": "mine"}))
    sent(writer).abort([sent(sent(writer).write(rows(0, "a"))), None])
    assert brokers_side.ends == ["abort"]

    message = sent(sent(exactly_once(broker, checkpoint)).write(rows(0, "a")))
    exactly_once(broker, checkpoint).abort([None, message], 2)
    assert brokers_side.ends == ["abort", "abort"]
    exactly_once(broker, checkpoint).abort([None], 2)  # no task has said who wrote
    assert brokers_side.ends == ["abort", "abort"]


def test_a_streams_batch_commits_its_offsets_once(
    broker: SocketBroker, brokers_side: Transactions, in_task: Any, checkpoint: str
) -> None:
    in_task(0)
    for ends in (["commit"], ["commit", "abort"]):  # the second is a replay
        message = sent(sent(exactly_once(broker, checkpoint)).write(rows(0, "a")))
        exactly_once(broker, checkpoint).commit([message], 2)
        assert brokers_side.ends == ends
    assert brokers_side.committed == marked({INPUT: 8}, LedgerEntry("query", 2))


@pytest.mark.parametrize(("committed", "batch_id"), [(7, 2), (8, 3)])
def test_a_streams_batch_that_cannot_be_committed_leaves_nothing_open(
    broker: SocketBroker,
    brokers_side: Transactions,
    in_task: Any,
    checkpoint: str,
    committed: int,
    batch_id: int,
) -> None:
    """The output is ahead of the checkpoint, or the checkpoint has no such batch: readers of
    committed records would wait for the time-out of what the tasks have written."""
    brokers_side.committed = marked({INPUT: committed}, LedgerEntry("query", 2))
    in_task(0)
    message = sent(sent(exactly_once(broker, checkpoint)).write(rows(0, "a")))
    with pytest.raises((LedgerError, CheckpointError)):
        exactly_once(broker, checkpoint).commit([message], batch_id)
    assert brokers_side.ends == ["abort"]


def test_a_plain_stream(broker: SocketBroker, brokers_side: Transactions, in_task: Any) -> None:
    in_task(0)
    writer = sent(StreamWriter(options(broker)))
    writer.commit([sent(writer.write(rows(0, "a")))], 0)
    writer.abort([None], 0)
    assert (brokers_side.values(0), brokers_side.ends) == ([b"a"], [])


def test_rows_without_keys_go_to_other_partitions_in_other_batches(
    broker: SocketBroker, brokers_side: Transactions, in_task: Any
) -> None:
    """Also where each batch has one task."""
    writer = sent(StreamWriter(options(broker)))
    for batch in range(4):
        in_task(0, batch=batch)
        writer.write(iter([pa.RecordBatch.from_pydict({"value": [str(batch)]})]))
    assert brokers_side.values(0) == [b"0", b"2"]
    assert brokers_side.values(1) == [b"1", b"3"]


def test_two_tasks_on_one_partition(
    broker: SocketBroker, brokers_side: Transactions, in_task: Any, checkpoint: str
) -> None:
    writer = exactly_once(broker, checkpoint)
    in_task(0)
    message = sent(writer).write(rows(0, "a"))
    with pytest.raises(BatchFailed, match="both wrote to clicks-0"):
        exactly_once(broker, checkpoint).commit([message, message], 2)
    assert (brokers_side.ends, brokers_side.committed) == (["abort"], {})


def test_a_task_that_is_run_again_fails_the_batch(
    broker: SocketBroker, brokers_side: Transactions, in_task: Any, checkpoint: str
) -> None:
    writer = sent(exactly_once(broker, checkpoint))
    in_task(3, attempt=1)
    with pytest.raises(BatchFailed, match="task 3 was run again"):
        writer.write(rows(0, "a"))
    assert brokers_side.values(0) == []


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_stage_that_is_run_again_fails_the_batch(attempt: int) -> None:
    session = Mock()
    ask = session.sparkContext.statusTracker().getStageInfo
    ask.side_effect = {3: None, 4: Mock(currentAttemptId=attempt)}.get
    if attempt:
        with pytest.raises(BatchFailed, match="ran some tasks of the batch again"):
            check_stages(session, {3, 4})
    else:
        check_stages(session, {3, 4})


def test_exactly_once_needs_the_checkpoint(broker: SocketBroker) -> None:
    with pytest.raises(OptionError, match="checkpointLocation: is missing; set it on the query"):
        StreamWriter(options(broker, **{"kafka.transactional.id": "mine"}))


def test_what_a_write_may_be() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "topic": "clicks"}
    assert write_options(given, ROWS, False) == WriteOptions.parse(given)
    with pytest.raises(OptionError, match="a topic cannot be overwritten; set it to append"):
        write_options(given, ROWS, True)
    with pytest.raises(ColumnError, match="column value: is missing"):
        write_options(given, StructType().add("key", StringType()), False)


def test_the_data_source_has_both_writers() -> None:
    source = OttlaDataSource({"kafka.bootstrap.servers": "a:1", "topic": "clicks"})
    assert isinstance(source.writer(ROWS, False), BatchWriter)
    assert isinstance(source.streamWriter(ROWS, False), StreamWriter)
