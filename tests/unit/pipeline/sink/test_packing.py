from __future__ import annotations

import pyarrow as pa

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.sink.packing import PACKED, is_packed, packed, unpacked
from ottla.pipeline.sink.parts import GATHERED_BYTES

ZERO, ONE = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(*values: str | None) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.string())})


def test_what_is_packed_comes_out_again() -> None:
    rows = pa.table(
        {
            "key": pa.array([b"k", None, b"l"], pa.binary()),
            "value": pa.array([None, b"", b"v"], pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS),
        }
    )
    batch = packed([(ONE, rows.slice(1)), (ZERO, rows.slice(0, 1))])
    assert batch.schema.names == ["topic", "partition", PACKED]
    assert batch["partition"].to_pylist() == [1, 0]
    assert list(unpacked([batch])) == [(ONE, rows.slice(1)), (ZERO, rows.slice(0, 1))]


def test_where_rows_go_is_not_packed_with_each() -> None:
    rows = pa.table({"topic": ["clicks"], "partition": [1], "value": ["a"]})
    ((_, found),) = unpacked([packed([(ONE, rows)])])
    assert found.column_names == ["value"]


def test_what_is_packed_has_these_columns_and_no_others() -> None:
    assert is_packed(packed([]).schema.names)
    assert not is_packed(["value", PACKED])


def test_a_packed_slice_has_nothing_of_the_rest() -> None:
    long = table("a" * 100_000, "b")
    assert len(packed([(ONE, long.slice(1))])[PACKED][0].as_py()) < 1000


def test_rows_of_a_partition_are_joined_in_their_order() -> None:
    batches = [packed([(ONE, table("a")), (ZERO, table("b"))]), packed([(ONE, table("c", "d"))])]
    assert list(unpacked(batches)) == [(ONE, table("a", "c", "d")), (ZERO, table("b"))]
    assert list(unpacked([packed([])])) == []


def test_no_more_is_held_than_some_megabytes() -> None:
    large = table("a" * GATHERED_BYTES)
    found = list(unpacked([packed([(ONE, large), (ONE, large), (ZERO, table("b"))])]))
    assert [(where, rows.num_rows) for where, rows in found] == [(ONE, 1), (ONE, 1), (ZERO, 1)]
