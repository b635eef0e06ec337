from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.pipeline.lake import files as lake_files
from ottla.pipeline.lake.files import FilesWriter, WrittenFile, conformed, split

SCHEMA = pa.schema([("n", pa.int64()), ("p", pa.string()), ("q", pa.int32())])


def rows(*values: tuple[int, str | None, int | None]) -> pa.RecordBatch:
    columns = zip(*values, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(one), field.type) for one, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def writer(folder: Path, partition_by: tuple[str, ...] = ("p", "q")) -> FilesWriter:
    return FilesWriter(str(folder), {}, SCHEMA, partition_by)


def test_one_file_for_each_partition_of_the_table(tmp_path: Path) -> None:
    files = writer(tmp_path).write([rows((1, "a/b", 1), (2, None, 1)), rows((3, "a/b", 1))])
    assert sorted(json.dumps(one.partition_values) for one in files) == [
        '{"p": "a/b", "q": "1"}',
        '{"p": null, "q": "1"}',
    ]
    for one in files:
        path = tmp_path / one.path
        assert path.stat().st_size == one.size_bytes
        folder = "p=__HIVE_DEFAULT_PARTITION__" if "HIVE" in one.path else "p=a%2Fb"
        assert path.parent == tmp_path / folder / "q=1"
        found = pq.ParquetFile(path).read()
        assert found.column_names == ["n"]
        assert json.loads(one.stats)["numRecords"] == found.num_rows


def test_what_was_written_is_read_with_its_partition(tmp_path: Path) -> None:
    written = rows((1, "ü", 1), (2, None, None), (3, "ü", 1))
    to = writer(tmp_path)
    found = pa.Table.from_batches(to.read(to.write([written]))).sort_by("n")
    assert found.to_pylist() == written.to_pylist()
    assert found.schema == SCHEMA


def test_two_attempts_do_not_meet(tmp_path: Path) -> None:
    to = writer(tmp_path, ())
    first, second = (to.write([rows((1, "a", 1))])[0].path for _ in range(2))
    assert first != second
    assert {first, second} == {path.name for path in tmp_path.iterdir()}


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert writer(tmp_path).write([]) == []
    assert writer(tmp_path).write([rows((1, "a", 1)).slice(1)]) == []
    assert list(tmp_path.iterdir()) == []


def test_in_a_task_rows_go_in_and_files_come_out(tmp_path: Path) -> None:
    (answer,) = writer(tmp_path)(iter([rows((1, "a", 1))]))
    (one,) = map(WrittenFile.from_row, answer.to_pylist())
    assert one.partition_values == {"p": "a", "q": "1"}
    assert (tmp_path / one.path).exists()
    (answer,) = writer(tmp_path)(iter([]))
    assert answer.num_rows == 0


def test_big_files_are_ended_and_few_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_files, "_PENDING_BYTES", 1)
    monkeypatch.setattr(lake_files, "_FILE_BYTES", 1)
    to = writer(tmp_path, ())
    assert len(to.write([rows((1, "a", 1)), rows((2, "a", 1))])) == 2
    monkeypatch.setattr(lake_files, "_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(lake_files, "_OPEN_FILES_MAX", 2)
    to = writer(tmp_path, ("q",))
    batches = [rows((one, "a", one % 3)) for one in range(9)]
    files = to.write(batches)
    assert len(files) > 3
    assert sorted(row["n"] for batch in to.read(files) for row in batch.to_pylist()) == [*range(9)]


def test_rows_of_a_partition_keep_their_order() -> None:
    table = pa.table({"n": [*range(100)], "p": [str(one % 7) for one in range(100)]})
    parts = list(split(table, ("p",)))
    assert [values for values, _ in parts] == [{"p": str(one)} for one in range(7)]
    for values, part in parts:
        assert part.to_pydict() == {"n": [*range(int(values["p"] or 0), 100, 7)]}


def test_batches_take_the_columns_of_the_table() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"at": pa.array([0], pa.timestamp("us", "Europe/Prague")), "n": [1]}
    )
    schema = pa.schema([("n", pa.int64()), ("new", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    found = conformed(batch, schema)
    assert found.schema == schema
    assert found.column("new").to_pylist() == [None]
