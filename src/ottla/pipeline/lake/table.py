"""A Delta table that micro-batches are written to, each exactly once. Frames are Spark's; this
module imports Spark only when it is handed one.

Tasks write Parquet files. The driver then names them in one commit, together with the application
transaction (query id, batch id) and the offsets of the input: so a batch is in the table as a whole
or not at all, and the table itself tells that it is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from ottla.pipeline.lake.files import WRITTEN_COLUMNS, FilesWriter, WrittenFile, conformed
from ottla.pipeline.lake.schema import (
    LakeError,
    check_columns,
    check_keys,
    check_partitions,
    lake_schema,
    merged,
)
from ottla.pipeline.unwritten import evaluate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 10
"""Of a commit. Appends of others do not stand in the way; rewritten files and changed schemas may,
but not so often in a row."""

_HISTORY_MAX = 1000
"""Commits that are looked through for one of a batch that is run again: it is among the last."""
_OTHER_BATCH = (
    "the checkpoint is older than the table, or a copy of it is in use; remedy: go on with the "
    "checkpoint that is ahead, or replay"
)

_FILE = "__file"
_WRITER = WriterProperties(compression="ZSTD")
"""Where deltalake writes files itself."""


class Commit(Protocol):
    """See LakeCommit."""

    @property
    def query_id(self) -> str: ...
    @property
    def batch_id(self) -> int: ...
    @property
    def offsets(self) -> Mapping[str, Any]: ...
    @property
    def is_replacing(self) -> bool: ...
    def begin(self, table: str) -> None: ...


@dataclass(frozen=True, slots=True)
class LakeTable:
    """By name; there may be no such table yet. Holds nothing open: each call reads the log."""

    name: str
    uri: str
    storage_options: Mapping[str, str]

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self.uri, dict(self.storage_options))

    def delta(self) -> DeltaTable:
        """As it is now."""
        return DeltaTable(self.uri, storage_options=dict(self.storage_options))

    def last_batch(self, query_id: str) -> int | None:
        """The newest batch of a query that is in the table."""
        table = self._now()
        return None if table is None else table.transaction_version(query_id)

    def read(self, spark: SparkSession) -> DataFrame:
        """What is committed now, by Spark's own reader of Parquet. Files that are replaced later
        can be read until a vacuum removes them."""
        from pyspark.sql.functions import broadcast
        from pyspark.sql.pandas.types import from_arrow_schema

        table = self.delta()
        schema = _schema_of(table)
        actions = pa.table(table.get_add_actions(flatten=True))
        if not actions.num_rows:
            return spark.createDataFrame([], from_arrow_schema(schema))
        partition_by = table.metadata().partition_columns
        in_files = pa.schema([one for one in schema if one.name not in partition_by])
        reader = spark.read.schema(from_arrow_schema(in_files))
        # Partition values are those of the log: writers disagree on how folders spell them.
        rows = reader.option("recursiveFileLookup", "true").parquet(*table.file_uris())
        if partition_by:
            names = [path.rsplit("/", 1)[-1] for path in actions["path"].to_pylist()]
            values = actions.select([f"partition.{name}" for name in partition_by])
            files = values.rename_columns(partition_by).append_column(_FILE, pa.array(names))
            rows = rows.withColumn(_FILE, rows["_metadata.file_name"])
            rows = rows.join(broadcast(spark.createDataFrame(files)), _FILE)
        return rows.select(*(f"`{name}`" for name in schema.names))

    def append(
        self,
        frame: DataFrame,
        commit: Commit,
        *,
        partition_by: Sequence[str] = (),
        own: Mapping[str, str] | None = None,
    ) -> bool:
        """False: the batch is in the table already, and nothing was written. A batch without rows
        leaves no trace. New columns are added to the table; other changes are a LakeError.

        Where several queries share the table, `own` are the columns and values that their rows are
        told apart by: a replay replaces those of its own query only."""
        commit.begin(self.name)
        table = self._now()
        if self._has(table, commit):
            evaluate(frame)
            return False
        is_emptied = commit.is_replacing and not own
        writer = self._writer(table, frame, partition_by, is_emptied=is_emptied)
        # Spark runs the attempts, and hands back the rows of those that were successful.
        rows = frame.mapInArrow(writer, WRITTEN_COLUMNS).collect()
        files = [WrittenFile.from_row(row.asDict()) for row in rows]
        return self._committed(commit, lambda now: self._add(now, writer, files, commit, own or {}))

    def upsert(
        self,
        frame: DataFrame,
        commit: Commit,
        *,
        keys: Sequence[str],
        partition_by: Sequence[str] = (),
    ) -> bool:
        """Rows take the place of those with the same keys (null is a key like any other), and are
        added where there are none. For small frames, as aggregates are: they pass through the
        driver. Answers as append does."""
        commit.begin(self.name)
        table = self._now()
        if self._has(table, commit):
            evaluate(frame)
            return False
        writer = self._writer(table, frame, partition_by, is_emptied=commit.is_replacing)
        batches = [conformed(one, writer.schema) for one in frame.toArrow().to_batches()]
        rows = pa.Table.from_batches(batches, writer.schema)
        check_keys(self.name, rows, keys)

        def write(now: DeltaTable | None) -> None:
            if now is None or commit.is_replacing:
                self._add(now, writer, writer.write(rows.to_batches()), commit, {})
            elif rows.num_rows:
                self._merge(now, rows, keys, commit)

        return self._committed(commit, write)

    def _has(self, table: DeltaTable | None, commit: Commit) -> bool:
        """Raises LakeError where another batch is there under this number. A query runs one batch
        after the other, so that is of a checkpoint which is older than the table, or was copied:
        to leave the batch out would lose what it has more than the other one."""
        last = None if table is None else table.transaction_version(commit.query_id)
        if table is None or last is None or last < commit.batch_id:
            return False
        if last > commit.batch_id:
            raise LakeError(
                f"batch {commit.batch_id} of query {commit.query_id} is to be written, but table "
                f"{self.name} has batch {last} of query {commit.query_id} already: {_OTHER_BATCH}"
            )
        wanted, found = json.dumps(commit.offsets), _offsets_of(table, commit)
        if found is not None and json.loads(found) != json.loads(wanted):
            raise LakeError(
                f"batch {commit.batch_id} of query {commit.query_id} has offsets {wanted}, but "
                f"table {self.name} has it with {found}: {_OTHER_BATCH}"
            )
        return True

    def _now(self) -> DeltaTable | None:
        return self.delta() if self.exists() else None

    def _writer(
        self,
        table: DeltaTable | None,
        frame: DataFrame,
        partition_by: Sequence[str],
        *,
        is_emptied: bool,
    ) -> FilesWriter:
        """Its schema is the one that the table has after the commit."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = lake_schema(to_arrow_schema(frame.schema, timezone="UTC"))
        check_columns(schema, partition_by)
        if table is not None:
            check_partitions(self.name, table.metadata().partition_columns, partition_by)
            if not is_emptied:
                schema = merged(self.name, _schema_of(table), schema)
        elif "://" not in self.uri:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        return FilesWriter(self.uri, self.storage_options, schema, tuple(partition_by))

    def _committed(self, commit: Commit, write: Callable[[DeltaTable | None], None]) -> bool:
        """Whoever else commits in the meantime. The state that is looked at for the batch is the
        one that the commit is based on: deltalake refuses it if the same query came between."""
        problem: DeltaError | None = None
        for _ in range(_ATTEMPTS):
            table = self._now()
            if self._has(table, commit):
                return False
            try:
                write(table)
            except DeltaError as error:
                # Two may make the table at the same time.
                is_made_by_others = table is None and self.exists()
                if not isinstance(error, CommitFailedError) and not is_made_by_others:
                    raise
                problem = error
            else:
                return True
        raise LakeError(
            f"table {self.name}: batch {commit.batch_id} could not be committed in {_ATTEMPTS} "
            f"attempts, since others changed the table each time; the last said: {problem}"
        )

    def _add(
        self,
        table: DeltaTable | None,
        writer: FilesWriter,
        files: Sequence[WrittenFile],
        commit: Commit,
        own: Mapping[str, str],
    ) -> None:
        schema, partition_by = Schema.from_arrow(writer.schema), list(writer.partition_by)
        adds = [_add_action(one) for one in files]
        properties = _properties(commit)
        if table is not None and commit.is_replacing and own:
            self._write_again(table, writer, files, properties, _predicate(own))
        elif table is not None and commit.is_replacing:
            table.create_write_transaction(
                [*adds], "overwrite", schema, partition_by, commit_properties=properties
            )
        elif not adds:
            return
        elif table is None:
            create_table_with_add_actions(
                self.uri,
                schema,
                adds,
                partition_by=partition_by,
                storage_options=dict(self.storage_options),
                commit_properties=properties,
            )
        elif merged(self.name, _schema_of(table), writer.schema).equals(_schema_of(table)):
            table.create_write_transaction(
                [*adds], "append", schema, partition_by, commit_properties=properties
            )
        else:
            self._write_again(table, writer, files, properties)

    def _write_again(
        self,
        table: DeltaTable,
        writer: FilesWriter,
        files: Sequence[WrittenFile],
        properties: CommitProperties,
        replaced: str | None = None,
    ) -> None:
        """By the driver, which reads the files for it: a commit of named files cannot change the
        schema, nor replace some rows of a file. Both are rare."""
        options: dict[str, Any] = {
            "schema_mode": "merge",
            "writer_properties": _WRITER,
            "commit_properties": properties,
        }
        batches = writer.read(files)
        # deltalake asks for rows in a thread of its own, in which it cannot read files for us.
        with ThreadPoolExecutor(1) as reader:
            rows = iter(lambda: reader.submit(next, batches, None).result(), None)
            data = pa.RecordBatchReader.from_batches(writer.schema, rows)
            if replaced is None:
                write_deltalake(table, data, mode="append", **options)
            else:
                write_deltalake(table, data, mode="overwrite", predicate=replaced, **options)

    def _merge(
        self, table: DeltaTable, rows: pa.Table, keys: Sequence[str], commit: Commit
    ) -> None:
        merger = table.merge(
            rows,
            " AND ".join(f"(t.`{key}` IS NOT DISTINCT FROM s.`{key}`)" for key in keys),
            source_alias="s",
            target_alias="t",
            merge_schema=True,
            # Files that cannot hold any of the keys are not read.
            streamed_exec=False,
            writer_properties=_WRITER,
            commit_properties=_properties(commit),
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()


def _offsets_of(table: DeltaTable, commit: Commit) -> str | None:
    """Those that the batch was committed with. None where its commit is not in the log any more:
    then the number alone tells."""
    for entry in table.history(_HISTORY_MAX):
        key = entry.get("ottla.query_id"), entry.get("ottla.batch_id")
        if key == (commit.query_id, str(commit.batch_id)):
            return str(entry["ottla.offsets"])
    return None


def _predicate(own: Mapping[str, str]) -> str:
    quoted = {name: value.replace("'", "''") for name, value in own.items()}
    return " AND ".join(f"(`{name}` = '{value}')" for name, value in quoted.items())


def _schema_of(table: DeltaTable) -> pa.Schema:
    return lake_schema(pa.schema(table.schema().to_arrow()))


def _add_action(file: WrittenFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition_values,
        modification_time=file.modification_time_ms,
        data_change=True,
        stats=file.stats,
    )


def _properties(commit: Commit) -> CommitProperties:
    return CommitProperties(
        custom_metadata={
            "ottla.query_id": commit.query_id,
            "ottla.batch_id": str(commit.batch_id),
            "ottla.offsets": json.dumps(commit.offsets),
        },
        app_transactions=[Transaction(commit.query_id, commit.batch_id)],
    )
