"""Parquet files of a lake table, as tasks write them. No Spark here: Arrow comes in, and what the
table's log has to know of the files goes out.

A file is in the table when a commit names it, and not before. Its name is unique, so what an
attempt leaves that failed is in nobody's way until vacuum removes it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from ottla.pipeline.kept_imports import keep_imports
from ottla.pipeline.lake.partition_values import folder, to_text
from ottla.pipeline.lake.statistics import statistics

_PENDING_BYTES = 64 << 20
"""Rows wait until there are so many of them, for big row groups."""

_ROW_GROUP_ROWS = 1 << 17
_FILE_BYTES = 512 << 20
"""In memory; on disk it is a fraction of it."""

_OPEN_FILES_MAX = 64

WRITTEN = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("partition_values", pa.string()),
        ("modification_time_ms", pa.int64()),
        ("stats", pa.string()),
    ]
)
WRITTEN_COLUMNS = (
    "path string, size_bytes long, partition_values string, modification_time_ms long, stats string"
)
"""The same, as Spark names the types."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    path: str
    """In the table's folder."""
    size_bytes: int
    partition_values: dict[str, str | None]
    modification_time_ms: int
    stats: str

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> WrittenFile:
        return cls(
            row["path"],
            row["size_bytes"],
            json.loads(row["partition_values"]),
            row["modification_time_ms"],
            row["stats"],
        )

    def to_row(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "size_bytes": self.size_bytes,
            "partition_values": json.dumps(self.partition_values),
            "modification_time_ms": self.modification_time_ms,
            "stats": self.stats,
        }


@dataclass(frozen=True, slots=True)
class FilesWriter:
    """Made on the driver and sent to every task: rows of the task in, rows of `WRITTEN` out."""

    uri: str
    storage_options: Mapping[str, str]
    schema: pa.Schema
    partition_by: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([one.to_row() for one in self.write(batches)], WRITTEN)
        keep_imports()

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
        writing = _Writing(self, self._file_system())
        for batch in batches:
            writing.add(batch)
        return writing.close()

    def read(self, files: Iterable[WrittenFile]) -> Iterator[pa.RecordBatch]:
        """What was written, partition columns included."""
        system = self._file_system()
        for one in files:
            with system.open_input_file(one.path) as content:
                for batch in pq.ParquetFile(content).iter_batches():
                    yield conformed(self._with_partition(batch, one.partition_values), self.schema)

    def _with_partition(
        self, batch: pa.RecordBatch, values: Mapping[str, str | None]
    ) -> pa.RecordBatch:
        for name, text in values.items():
            value = pa.array([text], pa.string()).cast(self.schema.field(name).type)[0]
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        return batch

    def _file_system(self) -> Any:
        """Of deltalake, so that files go by the same options as the log, to every store that it
        knows."""
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """In the table's columns; those that the batch does not have are null. Types differ at most in
    the zone that timestamps are shown in, and in what may be null."""
    columns = [
        batch.column(one.name).cast(one.type)
        if one.name in batch.schema.names
        else pa.nulls(batch.num_rows, one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(slots=True)
class _OpenFile:
    path: str
    partition_values: dict[str, str | None]
    stream: Any
    writer: pq.ParquetWriter
    metadata: list[Any]
    memory_bytes: int = 0


@dataclass(slots=True)
class _Writing:
    """Of one task's attempt: its pending rows, and one open file for each partition of the table
    that they fall into."""

    to: FilesWriter
    system: Any
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_bytes: int = 0
    open_files: dict[str, _OpenFile] = field(default_factory=dict)
    done: list[WrittenFile] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.pending.append(conformed(batch, self.to.schema))
            self.pending_bytes += batch.nbytes
            if self.pending_bytes >= _PENDING_BYTES:
                self._flush()

    def close(self) -> list[WrittenFile]:
        self._flush()
        self._close_files()
        return self.done

    def _flush(self) -> None:
        if not self.pending:
            return
        table = pa.Table.from_batches(self.pending)
        self.pending, self.pending_bytes = [], 0
        for values, rows in split(table, self.to.partition_by):
            self._write(values, rows)

    def _write(self, values: dict[str, str | None], rows: pa.Table) -> None:
        name = folder(values)
        if name not in self.open_files:
            if len(self.open_files) >= _OPEN_FILES_MAX:
                self._close_files()
            self.open_files[name] = self._open(name, values, rows.schema)
        file = self.open_files[name]
        file.writer.write_table(rows, _ROW_GROUP_ROWS)
        file.memory_bytes += rows.nbytes
        if file.memory_bytes >= _FILE_BYTES:
            self._close_file(self.open_files.pop(name))

    def _open(self, name: str, values: dict[str, str | None], schema: pa.Schema) -> _OpenFile:
        path = "/".join(filter(None, [name, f"part-{uuid.uuid4()}.zstd.parquet"]))
        stream = self.system.open_output_stream(path)
        metadata: list[Any] = []
        writer = pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            # The types of Parquet say all; Arrow's own would only be for Arrow.
            store_schema=False,
            metadata_collector=metadata,
        )
        return _OpenFile(path, values, stream, writer, metadata)

    def _close_files(self) -> None:
        for file in self.open_files.values():
            self._close_file(file)
        self.open_files = {}

    def _close_file(self, file: _OpenFile) -> None:
        schema = file.writer.schema
        file.writer.close()
        size_bytes = file.stream.tell()
        file.stream.close()
        (metadata,) = file.metadata
        self.done.append(
            WrittenFile(
                file.path,
                size_bytes,
                file.partition_values,
                time.time_ns() // 1_000_000,
                statistics(metadata, schema),
            )
        )


def split(
    table: pa.Table, partition_by: tuple[str, ...]
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """By the values of the partition columns, which a file does not hold. Rows keep their order."""
    if not partition_by:
        yield {}, table
        return
    names = list(partition_by)
    keys = table.select(names)
    groups = _groups(keys)
    if groups.num_rows > 1:
        table = table.take(pc.sort_indices(keys, [(name, "ascending") for name in names]))
        groups = _groups(table.select(names))
    start = 0
    for group in groups.to_pylist():
        values = {name: to_text(group[name]) for name in names}
        yield values, table.slice(start, group["count_all"]).drop_columns(names)
        start += group["count_all"]


def _groups(keys: pa.Table) -> pa.Table:
    """One row for each combination, in the order in which they appear first."""
    return keys.group_by(keys.column_names, use_threads=False).aggregate([([], "count_all")])
