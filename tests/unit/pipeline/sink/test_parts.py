from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.sink.partition_choice import PartitionChoice
from ottla.pipeline.sink.partitioner import partitions_of_keys
from ottla.pipeline.sink.parts import GATHERED_BYTES, gathered, parts_of

COUNTS = {"clicks": 3, "views": 50}


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def named(*partitions: int | None) -> pa.Array:
    return pa.array(partitions, pa.int32())


def values_of(topic: str | None, *batches: pa.RecordBatch) -> list[tuple[str, int, list[str]]]:
    choice = PartitionChoice(COUNTS.__getitem__, first=1)
    return [
        (*where, part["value"].to_pylist())
        for parts in parts_of(batches, topic, choice)
        for where, part in parts
    ]


def test_rows_of_a_partition_stay_in_their_order() -> None:
    first = rows(value=["a", "b", "c"], partition=named(2, 0, 2))
    second = rows(value=["d", "e"], partition=named(0, 2))
    assert values_of("clicks", first, second) == [
        ("clicks", 0, ["b", "d"]),
        ("clicks", 2, ["a", "c", "e"]),
    ]
    assert values_of("clicks", first.slice(0, 1)) == [("clicks", 2, ["a"])]
    assert values_of("clicks") == []


def test_rows_that_name_their_topics() -> None:
    keys = pa.array([b"a", b"b", b"c"], pa.binary())
    batch = rows(
        value=["a", "b", "c"],
        key=keys,
        topic=["clicks", "views", "clicks"],
        partition=named(2, None, 0),
    )
    by_key = int(partitions_of_keys(keys, 50)[1])
    assert values_of(None, batch) == [
        ("clicks", 0, ["c"]),
        ("clicks", 2, ["a"]),
        ("views", by_key, ["b"]),
    ]


def test_small_batches_are_gathered_and_large_ones_are_not() -> None:
    small, large = rows(value=["a"]), rows(value=["a" * GATHERED_BYTES])
    found = [table.num_rows for table in gathered([small, small, large, large, small])]
    assert found == [3, 1, 1]
    assert list(gathered([])) == []


def test_a_part_has_all_columns_of_its_rows() -> None:
    choice = PartitionChoice(COUNTS.__getitem__, first=1)
    batch = rows(value=["a", "b"], key=["k", "l"], partition=named(1, 0))
    ((zero, one),) = parts_of([batch], "clicks", choice)
    assert zero[0] == TopicPartition("clicks", 0)
    assert one[1].to_pylist() == [{"value": "a", "key": "k", "partition": 1}]
