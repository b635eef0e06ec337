"""Without Spark: frames are tables of Arrow. With Spark, and with crashes: tests/pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from ottla.pipeline.lake import table as lake_table
from ottla.pipeline.lake.lake import Lake, LakeCommit
from ottla.pipeline.lake.schema import LakeError
from ottla.pipeline.lake.table import LakeTable
from tests.support.arrow_frame import arrow_frame

OFFSETS = {"topic": {"0": [5, 9]}}


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return Lake(tmp_path).table("t")


def append(table: LakeTable, batch_id: int, *, query_id: str = "q", **columns: Any) -> bool:
    commit = LakeCommit(query_id, batch_id, OFFSETS)
    return table.append(arrow_frame(pa.table(columns)), commit)


def upsert(table: LakeTable, batch_id: int, keys: list[str], **columns: Any) -> bool:
    frame = arrow_frame(pa.table(columns))
    return table.upsert(frame, LakeCommit("q", batch_id, OFFSETS), keys=keys)


def replace(table: LakeTable, query_id: str, **columns: Any) -> bool:
    commit = LakeCommit(query_id, 0, is_replacing=True)
    return table.append(arrow_frame(pa.table(columns)), commit)


def rows(table: LakeTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.delta().to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: json.dumps(row, default=str))


def test_a_batch_is_in_the_table_once(table: LakeTable) -> None:
    assert not table.exists()
    assert table.last_batch("q") is None
    assert append(table, 0, n=[1, 2])
    assert not append(table, 0, n=[1, 2])
    assert append(table, 3, n=[3])
    assert append(table, 0, query_id="other", n=[5])
    assert not append(table, 3, n=[3])
    assert rows(table) == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 5}]
    assert (table.last_batch("q"), table.last_batch("other")) == (3, 0)


@pytest.mark.parametrize(
    ("batch_id", "offsets", "words"),
    [
        (2, OFFSETS, r"table t has batch 3 of query q already"),
        (3, {"topic": {"0": [5, 20]}}, r"batch 3 of query q .*\[5, 20\].* has it with .*\[5, 9\]"),
    ],
)
def test_a_batch_of_other_records_is_not_taken_for_one_that_is_there(
    table: LakeTable, batch_id: int, offsets: dict[str, Any], words: str
) -> None:
    """Of a checkpoint that is older than the table: what the batch has more would be lost."""
    append(table, 3, n=[3])
    frame = arrow_frame(pa.table({"n": [4]}))
    for write in (table.append, lambda *given: table.upsert(*given, keys=["n"])):
        with pytest.raises(LakeError, match=words):
            write(frame, LakeCommit("q", batch_id, offsets))
    assert rows(table) == [{"n": 3}]


def test_offsets_are_in_the_commit(table: LakeTable) -> None:
    append(table, 0, n=[1])
    append(table, 1, n=[2])
    history = table.delta().history()
    assert [entry["ottla.batch_id"] for entry in history] == ["1", "0"]
    assert {entry["ottla.query_id"] for entry in history} == {"q"}
    assert json.loads(history[0]["ottla.offsets"]) == OFFSETS


def test_no_rows_leave_no_trace(table: LakeTable) -> None:
    empty = pa.array([], pa.int64())
    assert append(table, 0, n=empty)
    assert not table.exists()
    append(table, 1, n=[1])
    assert append(table, 2, n=empty)
    assert upsert(table, 3, ["n"], n=empty)
    assert table.last_batch("q") == 1
    assert table.delta().version() == 0


def test_a_new_column_comes_with_its_first_rows(table: LakeTable) -> None:
    append(table, 0, n=[1])
    assert append(table, 1, n=[2], new=["x"])
    assert table.delta().version() == 1
    assert not append(table, 1, n=[2], new=["x"])
    assert append(table, 2, n=[3])
    assert rows(table) == [{"n": 1, "new": None}, {"n": 2, "new": "x"}, {"n": 3, "new": None}]


def test_another_type_leaves_the_table_as_it_is(table: LakeTable) -> None:
    append(table, 0, n=[1])
    with pytest.raises(LakeError, match="column n is int64 in the table and string in the rows"):
        append(table, 1, n=["x"])
    assert table.last_batch("q") == 0


def test_upserted_rows_take_the_place_of_others(table: LakeTable) -> None:
    assert upsert(table, 0, ["Key", "k"], Key=["a", "b", None], k=[1, 1, 1], count=[1, 2, 3])
    assert upsert(table, 1, ["Key", "k"], Key=["b", None, "a"], k=[1, 1, 2], count=[20, 30, 40])
    assert not upsert(table, 1, ["Key", "k"], Key=["b"], k=[1], count=[1_000])
    assert rows(table) == [
        {"Key": "a", "k": 1, "count": 1},
        {"Key": "a", "k": 2, "count": 40},
        {"Key": "b", "k": 1, "count": 20},
        {"Key": None, "k": 1, "count": 30},
    ]
    assert upsert(table, 2, ["Key", "k"], Key=["c"], k=[1], count=[1], new=["x"])
    assert rows(table)[-2] == {"Key": "c", "k": 1, "count": 1, "new": "x"}


def test_a_replay_replaces_all_in_one_commit(table: LakeTable) -> None:
    append(table, 0, n=[1, 2])
    before = table.delta()
    assert replace(table, "again", s=["x"])
    assert not replace(table, "again", s=["x"])
    assert rows(table) == [{"s": "x"}]
    assert before.to_pyarrow_table().num_rows == 2
    assert table.delta().version() == before.version() + 1
    assert append(table, 1, query_id="again", s=["y"])
    assert replace(table, "empty", s=pa.array([], pa.string()))
    assert rows(table) == []
    assert table.last_batch("empty") == 0


def test_a_replay_replaces_what_was_upserted(table: LakeTable) -> None:
    upsert(table, 0, ["k"], k=[1], n=[1])
    frame = arrow_frame(pa.table({"k": [2], "n": [2]}))
    assert table.upsert(frame, LakeCommit("again", 0, is_replacing=True), keys=["k"])
    assert rows(table) == [{"k": 2, "n": 2}]


def test_a_replay_replaces_its_own_rows_where_queries_share_a_table(table: LakeTable) -> None:
    def write(query_id: str, *, is_replacing: bool, query: str, **columns: Any) -> bool:
        length = len(next(iter(columns.values())))
        columns["query"] = pa.array([query] * length, pa.string())
        commit = LakeCommit(query_id, 0, is_replacing=is_replacing)
        frame = arrow_frame(pa.table(columns))
        return table.append(frame, commit, own={"query": query})

    assert write("a", is_replacing=True, query="it's a", n=[1])
    assert write("b", is_replacing=False, query="b", n=[2])
    assert write("again", is_replacing=True, query="it's a", n=[3], new=["x"])
    assert not write("again", is_replacing=True, query="it's a", n=[3], new=["x"])
    assert rows(table) == [
        {"n": 2, "query": "b", "new": None},
        {"n": 3, "query": "it's a", "new": "x"},
    ]
    assert write("empty", is_replacing=True, query="b", n=pa.array([], pa.int64()))
    assert [row["n"] for row in rows(table)] == [3]
    assert table.last_batch("empty") == 0


def test_the_same_batch_from_two_drivers_is_taken_once(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits after this one has looked."""
    append(table, 0, n=[0])
    during_next_commit(monkeypatch, lambda: append(table, 1, n=[1]))
    assert not append(table, 1, n=[1])
    during_next_commit(monkeypatch, lambda: append(table, 2, n=[2], new=[2]))
    assert not append(table, 2, n=[2], new=[2])
    during_next_commit(monkeypatch, lambda: append(table, 3, n=[3]))
    assert not upsert(table, 3, ["n"], n=[3])
    assert [row["n"] for row in rows(table)] == [0, 1, 2, 3]


def test_others_may_commit_at_the_same_time(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    during_next_commit(monkeypatch, lambda: append(table, 0, query_id="r", n=[0]))
    assert append(table, 0, n=[10])
    during_next_commit(monkeypatch, lambda: append(table, 1, query_id="r", n=[1], new=["x"]))
    assert append(table, 1, n=[11])
    during_next_commit(monkeypatch, lambda: table.delta().optimize.compact())
    assert append(table, 2, n=[12])
    assert [row["n"] for row in rows(table)] == [0, 1, 10, 11, 12]


def test_a_commit_that_never_gets_through_is_told(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, 0, n=[0])

    def refuse(*_args: object, **_options: object) -> None:
        raise deltalake.exceptions.CommitFailedError("busy")

    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", refuse)
    with pytest.raises(LakeError, match=r"table t: batch 1 could not be committed.*busy"):
        append(table, 1, n=[1])


def during_next_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Between the look at the table and the commit."""
    properties = lake_table._properties

    def act_first(commit: lake_table.Commit) -> deltalake.CommitProperties:
        monkeypatch.setattr(lake_table, "_properties", properties)
        act()
        return properties(commit)

    monkeypatch.setattr(lake_table, "_properties", act_first)
