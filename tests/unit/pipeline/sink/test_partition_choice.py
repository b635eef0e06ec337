from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.pipeline.sink.partition_choice import (
    PartitionChoice,
    RowError,
    distinct_topics,
    partition_count,
)
from ottla.pipeline.sink.partitioner import partitions_of_keys
from ottla.pipeline.source.given_options import OptionError
from tests.support.socket_broker import SocketBroker

COUNTS = {"clicks": 3, "views": 50}
KEYS = pa.array([b"a", b"b", b"c"], pa.binary())


@pytest.fixture
def choice() -> PartitionChoice:
    return PartitionChoice(COUNTS.__getitem__, first=1)


def named(*partitions: int | None) -> pa.Array:
    return pa.array(partitions, pa.int32())


def test_what_a_row_names_comes_before_its_key(choice: PartitionChoice) -> None:
    by_key = partitions_of_keys(KEYS, 3).tolist()
    assert choice.of_topic("clicks", KEYS, named(2, 0, 1), 3).tolist() == [2, 0, 1]
    assert choice.of_topic("clicks", KEYS, None, 3).tolist() == by_key
    assert choice.of_topic("clicks", KEYS, named(None, None, None), 3).tolist() == by_key
    assert choice.of_topic("clicks", KEYS, named(None, 2, None), 3).tolist() == [
        by_key[0],
        2,
        by_key[2],
    ]


def test_keys_may_be_text_and_come_in_chunks(choice: PartitionChoice) -> None:
    text = pa.chunked_array([["a"], ["b", "c"]], pa.string())
    assert choice.of_topic("clicks", text, None, 3).tolist() == partitions_of_keys(KEYS, 3).tolist()


def test_without_a_key_tasks_begin_at_different_partitions(choice: PartitionChoice) -> None:
    assert choice.of_topic("clicks", None, None, 2).tolist() == [1, 1]
    assert choice.of_topic("clicks", None, None, 2).tolist() == [2, 2]


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there(choice: PartitionChoice, partition: int) -> None:
    with pytest.raises(RowError, match=f"partition is {partition}, but topic clicks has 3"):
        choice.of_topic("clicks", None, named(0, partition), 2)


def test_a_topic_that_is_null() -> None:
    with pytest.raises(RowError, match="topic is null; fill column topic, or set option topic"):
        distinct_topics(pa.array(["clicks", None]))


def test_partitions_are_counted_where_they_are() -> None:
    with SocketBroker() as broker, BlockingCluster(broker.bootstrap) as cluster:
        assert partition_count(cluster, "clicks") == 2
        with pytest.raises(OptionError, match="there is no topic views at 127"):
            partition_count(cluster, "views")
